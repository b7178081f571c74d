"""The database as PEP 249 has one: for pandas, SQLAlchemy and the like.

Contract: a connection is a handle to its database, as `ivm.connect` gives them: all handles of a
process to one file share what is open, and the last one that is closed releases the file.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from ivm.connection import Connection, Cursor
from ivm.database import Database
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


def connect(path: str | Path = ":memory:", **options: Any) -> Connection:
    """A connection to a file; see `ivm.connect` for the options.

    What is left out is as this process has the file open.

    Raises:
        UnavailableError: another process has the file open.
    """
    database = Database(path, **options)
    return database.connection(leave=database.close)
