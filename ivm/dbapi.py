"""The database as PEP 249 has one: for pandas, SQLAlchemy and the like.

Contract: all connections of a process to one file share one open database: that of `ivm.connect` if
there is one, else one that is closed with the last of them.
"""

from __future__ import annotations

import datetime
import threading
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from ivm.connection import Connection, Cursor
from ivm.database import Database
from ivm.lifetime import opened
from ivm.storage.errors import (
    ConstraintError,
    EvaluationError,
    InputError,
    InternalError,
    IvmError,
    UnavailableError,
    UnsupportedError,
)

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
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
]  # fmt: skip

apilevel = "2.0"
threadsafety = 1
paramstyle = "qmark"

Warning = UserWarning
Error = DatabaseError = IvmError
InterfaceError = ProgrammingError = InputError
DataError = EvaluationError
IntegrityError = ConstraintError
OperationalError = UnavailableError
NotSupportedError = UnsupportedError

Binary = bytes
Date, Time, Timestamp = datetime.date, datetime.time, datetime.datetime
DateFromTicks = datetime.date.fromtimestamp
TimestampFromTicks = datetime.datetime.fromtimestamp


class TypeObject:
    """Equals the type codes, in a `description`, of columns of some types: DuckDB's texts of them.

    Args:
        names: of the types, without a DECIMAL's digits.
    """

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def __eq__(self, code: object) -> bool:
        return isinstance(code, str) and (code in self._names or self._is_decimal(code))

    def __hash__(self) -> int:
        return hash(self._names)

    def _is_decimal(self, code: str) -> bool:
        return "DECIMAL" in self._names and code.startswith("DECIMAL(") and code.endswith(")")


STRING = TypeObject("VARCHAR")
BINARY = TypeObject("BLOB")
NUMBER = TypeObject(
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT", "BIGNUM"),
)
DATETIME = TypeObject(
    *("DATE", "TIME", "TIME WITH TIME ZONE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"),
    *("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
)
ROWID = TypeObject()


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802 -- PEP 249 has the name
    """The time of day of so many seconds since 1970, where the program runs."""
    return datetime.datetime.fromtimestamp(ticks).time()


_ours: WeakKeyDictionary[Database, WeakSet[Connection]] = WeakKeyDictionary()
"""What was opened here, and its connections: one that the program forgets keeps nothing open."""
_changing = threading.Lock()


def connect(path: str | Path = ":memory:", **options: Any) -> Connection:
    """A connection to a file; see `ivm.connect` for the options of the first one.

    Raises:
        UnavailableError: another process has the file open.
    """
    with _changing:
        database = None if str(path) == ":memory:" else opened(str(path))
        if not isinstance(database, Database):
            database = Database(path, **options)
            _ours[database] = WeakSet()
        if database not in _ours:
            return database.connection()
        made = database.connection(leave=lambda: _leave(database))
        _ours[database].add(made)
        return made


def _leave(database: Database) -> None:
    """Closes a database that was opened here, and has no other open connection."""
    with _changing:
        last = database in _ours and all(each.closed for each in _ours[database])
        if last:
            del _ours[database]
    if last:
        database.close()
