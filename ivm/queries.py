"""Queries: flush what they read, pin one snapshot, let DuckDB answer.

Law: all relations of a query are seen at one epoch, which includes every commit made before the
query began. In doubt about what a query reads, everything is flushed.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import duckdb

from ivm.result import Result
from ivm.sql import statements as st
from ivm.storage.duck import run
from ivm.translate import translated

if TYPE_CHECKING:
    from ivm.session import Params, Session


def query(session: Session, statement: st.Query, params: Params) -> Result:
    """Run a statement that only reads."""
    try:
        if session.transaction is not None:
            return _inside(session, statement, params)
        return _alone(session, statement, params)
    except duckdb.Error as error:
        raise translated(error, statement.offset, statement.text) from error


def _alone(session: Session, statement: st.Query, params: Params) -> Result:
    engine, cursor = session.engine, session.cursor
    relations = engine.relations.read_by(statement.text)
    with session.writing() if engine.maintenance.recomputes(relations) else nullcontext():
        engine.refresh(relations)  # no commit may come between this and the pin
        if len(relations) < 2:  # one relation is at one epoch by itself
            engine.flush(relations)
        else:
            engine.pin(relations, cursor)
    if len(relations) < 2:
        cursor.execute(statement.text, params)
        return session.stream(lambda: None)
    try:
        cursor.execute(statement.text, params)
    except BaseException:
        cursor.execute("ROLLBACK")
        raise
    return session.stream(lambda: run(cursor, "COMMIT"))


def _inside(session: Session, statement: st.Query, params: Params) -> Result:
    assert session.transaction is not None
    with session.transaction as transaction:
        relations = session.engine.relations.read_by(statement.text)
        transaction.go_native()
        transaction.show(relations)
        session.cursor.execute(statement.text, params)
        return session.stream(lambda: None)
