"""The tables in which views rest: filled by their queries, or from the circuit.

Law: deltas take out exactly the rows they once put in, so where DuckDB rounds otherwise than the
circuit, the first rows of a table are the circuit's. Who listens to a view that is filled anew is
told the difference.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ivm.catalog.catalog import View
from ivm.storage.errors import EvaluationError, UnsupportedError
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.zset import ZSet, add
from ivm.storage.warehouse.carried import unfit_type, why_unfit
from ivm.storage.warehouse.duck import Cursor, run
from ivm.storage.warehouse.net_changes import PendingView
from ivm.storage.warehouse.system_tables import State, StoredView, save_view

if TYPE_CHECKING:
    from ivm.engine.engine import Engine


class ViewTables:
    """Those of one database.

    Args:
        engine: what reads and writes tables, and holds the circuit.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def settle(self, view: View) -> None:
        """Put the circuit's own rows into the view's table, where DuckDB would round otherwise.

        Deltas take out exactly the rows they once put in, so the first ones must be the circuit's.

        Raises:
            EvaluationError: the circuit cannot be filled; no change can be followed either.
        """
        closing = contextlib.closing(self._engine.warehouse.cursor())  # a failure undoes it
        with self._engine.warehouse.write_lock, closing as cursor:
            run(cursor, "BEGIN TRANSACTION")
            run(cursor, f"DELETE FROM {self._engine.catalog.qualified[view.name]}")
            held = PendingView(view.schema)  # takes rows out, maybe before they have been put in
            for chunk in self._engine.maintenance.contents(view):
                part = PendingView(view.schema) if (chunk.weights > 0).all() else held
                part.add(chunk)
                if part is not held:
                    self._engine.tables.write(cursor, view.name, part.net())
            self._engine.tables.write(cursor, view.name, held.net())
            save_view(cursor, self.stored(view, exact=True))
            run(cursor, "COMMIT")

    def stored(self, view: View, *, exact: bool) -> StoredView:
        """The view as the file records it.

        One that needs its rows rewritten gets them at the next opening at the latest, one that was
        recomputed is filled anew by the first opening that maintains it by deltas.
        """
        given = () if view.schema == view.described else tuple(n for n, _ in view.schema)
        state: State = "exact" if exact else "needs_rewrite"
        return StoredView(view.name, view.query, given, state if view.incremental else "recomputed")

    def rebuild(
        self, dropped: Collection[str], filled: Collection[str], before: Mapping[str, ZSet]
    ) -> None:
        """Views were dropped, or bound and filled anew: forget their circuits, compile new ones.

        Args:
            dropped: their names; some may have been created anew.
            filled: their names.
            before: the rows that the listeners of views that stay know of.
        """
        for name in {*dropped, *filled}:  # all of them before any is compiled: they share nodes
            self._engine.maintenance.detach(name)
        for name in dropped:
            self._engine.feeds.close(name)
        views = [view for name, view in self._engine.catalog.views.items() if name in filled]
        for view in views:
            self._engine.maintenance.attach(view)
        with contextlib.suppress(EvaluationError):  # the next change says so, and is refused
            if unsettled := [view for view in views if view.rounds]:
                self._engine.maintenance.hydrate()
                for view in unsettled:
                    self.settle(view)
            else:
                self._engine.maintenance.hydrate(early=True)
        deltas = {name: self._since(name, rows) for name, rows in before.items()}
        self._engine.feeds.tell(
            self._engine.epoch, {name: delta for name, delta in deltas.items() if len(delta)}
        )

    def _since(self, name: str, before: ZSet) -> ZSet:
        schema = self._engine.catalog.relation_schema(name)
        return consolidate(
            add([self._engine.tables.content(name), before.negate()]), [t for _, t in schema]
        )

    def refill(self, cursor: Cursor, view: View) -> None:
        """Replace a view's rows by its query's answer, as the cursor's transaction sees it."""
        run(cursor, f"DELETE FROM {self._engine.catalog.qualified[view.name]}")
        self.fill(cursor, view, self._engine.catalog.qualified[view.name])

    def fill(self, cursor: Cursor, view: View, table: str) -> None:
        """Fill a view's empty table with its query's answer, as the cursor's transaction sees it.

        Raises:
            UnsupportedError: a value in it, or in what it reads, cannot be followed.
        """
        with self._engine.warehouse.zone.on(cursor):
            run(cursor, f"INSERT INTO {table} {self._engine.maintenance.text(view)}")
        for relation in (*[self._engine.catalog.qualified[name] for name in view.reads], table):
            type = unfit_type(cursor.sql(f"FROM {relation}"))
            if type is not None:
                raise UnsupportedError(f"the view {view.name} over {relation}: {why_unfit(type)}")
