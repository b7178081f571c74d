"""The flush before a transaction's first statement in DuckDB, which may come after the statement.

Contract: DuckDB may refuse pending rows for a reason that the statement removes (it drops the table
or the index that refuses them). Then they are written after it, in its transaction or behind it.
"""

from __future__ import annotations

from ivm.engine.tables.stored_tables import StoredTables
from ivm.storage.warehouse.duckdb.duck import Cursor, run
from ivm.storage.warehouse.flush.refused import RefusedError


class LateFlush:
    """The flush of one transaction.

    Args:
        tables: whose pending deltas are flushed.
        cursor: the session's.
    """

    def __init__(self, tables: StoredTables, cursor: Cursor) -> None:
        self._tables = tables
        self._cursor = cursor
        self._allowed = False
        self._within = False
        self.refused = False

    def allow(self) -> None:
        """Lets the flush fail before the transaction's only statement."""
        self._allowed = True

    def flush(self) -> None:
        """Flushes before the DuckDB transaction begins."""
        try:
            self._tables.flush()
        except RefusedError:
            if not self._allowed:
                raise
            self.refused = True

    def behind(self) -> None:
        """Flushes after the statement, which is committed first.

        DuckDB checks rows against a dropped index until the drop is committed.
        """
        self._tables.warehouse.demand_in_place()
        run(self._cursor, "COMMIT")
        self._tables.warehouse.tables()
        self._tables.flush()
        run(self._cursor, "BEGIN TRANSACTION")

    def within(self) -> None:
        """Flushes after the statement, in its transaction."""
        self._tables.warehouse.write_lock.acquire()
        self._within = True
        self._tables.flush_within(self._cursor)

    def confirm(self) -> None:
        """The transaction is committed."""
        if self._within:
            self._tables.pending.confirm()

    def end(self) -> None:
        """The transaction is over."""
        if self._within:
            self._tables.pending.put_back()  # does nothing after `confirm`
            self._tables.warehouse.write_lock.release()
