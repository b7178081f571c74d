"""A cursor of PEP 249 over an open database or a connection.

Contract: it has no transaction of its own: its statements run in the session of what made it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ivm.session.result import Result, Row
from ivm.session.session import Params
from ivm.storage.errors import IvmError

if TYPE_CHECKING:
    from ivm.database import Database


class InterfaceError(IvmError):
    """A cursor is used that is closed, or that has no result."""


class Cursor:
    """Runs statements and holds the result of the last one.

    Args:
        connection: runs the statements.
        before: called with each statement before it is run.

    Attributes:
        connection: as given.
        arraysize: how many rows `fetchmany` gives if it is not told.
    """

    def __init__(
        self, connection: Database, before: Callable[[str], None] = lambda statement: None
    ) -> None:
        self.connection = connection
        self.arraysize = 1
        self._before = before
        self._result: Result | None = None
        self._rowcount = -1
        self._closed = False

    def execute(self, operation: str, parameters: Params = None) -> Cursor:
        """Runs statements; see `Database.execute`. Returns the cursor."""
        self._demand_open()
        self._result, self._rowcount = None, -1
        self._before(operation)
        result = self.connection.execute(operation, parameters)
        self._rowcount = result.rowcount
        self._result = result if result.kind == "rows" else None
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Sequence[Any]]) -> Cursor:
        """Runs a statement once for each list of parameters, in one transaction."""
        self._demand_open()
        self._result, self._rowcount = None, -1
        self._before(operation)
        self._rowcount = _run_many(self.connection, operation, seq_of_parameters)
        return self

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """A tuple of seven a column of the result, name and type first; None without a result."""
        return None if self._result is None else self._result.description

    @property
    def rowcount(self) -> int:
        """The rows that the last statement changed; -1 if it changes none."""
        return self._rowcount

    def fetchone(self) -> Row | None:
        """The next row, or None after the last."""
        return self._rows().fetchone()

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next rows, `arraysize` of them if no size is given."""
        return self._rows().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[Row]:
        """All remaining rows."""
        return self._rows().fetchall()

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows())

    def __getattr__(self, name: str) -> Any:
        """The other forms of the result: `df`, `arrow`, `pl`, `show` and so on."""
        if name.startswith("_") or not hasattr(Result, name):
            raise AttributeError(f"a cursor has no {name!r}")
        return getattr(self._rows(), name)

    def setinputsizes(self, sizes: object) -> None:
        """Does nothing, as PEP 249 allows."""

    def setoutputsize(self, size: object, column: object = None) -> None:
        """Does nothing, as PEP 249 allows."""

    def close(self) -> None:
        """Lets the result go; the cursor cannot be used any more."""
        self._closed, self._result = True, None

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def _rows(self) -> Result:
        self._demand_open()
        if self._result is None:
            raise InterfaceError("the cursor has no rows: execute a query first")
        return self._result

    def _demand_open(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed: make another one with cursor()")


def _run_many(database: Database, operation: str, rows: Iterable[Sequence[Any]]) -> int:
    """Runs a statement for each row; here `Database.executemany` takes over once it is there."""
    if not database.in_transaction:
        with database.transaction():
            return _run_many(database, operation, rows)
    counts = [database.execute(operation, row).rowcount for row in rows]
    return -1 if -1 in counts else sum(counts)
