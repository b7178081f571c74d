"""Queries: the relations they read are flushed, a snapshot is pinned, and DuckDB answers.

Contract: a query reads all its relations at one epoch, which includes every commit made before it
began. Where it is uncertain which relations it reads, all are flushed. A query waits for the writer
lock only if a recomputed view must be refreshed.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import nullcontext

import duckdb

from ivm.engine.engine import Engine
from ivm.ingest.parameters import Params
from ivm.session.results.result import Result
from ivm.session.results.state_result import StateResult
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.warehouse.duckdb.duck import Cursor, roll_back
from ivm.storage.warehouse.duckdb.duckdb_errors import translated
from ivm.storage.warehouse.flush.refused import RefusedError

SELECTS = frozenset(("select", "from", "with"))
"""The kinds of queries that may be answered from memory."""
_PATIENCE = 3
"""How often a query finds its relations beside changes of the catalog, before they must wait."""
_ADVANCES = re.compile("(?i)nextval|setval")  # a sequence, which DuckDB writes down


def query(session: Session, statement: st.Statement, params: Params) -> Result:
    """Runs a statement that changes no table: a query, or one about the session."""
    if isinstance(statement, st.Query) and statement.kind in SELECTS:
        answered = session.from_state(statement.text, params)
        if answered is not None:
            return StateResult(answered)
    try:
        if isinstance(statement, st.Query):
            session.scans.show(statement, params)
        if session.transaction is not None:
            return _in_transaction(session, statement, params)
        return _outside_transaction(session, statement, params)
    except duckdb.Error as error:
        raise translated(error, statement.offset, statement.text) from error


def _outside_transaction(session: Session, statement: st.Statement, params: Params) -> Result:
    try:
        return _on_snapshot(session, statement, params)
    except RefusedError as refused:
        return _without_refused(session, statement, params, refused)


def _without_refused(
    session: Session, statement: st.Statement, params: Params, refused: RefusedError
) -> Result:
    """Runs a query while DuckDB refuses pending rows of another relation than those it reads.

    The pending deltas of the relations that it reads are written in a transaction that is rolled
    back after the query.
    """
    engine, relations = session.engine, session.reads(statement)
    if (
        refused.relation in relations
        or not refused.relation
        or engine.recomputed.is_outdated(relations)
    ):
        raise refused
    engine.tables.show_pending(session.cursor, relations)
    return session.ask(statement, params, pinned=True, committed=False)


def _on_snapshot(session: Session, statement: st.Statement, params: Params) -> Result:
    writing = _ADVANCES.search(statement.text) is not None
    try:
        return _run(session, statement, params, writing=writing)
    except duckdb.TransactionException as error:
        if writing or "read-only" not in str(error):
            raise
        roll_back(session.cursor)
        return _run(session, statement, params, writing=True)  # a macro or a view calls nextval()


def _run(session: Session, statement: st.Statement, params: Params, *, writing: bool) -> Result:
    if writing:
        session.engine.warehouse.demand_in_place()
    pinned = _prepare_snapshot(session, statement, writing=writing)
    return session.ask(statement, params, pinned=pinned, writing=writing)


def _prepare_snapshot(session: Session, statement: st.Statement, *, writing: bool) -> bool:
    """Brings the relations of a statement to one epoch; returns whether a snapshot was pinned.

    First without the writer lock: if a view is found stale, or the catalog has changed meanwhile,
    it is tried again, under the lock for a stale view, or where the catalog changes all the time.
    """
    engine, outdated, attempts = session.engine, False, 0
    while True:
        attempts += 1
        under_lock = outdated or attempts > _PATIENCE  # there none gets stale
        with session.writing() if under_lock else nullcontext():
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
    """Flushes the relations of a query; returns False if they must be found or refreshed again.

    Args:
        engine: the database's engine.
        relations: the relations found in that generation of definitions.
        generation: see `Relations`.
        cursor: the cursor on which a snapshot is pinned; None if the query needs none.
        writing: whether the query may advance sequences.
    """
    # Flushed and pinned under one lock: no other flush, to a later epoch, comes between.
    with nullcontext() if cursor is None else engine.warehouse.write_lock:
        engine.tables.flush(relations)
        changed = generation != engine.definitions.relations.generation
        if changed or engine.recomputed.is_outdated(relations):
            return False
        if cursor is not None:
            engine.warehouse.pin(cursor, writing=writing)
        return True


def _in_transaction(session: Session, statement: st.Statement, params: Params) -> Result:
    assert session.transaction is not None
    with session.transaction as transaction:
        transaction.show(session.reads(statement))
        return session.ask(statement, params)
