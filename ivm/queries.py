"""Queries: flush what they read, pin one snapshot, let DuckDB answer.

Law: all relations of a query are seen at one epoch, which includes every commit made before the
query began. In doubt about what a query reads, everything is flushed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

import duckdb

from ivm.result import Result
from ivm.sql import statements as st
from ivm.translate import translated

if TYPE_CHECKING:
    from ivm.session import Params, Session


def query(session: Session, statement: st.Statement, params: Params) -> Result:
    """Run a statement that changes no table: a query, or one about the session."""
    try:
        if session.transaction is not None:
            return _inside(session, statement, params)
        return _alone(session, statement, params)
    except duckdb.Error as error:
        raise translated(error, statement.offset, statement.text) from error


def _alone(session: Session, statement: st.Statement, params: Params) -> Result:
    engine, cursor = session.engine, session.cursor
    relations = session.reads(statement)
    if len(relations) < 2:  # one relation is at one epoch by itself
        with _fresh(session, relations):
            engine.flush(relations)
        cursor.execute(statement.text, params)
        return session.stream()
    try:
        _pinned(session, relations, statement, params)
    except duckdb.TransactionException as error:
        if "read-only" not in str(error):
            raise
        _pinned(session, relations, statement, params, writing=True)  # it calls nextval
    return session.stream(pinned=True)


@contextlib.contextmanager
def _fresh(session: Session, relations: frozenset[str]) -> Iterator[None]:
    """The relations stand at one epoch in the block: no commit may come before its end."""
    engine = session.engine
    with session.writing() if engine.maintenance.recomputes(relations) else nullcontext():
        engine.refresh(relations)
        yield


def _pinned(
    session: Session,
    relations: frozenset[str],
    statement: st.Statement,
    params: Params,
    *,
    writing: bool = False,
) -> None:
    """Run the statement in a transaction that sees the relations at one epoch."""
    with _fresh(session, relations):
        session.engine.pin(relations, session.cursor, writing=writing)
    try:
        session.cursor.execute(statement.text, params)
    except BaseException:
        session.cursor.execute("ROLLBACK")
        raise


def _inside(session: Session, statement: st.Statement, params: Params) -> Result:
    assert session.transaction is not None
    with session.transaction as transaction:
        transaction.show(session.reads(statement))
        session.cursor.execute(statement.text, params)
        return session.stream()
