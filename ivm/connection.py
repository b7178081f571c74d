"""Connections, each a session of its own, and their cursors, as PEP 249 has them.

Contract: any thread may use a connection, one at a time; its cursors share its transaction. As in
DuckDB each statement is a transaction of its own, unless one was begun.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from ivm.changes.values.batches import Many, drawn
from ivm.dispatch import execute, executemany
from ivm.ingest.parameters import Params, parameters_of
from ivm.lifetime import Lifetime
from ivm.session.results.result import Description, Result, Row
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.errors import InputError, UnavailableError

if TYPE_CHECKING:
    from ivm.database import Database

T = TypeVar("T")


class Connection:
    """A session of a database.

    Args:
        database: an open one.
        lifetime: its.
        leave: called when the connection is closed.

    Attributes:
        autocommit: `begin` does nothing.
        closed: it is of no use any more.
    """

    def __init__(
        self, database: Database, lifetime: Lifetime, leave: Callable[[], None] | None = None
    ) -> None:
        self.database = database
        self.autocommit = self.closed = False
        self._lifetime, self._leave = lifetime, leave
        me = weakref.ref(self)
        self._session = lifetime.session(lambda: me() is None)
        self._waits = False  # for a statement that is no query, to begin
        self._reads_only = False

    def cursor(self) -> Cursor:
        """A cursor; all cursors share the connection's transaction."""
        self._demand_open()
        return Cursor(self)

    def execute(self, query: str, parameters: Params = None) -> Cursor:
        """Runs statements on a new cursor, which has the result of the last one."""
        return self.cursor().execute(query, parameters)

    def begin(self) -> None:
        """Begins a transaction at the first statement that is no query.

        Queries before it each see the newest epoch, and hold up no writer.

        Raises:
            InputError: there is one already.
        """
        self._demand_open()
        if self.in_transaction:
            raise InputError("a transaction is open already: commit or roll it back first")
        self._waits, self._reads_only = not self.autocommit, False

    def pin(self, *, reads_only: bool) -> None:
        """Lets the transaction that waits begin now: all its queries see one epoch.

        Args:
            reads_only: whether it only reads; then it holds up no writer.
        """
        self._reads_only = reads_only
        self.run_changing(lambda session: None)

    @property
    def in_transaction(self) -> bool:
        """Returns whether a transaction has begun, or waits to."""
        return self._waits or self._session.transaction is not None

    @property
    def has_begun(self) -> bool:
        """Returns whether a statement that is no query has begun the transaction."""
        return self._session.transaction is not None

    def commit(self) -> None:
        """Commits the transaction, if there is one.

        Raises:
            UnavailableError: a statement in it has failed, and nothing of it was done.
        """
        self._end(Session.commit)

    def rollback(self) -> None:
        """Undoes the transaction, if there is one."""
        self._end(Session.rollback)

    def _end(self, end: Callable[[Session], None]) -> None:
        self._demand_open()
        self._waits = False
        if self._session.transaction is not None:
            self.run(end)

    @property
    def statement_cursor(self) -> duckdb.DuckDBPyConnection:
        """The session's cursor, by which a statement is interrupted."""
        return self._session.cursor

    def run(self, work: Callable[[Session], T]) -> T:
        """Calls a function with the session."""
        self._demand_open()
        return self._lifetime.run(lambda: self._session, work)

    def _demand_open(self) -> None:
        if self.closed:  # what was not committed is undone: COMMIT must not seem to go well
            raise UnavailableError("the connection is closed: connect again")

    def run_sql(self, sql: str, params: Params = None) -> Result:
        """Runs statements, in the transaction if one has begun."""
        given = parameters_of(params)
        if all(isinstance(s, st.Query) for s in st.parse(sql)):
            return self.run(lambda session: execute(session, sql, given))
        return self.run_changing(lambda session: execute(session, sql, given))

    def run_changing(self, work: Callable[[Session], T]) -> T:
        """Calls a function with the session, in the transaction that waits to begin."""

        def begun(session: Session) -> T:
            if self._waits:
                self._waits = False
                session.begin(read_only=self._reads_only)
            return work(session)

        return self.run(begun)

    def close(self) -> None:
        """Undoes what was not committed; closing twice does nothing."""
        if not self.closed:
            self.closed = True
            if not self._lifetime.closed:
                self._session.close(wait=-1)
            if self._leave is not None:
                self._leave()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None and not self.closed:
                self.commit()
        finally:
            self.close()


class Cursor:
    """Runs statements, and reads the rows of the last one.

    Args:
        connection: whose session runs them.
        owns: whether the connection is the cursor's alone, and is closed with it.

    Attributes:
        connection: the connection.
        arraysize: rows that `fetchmany` gives by default.
    """

    arraysize = 1

    def __init__(self, connection: Connection, *, owns: bool = False) -> None:
        self.connection = connection
        self._owns = owns
        self._result = Result("done")
        self._rowcount = -1

    def execute(self, query: str, parameters: Params = None) -> Cursor:
        """Runs one or more statements, see `Database.execute`; the cursor has the last result."""
        self._result = self.connection.run_sql(query, parameters)
        self._rowcount = self._result.rowcount
        return self

    def executemany(self, query: str, parameters: Many) -> Cursor:
        """Runs a statement with each of many rows of parameters; see `Database.executemany`."""
        connection, given = self.connection, drawn(parameters)
        self._result = connection.run_changing(lambda session: executemany(session, query, given))
        self._rowcount = self._result.rowcount
        return self

    @property
    def result(self) -> Result:
        """The last statement's result, with all ways to read it."""
        return self._result

    @property
    def description(self) -> list[Description] | None:
        """The columns of the last result, 7 values each; None if it has none."""
        return self._result.description

    @property
    def rowcount(self) -> int:
        """Rows that the last statement changed; -1 if it changes none."""
        return self._rowcount

    def fetchone(self) -> Row | None:
        """The next row, or None after the last."""
        return self._result.fetchone()

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next rows, `arraysize` of them by default."""
        return self._result.fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[Row]:
        """All remaining rows."""
        return self._result.fetchall()

    def __iter__(self) -> Iterator[Row]:
        return iter(self._result)

    def __next__(self) -> Row:
        """The next row.

        Raises:
            StopIteration: there is none.
        """
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def begin(self) -> Cursor:
        """Begins a transaction, as BEGIN does."""
        return self.execute("BEGIN")

    def commit(self) -> Cursor:
        """Commits the transaction, if there is one."""
        self.connection.commit()
        return self

    def rollback(self) -> Cursor:
        """Undoes the transaction, as ROLLBACK does."""
        return self.execute("ROLLBACK")

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Does nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, as PEP 249 allows."""

    def close(self) -> None:
        """Ends the cursor; its last result can still be read."""
        if self._owns:
            self._result.detach()
            self.connection.close()

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
