"""A second session on an open database, for a caller that needs one that is not its thread's.

Contract: it can do what the database can, in a transaction and with temporary tables of its own.
Closing it closes nothing but the session.
"""

from __future__ import annotations

from ivm.database import Database
from ivm.session.session import Session
from ivm.storage.errors import UnavailableError
from ivm.storage.interrupts import Deferral
from ivm.storage.warehouse.duckdb_errors import Translating

_PATIENCE = 10.0  # seconds that closing waits for a statement of another thread


class Connection(Database):
    """One session, used by any thread, by one at a time.

    Args:
        database: stays open as long as its owner keeps it so.
    """

    def __init__(self, database: Database) -> None:
        self.path = database.path
        self._database = database  # a database without references is closed
        self._spark, self._engine = database._spark, database._engine
        self._lifetime = database._lifetime
        self._own: Session | None = self._lifetime.session()

    def _session(self) -> Session:
        self._lifetime.demand_open()
        if self._own is None:
            raise UnavailableError("the connection is closed: make another one")
        return self._own

    def rollback(self) -> None:
        """Undoes the transaction; does nothing where closing has undone it already."""
        if self._own is not None and not self._lifetime.closed:
            super().rollback()

    def close(self) -> None:
        """Rolls back the open transaction and ends the session; closing twice does nothing."""
        own, self._own = self._own, None
        if own is not None and not self._lifetime.closed:
            with Deferral(), Translating():
                own.close(_PATIENCE)
