"""The time of a transaction: whatever asks for the time in one of its statements asks here.

Law: a transaction has one time. A statement without BEGIN tells that of its session, once; where it
may be told again, and after BEGIN, a transaction of DuckDB's has begun on the session's cursor, in
which the time stands. That one reads nothing before a statement needs it, so that it sees what is
flushed until then.
"""

from __future__ import annotations

import contextlib

import duckdb

from ivm.ingest.local_time import LocalTime
from ivm.storage.warehouse.duckdb.duck import Cursor, run
from ivm.storage.warehouse.tables.system_tables import load_epochs
from ivm.storage.warehouse.warehouse import Warehouse


class TransactionTime:
    """The time, and DuckDB's transaction that only tells it.

    Args:
        cursor: the session's.
        local: tells the session's time.
        begun: whether BEGIN opened the transaction.

    Attributes:
        begun: as given.
        stands: DuckDB's transaction has begun on the cursor, only to tell the time.
    """

    def __init__(self, cursor: Cursor, local: LocalTime, *, begun: bool) -> None:
        self._cursor, self._local, self._told = cursor, local, False
        self.begun, self.stands = begun, False

    @property
    def local(self) -> LocalTime | None:
        """What tells the time without DuckDB; None where it stands."""
        return None if self.stands else self._local

    def begin(self) -> None:
        """Begins DuckDB's transaction, in which the time stands."""
        self.stands = True  # before BEGIN: an interrupt after it must roll it back
        run(self._cursor, "BEGIN TRANSACTION")

    def tell(self, *, often: bool) -> bool:
        """Notes that a statement is about to tell the time.

        Args:
            often: whether it may do so again: then the time has to stand.

        Returns:
            False if it has told a time that has passed: DuckDB must run it.
        """
        if self.begun:
            return True
        told, self._told = self._told, True
        if often and not told and not self.stands:
            self.begin()
        return self.stands or not told

    def go_on(self, warehouse: Warehouse) -> bool:
        """Returns whether DuckDB's transaction has begun and sees all that is flushed by now.

        One that has begun to read too early is rolled back.
        """
        stands, self.stands = self.stands, False
        if not stands:
            return False
        with contextlib.closing(warehouse.cursor()) as cursor:
            if load_epochs(self._cursor) == load_epochs(cursor):
                return True
        run(self._cursor, "ROLLBACK")
        return False

    def end(self) -> None:
        """Ends DuckDB's transaction, if it has not gone on."""
        if self.stands:
            self.stands = False
            with contextlib.suppress(duckdb.Error):  # an error has aborted it
                run(self._cursor, "ROLLBACK")
