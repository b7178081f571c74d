"""The calls of the open database that write rows given in Python.

Contract: see `Database`, which has these calls among its own.
"""

from __future__ import annotations

import functools
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from ivm.appender import Appender
from ivm.calls import Calls
from ivm.changes.values.batches import Many, drawn
from ivm.dispatch import execute, executemany
from ivm.ingest.rows import Rows
from ivm.session.results.result import Result
from ivm.session.row_calls import apply, delete, insert, table_info, upsert
from ivm.session.session import Session
from ivm.storage.errors import InputError, UnavailableError
from ivm.storage.identifiers import literal


class RowWrites(Calls):
    """The part of `Database` that is about rows given in Python."""

    def __init__(self) -> None:
        super().__init__()
        self._appenders: weakref.WeakSet[Appender] = weakref.WeakSet()
        self._has_no_more = False  # appenders: the database is being closed
        self._appending = threading.Lock()  # guards both

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Returns whether this thread has an open transaction."""

    def insert(self, table: str, rows: Rows) -> int:
        """Inserts rows.

        Args:
            table: its name, `schema.table` if it is not in main.
            rows: an Arrow table or batch, a pandas or polars frame, a dict of columns, or a list
                of dicts. Columns left out get their default.

        Returns:
            The number of rows.

        Raises:
            ConstraintError: a row violates the table's key, NOT NULL, types or CHECKs.
        """
        return self._with_session(lambda session: insert(session, table, rows))

    def upsert(self, table: str, rows: Rows) -> int:
        """Inserts rows, or updates those whose primary key is stored; the last of equal keys wins.

        Columns left out are not changed; in new rows they get their default.
        """
        return self._with_session(lambda session: upsert(session, table, rows))

    def delete(self, table: str, keys: Rows) -> int:
        """Deletes rows by their key columns; by all columns in a table without a primary key.

        Raises:
            ConstraintError: a row is not stored; nothing was deleted.
        """
        return self._with_session(lambda session: delete(session, table, keys))

    def apply(self, table: str, rows: Rows, weights: npt.ArrayLike) -> int:
        """Adds a Z-set: rows with negative weights are deleted, then the others inserted.

        Args:
            rows: all columns of the table.
            weights: one integer a row; ±1 for a table with a primary key.
        """
        return self._with_session(lambda session: apply(session, table, rows, weights))

    def appender(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = 10_000,
        max_age: float = 0.1,
    ) -> Appender:
        """An appender for rows that come one by one: it writes them in batches, each one epoch.

        Args:
            table: its name, as `insert` takes it.
            columns: the names of a row's values; default all columns that are not generated.
            batch_rows: rows after which a batch is written.
            max_age: seconds after which rows are written though a batch is not full.

        Raises:
            InputError: a number is not positive, or a column is unknown.
            SqlError: there is no such table.
        """
        numbers = isinstance(batch_rows, int) and isinstance(max_age, int | float)
        if not (numbers and batch_rows > 0 and max_age > 0):
            raise InputError("batch_rows and max_age of an appender are numbers above 0")
        info = self._with_session(lambda session: table_info(session, table))
        generated = set(info.generated)
        every = [name for i, (name, _) in enumerate(info.schema) if i not in generated]
        names = every if columns is None else list(columns)
        named = not isinstance(columns, str) and all(isinstance(name, str) for name in names)
        unknown = not named or any(info.position(name) is None for name in names)
        if unknown or not names or len(set(map(info.position, names))) < len(names):
            raise InputError(
                f"the columns of an appender are different ones of table {table!r} "
                f"({', '.join(every)}), not {columns!r}"
            )
        in_my_zone = self._with_session(_zone_setter)

        def write(rows: dict[str, Sequence[Any]]) -> None:
            self._with_session(in_my_zone)
            self.insert(table, rows)

        told = self._has_open_transaction, self._roll_back
        with self._appending:
            if self._has_no_more:
                raise UnavailableError("the database is closed: open it again with ivm.connect()")
            made = Appender(write, *(info.name, names, batch_rows, max_age), *told)
            self._appenders.add(made)
        return made

    def _has_open_transaction(self) -> bool:
        try:
            return self.in_transaction
        except UnavailableError:  # the database is closed, which refuses a batch at once
            return False

    def _roll_back(self) -> None:
        """Ends the open transaction of this thread, if it has one."""
        if self._has_open_transaction():
            self._with_session(Session.rollback)

    def executemany(self, query: str, parameters: Many) -> Result:
        """Runs one statement with each of many rows of parameters, all in one transaction.

        An INSERT of one row of parameters, also with ON CONFLICT, and an UPDATE or DELETE by key
        are one batch; any other statement is executed row by row.

        Args:
            query: one statement.
            parameters: a list of lists or tuples (for `?` or `$1`) or of dicts (for `$name`); or an
                Arrow table, a pandas or polars frame, or a dict of columns: by name for `$name`,
                else in their order.

        Returns:
            The count of rows changed by all; the last result of a statement that returns rows.

        Raises:
            IvmError: see `ivm.errors`; no row has changed anything.
        """
        if not isinstance(query, str):
            raise InputError(f"executemany takes SQL as text, not {query!r}")
        given = drawn(parameters)
        return self._with_session(lambda session: executemany(session, query, given))

    def _close_appenders(self) -> None:
        """Writes what appenders hold; a transaction open in this thread is rolled back before."""
        with self._appending:
            self._has_no_more = True
            appenders = list(self._appenders)
        errors = []
        for appender in appenders:
            try:
                appender.close_anyhow()
            except Exception as error:
                errors.append(error)
        for other in errors[1:]:
            errors[0].add_note(str(other))
        if errors:
            raise errors[0]


def _zone_setter(session: Session) -> Callable[[Session], None]:
    """A function that gives another session this one's time zone, the first time."""
    ((zone,),) = execute(session, "SELECT system.main.current_setting('TimeZone')").fetchall()

    @functools.cache
    def set_zone(other: Session) -> None:
        execute(other, f"SET TimeZone = {literal(zone)}")

    return set_zone
