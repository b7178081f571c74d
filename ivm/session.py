"""One user of the database: a cursor, at most one transaction, and the way of each statement.

Law: every statement runs at one epoch that includes all commits made before it began. A change goes
through a `Transaction`, its own one unless BEGIN opened one; nothing changes a base table but that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb

from ivm import dml, keyed_changes, queries, schema_changes, view_statements
from ivm.engine import Engine
from ivm.result import Result
from ivm.sql import statements as st
from ivm.storage.errors import InputError, UnsupportedError
from ivm.transaction import Transaction
from ivm.translate import translated

Params = Sequence[Any] | dict[str, Any] | None


class Session:
    """Statements of one thread.

    Args:
        engine: the database's engine.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.cursor = engine.warehouse.cursor()
        self.transaction: Transaction | None = None
        self.prepared: dict[str, st.Statement] = {}
        self._open: Result | None = None

    def execute(self, script: str, params: Params = None) -> Result:
        """Run the statements of a script and give the result of the last one.

        Raises:
            IvmError: see the tree in `ivm.errors`.
        """
        statements = st.parse(script)
        if params and len(statements) != 1:
            raise InputError(
                f"parameters go with one statement, not with {len(statements)}: "
                "execute the statements one by one"
            )
        result = Result("done")
        for statement in statements:
            result = self.run(statement, params)
        return result

    def run(self, statement: st.Statement, params: Params = None) -> Result:
        """Run one parsed statement."""
        self.release()
        try:
            return _RUN[type(statement)](self, statement, params)
        except duckdb.Error as error:
            raise translated(error, statement.offset) from error

    # -- the cursor -----------------------------------------------------------------------------

    def release(self) -> None:
        """Have the cursor free: what an earlier result has not yet read is read into memory."""
        if self._open is not None:
            self._open.detach()
            self._open = None

    def stream(self, on_end: Callable[[], None]) -> Result:
        """The cursor's open result; `on_end` runs when it has been read."""
        self._open = Result.streaming(self.cursor, on_end)
        return self._open

    # -- transactions ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def writing(self) -> Iterator[Transaction]:
        """The open transaction, or one of the statement's own that is committed at the end."""
        self.release()
        if self.transaction is not None:
            with self.transaction as transaction:
                try:
                    yield transaction
                except BaseException as error:
                    transaction.fail(error)
                    raise
            return
        own = Transaction(self.engine, self.cursor)
        try:
            with own:
                yield own
        except BaseException:
            own.rollback()
            raise
        own.commit()

    def begin(self) -> None:
        """Open a transaction.

        Raises:
            InputError: one is open already.
        """
        if self.transaction is not None and self.transaction.over is None:
            raise InputError("a transaction is open already: COMMIT or ROLLBACK it first")
        self.release()
        self.transaction = Transaction(self.engine, self.cursor)

    def commit(self) -> None:
        """Commit the open transaction as one epoch."""
        with self._ending("commit") as transaction:
            transaction.commit()

    def rollback(self) -> None:
        """Undo the open transaction."""
        self._ending("roll back").rollback()

    def _ending(self, what: str) -> Transaction:
        self.release()
        if self.transaction is None:
            raise InputError(f"no transaction is open to {what}: BEGIN one first")
        transaction, self.transaction = self.transaction, None
        return transaction

    def close(self) -> None:
        """Roll back what is open and let the cursor go."""
        if self.transaction is not None and self.transaction.over is None:
            self.rollback()
        self.release()
        self.cursor.close()


def _transaction(session: Session, statement: st.Transaction, params: Params) -> Result:
    action = {"begin": session.begin, "commit": session.commit, "rollback": session.rollback}
    action[statement.action]()
    return Result("done")


def _prepare(session: Session, statement: st.Prepare, params: Params) -> Result:
    session.prepared[statement.name.lower()] = statement.statement
    return Result("done")


def _execute(session: Session, statement: st.Execute, params: Params) -> Result:
    prepared = session.prepared.get(statement.name.lower())
    if prepared is None:
        raise InputError(f"there is no prepared statement {statement.name!r}: PREPARE it first")
    values: Sequence[Any] = ()
    if statement.arguments:
        session.cursor.execute(f"SELECT {statement.arguments}")
        values = session.cursor.fetchall()[0]
    return session.run(prepared, values or None)


def _deallocate(session: Session, statement: st.Deallocate, params: Params) -> Result:
    if session.prepared.pop(statement.name.lower(), None) is None:
        raise InputError(f"there is no prepared statement {statement.name!r}")
    return Result("done")


def _subscribe(session: Session, statement: st.Subscribe, params: Params) -> Result:
    raise UnsupportedError(
        "SUBSCRIBE has no end, so it is no statement to execute: use db.subscribe(view) in Python, "
        "or .watch VIEW in the shell"
    )


_RUN: dict[type[st.Statement], Callable[[Session, Any, Params], Result]] = {
    st.Insert: dml.insert,
    st.KeyedChange: keyed_changes.change_one,
    st.Dml: dml.change,
    st.Query: queries.query,
    st.Ddl: schema_changes.ddl,
    st.Other: schema_changes.other,
    st.Transaction: _transaction,
    st.CreateView: view_statements.create,
    st.DropView: view_statements.drop,
    st.ExplainView: view_statements.explain,
    st.VerifyView: view_statements.verify,
    st.ShowViews: view_statements.show,
    st.Subscribe: _subscribe,
    st.Prepare: _prepare,
    st.Execute: _execute,
    st.Deallocate: _deallocate,
}
