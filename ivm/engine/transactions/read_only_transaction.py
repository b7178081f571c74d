"""A READ ONLY transaction: its queries see one epoch, and it holds up no writer.

Law: all its queries read one snapshot of DuckDB's, pinned at the first of them, with every commit
before that. Memory goes on with the writers, so it answers nothing here. Only temporary tables can
be changed.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable
from dataclasses import replace

from ivm.catalog.version import CatalogVersion
from ivm.engine.engine import Engine
from ivm.engine.transactions.transaction import Transaction
from ivm.engine.transactions.transaction_views import RefuseTemporary
from ivm.engine.transactions.watermark_moves import Late
from ivm.storage.errors import UnavailableError
from ivm.storage.log.change import TableChange
from ivm.storage.warehouse.duckdb.duck import Cursor, run


class ReadOnlyTransaction(Transaction):
    """A snapshot, and its end.

    Args:
        engine: the database's engine.
        cursor: the session's cursor, which gets the snapshot.
        refuse_temporary: as of `OpenChanges`.
    """

    reads_only = True

    def __init__(self, engine: Engine, cursor: Cursor, refuse_temporary: RefuseTemporary) -> None:
        super().__init__(engine, cursor, refuse_temporary, begun=True)
        self._pinned = CatalogVersion(engine.catalog.database)

    def _acquire(self, *, owned: bool) -> None:
        """Does nothing: no other transaction has to wait for it."""

    def begin_time(self) -> None:
        """Does nothing: the snapshot is of one time."""

    def add(self, change: TableChange, late: Late = "refused") -> None:
        """Refuses the change."""
        raise changes_nothing(f"table {change.table!r} cannot be changed")

    @property
    def version(self) -> CatalogVersion:
        """The catalog as of the snapshot."""
        self.begin_in_duckdb()
        return self._pinned

    def show(self, relations: Iterable[str]) -> None:
        """Pins the snapshot, in which every view is up to its tables."""
        self.begin_in_duckdb()

    def begin_in_duckdb(self) -> None:
        """Pins the snapshot of the last commit; waits for a writer only where views are stale."""
        if self.in_duckdb or self._pins():
            return
        with self._engine.alone():
            self._engine.recomputed.refresh_all()
            self._pins(anyhow=True)  # a view that cannot be computed is stale still

    def _pins(self, *, anyhow: bool = False) -> bool:
        engine = self._engine
        with engine.warehouse.write_lock:  # no flush comes between
            engine.tables.flush()
            committed = engine.catalog.version.as_committed
            if engine.recomputed.is_outdated(committed.views) and not anyhow:
                return False
            views = {name: copy.copy(view) for name, view in committed.views.items()}
            self._pinned = replace(committed, views=views)
            self.in_duckdb = True  # before BEGIN: an interrupt after it must roll it back
            engine.warehouse.pin(self._cursor)
        return True

    def commit(self) -> None:
        """Ends it; what it has changed in temporary tables stays."""
        with self:
            try:
                if self.in_duckdb:
                    run(self._cursor, "COMMIT")
            except BaseException:
                self.rollback()
                raise
            self._end("the transaction is already committed")

    def _roll_back(self) -> None:
        with contextlib.ExitStack() as ending:
            ending.callback(self._end, "the transaction is already rolled back")
            if self.in_duckdb:
                self._roll_back_cursor()

    def _end(self, reason: str) -> None:
        self.over = reason


def changes_nothing(what: str) -> UnavailableError:
    """The error that refuses a change."""
    return UnavailableError(f"{what} in a READ ONLY transaction: end it first")
