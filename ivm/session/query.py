"""Queries: flush what they read, pin one snapshot, let DuckDB answer.

Law: all relations of a query are seen at one epoch, which includes every commit made before the
query began. In doubt about what a query reads, everything is flushed. A query waits for the
writers' turn only where a recomputed view has to be brought up to date.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext

import duckdb

from ivm.engine.engine import Engine
from ivm.session.result import Result
from ivm.session.session import Params, Session
from ivm.sql.statements import parse as st
from ivm.storage.warehouse.duck import Cursor
from ivm.storage.warehouse.duckdb_errors import translated
from ivm.storage.warehouse.refused import RefusedError
from ivm.storage.warehouse.warehouse import roll_back


def query(session: Session, statement: st.Statement, params: Params) -> Result:
    """Run a statement that changes no table: a query, or one about the session."""
    try:
        if session.transaction is not None:
            return _inside(session, statement, params)
        return _alone(session, statement, params)
    except duckdb.Error as error:
        raise translated(error, statement.offset, statement.text) from error


def _alone(session: Session, statement: st.Statement, params: Params) -> Result:
    try:
        return _fresh(session, statement, params)
    except RefusedError as refused:
        return _without_refused(session, statement, params, refused)


def _without_refused(
    session: Session, statement: st.Statement, params: Params, refused: RefusedError
) -> Result:
    """Read others than the relation whose rows DuckDB refuses: theirs are written for the time."""
    engine, relations = session.engine, session.reads(statement)
    if (
        refused.relation in relations
        or not refused.relation
        or engine.recomputed.is_outdated(relations)
    ):
        raise refused
    engine.tables.show_pending(session.cursor, relations)
    session.cursor.execute(statement.text, params)
    return session.stream(pinned=True, committed=False)


def _fresh(session: Session, statement: st.Statement, params: Params) -> Result:
    try:
        pinned = _run(session, statement, params)
    except duckdb.TransactionException as error:
        if "read-only" not in str(error):
            raise
        roll_back(session.cursor)
        pinned = _run(session, statement, params, writing=True)  # it calls nextval
    return session.stream(pinned=pinned)


def _run(
    session: Session, statement: st.Statement, params: Params, *, writing: bool = False
) -> bool:
    """Run the statement; whether its cursor is in a transaction that sees one epoch."""
    pinned = _bring_up(session, statement, writing=writing)
    session.cursor.execute(statement.text, params)
    return pinned


def _bring_up(session: Session, statement: st.Statement, *, writing: bool) -> bool:
    """Have what a statement reads at one epoch; whether that took a snapshot of the cursor.

    It is tried without the writers' turn: what is seen then to be stale, or to have changed in the
    catalog, while it was looked up, is seen before the statement runs.
    """
    engine, outdated = session.engine, False
    while True:
        with session.writing() if outdated else nullcontext():  # else nobody commits meanwhile
            generation = engine.definitions.relations.generation
            relations = session.reads(statement)
            if outdated:
                engine.recomputed.refresh(relations)
            several = len(relations) > 1  # one relation is at one epoch by itself
            cursor = session.cursor if several else None
            if _is_ready(engine, relations, generation, cursor, writing=writing):
                return several
            outdated = engine.recomputed.is_outdated(relations)


def _is_ready(
    engine: Engine,
    relations: Collection[str],
    generation: int,
    cursor: Cursor | None,
    *,
    writing: bool,
) -> bool:
    """Flush what a query reads; False if it has to be looked up, or brought up to date, anew.

    Args:
        relations: as they were found in that generation of definitions.
        generation: see `Relations`.
        cursor: gets its snapshot, with no flush or commit in between; None if it needs none.
        writing: the query may count sequences on.
    """
    with nullcontext() if cursor is None else engine.warehouse.write_lock:
        engine.tables.flush(relations)
        changed = generation != engine.definitions.relations.generation
        if changed or engine.recomputed.is_outdated(relations):
            return False
        if cursor is not None:
            engine.warehouse.pin(cursor, writing=writing)
        return True


def _inside(session: Session, statement: st.Statement, params: Params) -> Result:
    assert session.transaction is not None
    with session.transaction as transaction:
        transaction.show(session.reads(statement))
        session.cursor.execute(statement.text, params)
        return session.stream()
