"""Connections as PEP 249 has them: a transaction begins by itself, and ends by commit or rollback.

Contract: all connections of a process to one file share one open database, that of `ivm.connect`
if there is one. A transaction begins at the first statement that changes something: what only reads
holds no other connection up.
"""

from __future__ import annotations

import datetime
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duckdb import (  # type: ignore[attr-defined]
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
)

from ivm.connection import Connection as Session
from ivm.cursor import Cursor, InterfaceError
from ivm.database import Database
from ivm.lifetime import opened
from ivm.sql.statements import parse as st
from ivm.storage.errors import (
    ConstraintError,
    EvaluationError,
    InternalError,
    IvmError,
    SqlError,
    UnavailableError,
    UnsupportedError,
)

apilevel = "2.0"
threadsafety = 2  # threads share the module and connections
paramstyle = "qmark"


class Warning(Exception):  # noqa: N818 -- PEP 249 has the name
    """Nothing raises it; PEP 249 wants it to be there."""


Error = DatabaseError = IvmError
DataError = EvaluationError
IntegrityError = ConstraintError
NotSupportedError = UnsupportedError
OperationalError = UnavailableError
ProgrammingError = SqlError

Binary = bytes
Date, Time, Timestamp = datetime.date, datetime.time, datetime.datetime
DateFromTicks = datetime.date.fromtimestamp
TimestampFromTicks = datetime.datetime.fromtimestamp


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802 -- PEP 249 has the name
    """The time of day of so many seconds since 1970, where the program runs."""
    return datetime.datetime.fromtimestamp(ticks).time()


__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

_CHANGES = (st.Dml, st.CreateView, st.DropView, st.RefreshView)
_DEFINES = ("create", "drop", "alter", "comment")


class Connection(Session):
    """A connection of PEP 249.

    Attributes:
        autocommit: whether each statement is a transaction of its own.
    """

    def __init__(self, database: Database, shared: _Shared | None = None) -> None:
        super().__init__(database)
        self.autocommit = False
        self._shared = shared

    def cursor(self) -> Cursor:
        """A cursor; it has the connection's transaction."""
        return Cursor(self, self._before)

    def close(self) -> None:
        """Rolls back what is not committed; the last connection of a file closes it."""
        super().close()
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.leave()

    def _before(self, operation: str) -> None:
        idle = not self.autocommit and not self.in_transaction and self.aborted is None
        if idle and any(_changes(statement) for statement in st.parse(operation)):
            self.begin()


def _changes(statement: st.Statement) -> bool:
    if isinstance(statement, st.Ddl):
        return statement.action in _DEFINES
    return isinstance(statement, _CHANGES)


@dataclass
class _Shared:
    """A database that connections of this module have opened, and their number."""

    database: Database
    key: str
    users: int = 0

    def leave(self) -> None:
        with _lock:
            self.users -= 1
            if self.users == 0:
                _shared.pop(self.key, None)
                self.database.close()


_lock = threading.Lock()
_shared: dict[str, _Shared] = {}


def connect(database: Database | str | Path = ":memory:", **options: Any) -> Connection:
    """Opens a connection.

    Args:
        database: an open one, or the path of a file; each connection to ":memory:" is to a
            database of its own.
        options: of `ivm.connect`, where the file is opened by this call.

    Raises:
        UnavailableError: another process has the file open.
    """
    if isinstance(database, Database):
        return Connection(database)
    memory = str(database) == ":memory:"
    with _lock:
        key = f":memory:{id(object())}" if memory else str(Path(database).resolve())
        if key not in _shared:
            found = None if memory else opened(key)
            if isinstance(found, Database):
                return Connection(found)
            _shared[key] = _Shared(Database(database, **options), key)
        shared = _shared[key]
        shared.users += 1
    return Connection(shared.database, shared)
