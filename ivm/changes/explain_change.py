"""EXPLAIN of a change: DuckDB's answer, and one more row that tells the way it takes here, and why.

Contract: the way told is the way taken, unless values or expressions turn out to need DuckDB (a
value that no rule converts, a result of which a kernel is not certain).
"""

from __future__ import annotations

from ivm.changes import insert_select, inserts, joined_changes, keyed_changes
from ivm.changes.read.change_text import ChangeText
from ivm.changes.read.joined_clauses import JoinedChange
from ivm.changes.rows.joined_rows import NO_JOIN
from ivm.ingest.evaluated_defaults import of_one_time
from ivm.ingest.further_keys import MOVES_PARENTS, moves_parents
from ivm.ingest.not_fast import NotFastError
from ivm.ingest.parameters import Params
from ivm.session import dml
from ivm.session.queries.explain_read import CHANGED_BY, with_way
from ivm.session.queries.query import query
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.warehouse.tables.table_info import TableInfo

_FAST = "fast path"


def explain(session: Session, statement: st.Query, params: Params) -> Result:
    """Runs EXPLAIN of a change; one row more than DuckDB's says how it is made, and why."""
    result, explained = query(session, statement, params), statement.explained
    assert isinstance(explained, st.Dml)
    return with_way(result, CHANGED_BY, way_of(session, explained, params))


def way_of(session: Session, statement: st.Dml, params: Params) -> str:
    """The way that a change takes, and why, in one line."""
    info = dml.table_of(session, statement)
    if info is None:
        return "DuckDB: it changes no base table of the database by its name alone"
    why = session.engine.definitions.why_no_fast_path(info.name)
    if why is not None:
        return f"DuckDB, captured: only DuckDB can change {info.name}, since {why}"
    try:
        return f"{_FAST}: {_way(session, info, statement, params)}"
    except NotFastError as error:
        return f"DuckDB, captured: {error.reason}"


def _way(session: Session, info: TableInfo, statement: st.Dml, params: Params) -> str:
    if isinstance(statement, st.Insert):
        return _of_insert(session, info, statement)
    if isinstance(statement, st.KeyedChange):
        return _of_keyed(session, info, statement, params)
    return _of_rows(session, info, statement, params)


def _of_rows(session: Session, info: TableInfo, statement: st.Dml, params: Params) -> str:
    if statement.kind in joined_changes.KINDS:
        return _of_joined(session, info, statement, params)
    source = insert_select.source_of(session, info, statement, params)
    told = _looked_up(session, info) + _of_parents(info, source.plan)
    giver = "DuckDB"
    if source.text:
        giver = session.giver_of(source.text, source.written.params(source.text))
    return f"its rows are given by {giver}, constraints are checked in memory{told}"


def _of_insert(session: Session, info: TableInfo, statement: st.Insert) -> str:
    plan = inserts.plan_of(session, info, statement, statement.insertion)
    told = (
        _looked_up(session, info) + _evaluated(session, info, statement) + _of_parents(info, plan)
    )
    return f"literals and parameters, constraints checked in memory{told}"


def _of_parents(info: TableInfo, plan: inserts.InsertPlan) -> str:
    """What is said of updates that a rule for conflicts makes, which come to light by the rows."""
    updates = () if plan.rule is None else plan.rule.updates.keys()
    if not updates or not moves_parents(info, updates, returning=plan.returning is not None):
        return ""
    return f"; DuckDB, if it comes to an update: {MOVES_PARENTS}"


def _looked_up(session: Session, info: TableInfo) -> str:
    key = _names(info, info.primary_key)
    by = f"; keys are looked up in the key index ({key})" if key else ""
    return by + _further(session, info)


def _further(session: Session, info: TableInfo) -> str:
    path = session.engine.definitions.fast_path(info.name)
    further = None if path is None else path.further
    if further is None:
        return ""
    keys = ", ".join([f"({_names(info, key)})" for key in further.uniques])
    told = f"; UNIQUE keys in arrangements {keys}" if keys else ""
    parents = ", ".join([reference.table for reference in further.parents])
    return told + (f"; foreign keys in those of {parents}" if parents else "")


def _evaluated(session: Session, info: TableInfo, statement: st.Insert) -> str:
    path = session.engine.definitions.fast_path(info.name)
    given = inserts.positions_of(info, statement.insertion.columns)
    missing = {} if path is None else {i: d for i, d in path.evaluated.items() if i not in given}
    told = of_one_time(missing) if session.transaction is None else []
    asked = tuple([i for i in missing if i not in told])
    return f"; the defaults of {_names(info, asked)} are evaluated by DuckDB" if asked else ""


def _of_keyed(session: Session, info: TableInfo, statement: st.KeyedChange, params: Params) -> str:
    try:
        plan = keyed_changes.plan_of(session, info, statement)
    except NotFastError:
        if not info.keyed:
            raise
        return _of_joined(session, info, statement, params)
    kind, further = "the key index", len(plan.search.conditions)
    if plan.key != info.primary_key:
        kind = "an arrangement of the index"
    checked = f", {further} further conditions checked on them" if further else ""
    return f"rows are found in {kind} ({_names(info, plan.key)}){checked}"


def _names(info: TableInfo, positions: tuple[int, ...]) -> str:
    return ", ".join([info.schema[i][0] for i in positions])


def _of_joined(session: Session, info: TableInfo, statement: st.Dml, params: Params) -> str:
    written = ChangeText(statement.text, params)
    change = joined_changes.plan_of(session, info, statement, written)
    path = session.engine.definitions.fast_path(info.name)
    by_key = (
        change.found or path is None or joined_changes.finds_rows(session, path, statement, change)
    )
    if not by_key:
        change = joined_changes.otherwise(change, statement, info) or change
    if change.found:
        return f"{_found(change)}{_further(session, info)}"
    if not by_key:
        raise NotFastError(NO_JOIN)
    giver = session.giver_of(change.source, written.params(change.source))
    given = f"the rows of {' and '.join(change.aliases)}" if change.plain is None else "the keys"
    return (
        f"{given} are given by {giver}, and the rows of {info.name} are "
        f"found in the key index ({_names(info, info.primary_key)}){_further(session, info)}"
    )


def _found(change: JoinedChange) -> str:
    if change.pieces is None or change.pieces.condition is None or change.queries:
        return "DuckDB finds the rows that meet the condition"
    return (
        "rows are found by a look at all in the key index, or at those between bounds of the key, "
        "if they are not too many and the condition has kernels; else by DuckDB"
    )
