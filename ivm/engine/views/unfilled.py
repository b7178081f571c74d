"""Views whose first fill on Spark has not ended: their folders, and what must wait for them.

Invariant: from the snapshot that a fill reads until its end, the log keeps every later record, and
its changes have the columns that the view reads. A change that no record holds makes the snapshot
useless: it is forgotten before that change is committed, while nobody can pin another one; and one
that has been pinned before is not begun with.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from ivm.catalog.binding import BindingCatalog
from ivm.catalog.broken_views import UNFILLED
from ivm.catalog.catalog import Catalog
from ivm.catalog.version import View
from ivm.spark_backfill.stages import Staging
from ivm.sql.plan.nodes import Scan
from ivm.sql.plan.walks import nodes
from ivm.storage.warehouse.warehouse import Warehouse


class Unfilled:
    """The views of one database that wait for their first rows.

    Args:
        warehouse: the file and its log.
        catalog: the views.

    Attributes:
        generation: a number that grows whenever the snapshots of some tables are outdated.
    """

    def __init__(self, warehouse: Warehouse, catalog: Catalog) -> None:
        self._warehouse = warehouse
        self._catalog = catalog
        self._unrecorded: frozenset[str] = frozenset()
        self.generation = 0
        self._refreshed: str | None = None
        nothing: dict[str, frozenset[int]] = {}
        self._columns = catalog.version, nothing  # of the catalog as it was when they were read

    def views(self) -> list[View]:
        """The views that are not filled yet."""
        return [view for view in self._catalog.views.values() if view.broken == UNFILLED]

    def folder(self, name: str) -> Path:
        """The folder of a view's fill; the database has a file."""
        assert self._warehouse.log is not None
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        self._warehouse.demand_in_place()
        return self._warehouse.log.folder / "backfill" / digest

    def columns_read(self, table: str) -> frozenset[int]:
        """The positions of the table's columns that some unfilled view reads."""
        version, (known, columns) = self._catalog.version, self._columns
        if known is not version:
            columns = self._read()
            self._columns = version, columns
        return columns.get(table, frozenset())

    def _read(self) -> dict[str, frozenset[int]]:
        found: dict[str, frozenset[int]] = {}
        names = BindingCatalog(self._catalog.version)
        plans = [view.plan for view in self.views() if view.plan is not None]
        for scan in [node for plan in plans for node in nodes(plan)]:
            if isinstance(scan, Scan):
                name = names.canonical(scan.relation)
                found[name] = found.get(name, frozenset()).union(scan.columns)
        return found

    def hold(self) -> None:
        """Keeps what fills need that an earlier process began, and removes what nobody needs."""
        log = self._warehouse.log
        if log is None:
            return
        kept = {self.folder(view.name): view.name for view in self.views()}
        for folder in (log.folder / "backfill").glob("*"):
            if folder not in kept:
                shutil.rmtree(folder, ignore_errors=True)
                continue
            epoch = Staging(folder).epoch
            if epoch is not None:
                log.hold(kept[folder], epoch)

    def outdate(self, tables: Collection[str]) -> None:
        """Forgets the snapshots of fills that read these tables, which change without a record."""
        if self._warehouse.log is None or not tables:
            return
        for view in self.views():
            if not view.bases.isdisjoint(tables):
                self.generation += 1
                Staging(self.folder(view.name)).outdate()

    def outdate_twice(self, tables: Collection[str]) -> None:
        """The same now and at the commit that changes the tables."""
        self._unrecorded |= frozenset(tables)
        self.outdate(tables)

    def outdate_committed(self, tables: Collection[str]) -> None:
        """The same for these tables and those of `outdate_twice`, right before their commit.

        The caller has the lock under which snapshots are pinned.
        """
        self.outdate([*tables, *self._unrecorded])
        self._unrecorded = frozenset()

    @contextlib.contextmanager
    def refreshing(self, name: str) -> Iterator[None]:
        """Keeps the fill of a view from writing rows during a block; its caller is the writer.

        A transaction that the block begins sees, and can remove, all that the fill has written.
        """
        with self._warehouse.write_lock:
            self._refreshed = name
        try:
            yield
        finally:
            self._refreshed = None

    def is_refreshed(self, name: str) -> bool:
        """Whether a view's fill may not write; asked under the warehouse's `write_lock`."""
        return name == self._refreshed

    def sweep(self) -> None:
        """Removes the traces of fills whose views were dropped, replaced or filled by DuckDB."""
        if self._warehouse.log is not None:
            left = {view.name for view in self.views()}
            for name in set(self._warehouse.log.held) - left:
                self.forget(name)

    def forget(self, name: str) -> None:
        """Removes all traces of a fill that has ended, or of one whose view is gone."""
        if self._warehouse.log is not None:
            self._warehouse.log.release(name)
            shutil.rmtree(self.folder(name), ignore_errors=True)
