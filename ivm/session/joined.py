"""UPDATE, DELETE and MERGE of the rows that they meet, see `met_rows`, by the fast path.

Contract: as of `ivm.session.evaluated`. What is set and inserted is computed by kernels, or by
DuckDB over the rows met; constraints are checked in memory.
"""

from __future__ import annotations

import functools

import duckdb

from ivm.capture.clauses import Clauses
from ivm.capture.found_rows import by_found_rows
from ivm.capture.joined_clauses import JoinedChange, read_joined
from ivm.capture.joined_rows import Effect, JoinedRows, join_of
from ivm.ingest.conflicts import are_distinct
from ivm.ingest.fast_path import FastPath
from ivm.ingest.further_keys import MOVES_PARENTS, NeedsDuckDBError, Removed, moves_parents
from ivm.ingest.key_index import KeyIndex
from ivm.ingest.parameters import Params
from ivm.session.fast_table import FastTable
from ivm.session.inserts import NO_RETURNING, finished, returned
from ivm.session.met_rows import Meeting
from ivm.session.readable import why_not_ahead
from ivm.session.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.errors import ConstraintError
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duck import describe, lenient
from ivm.storage.warehouse.duckdb_errors import is_cut_short
from ivm.storage.warehouse.table_info import TableInfo

KINDS = ("update", "delete", "merge")


def change_of_met_rows(table: FastTable, statement: st.Dml, params: Params) -> Result | None:
    """Runs a change by the fast path; None if DuckDB must run it."""
    clauses = Clauses(statement.text, params)
    change = plan_of(table.session, table.info, statement, clauses)
    if isinstance(change, str) or not clauses.fit:
        return None
    run = table, _reference(statement), statement, clauses
    met = Meeting(*run, change, params).met()
    if met is None:
        found = otherwise(change, statement, table.info)
        met = None if found is None else Meeting(*run, found, params).met()
    effect = None if met is None else met.rows.effect(met.stored, met.probe)
    if met is None or effect is None:
        return None
    return _made(table, met.rows, statement, effect)


def plan_of(
    session: Session, info: TableInfo, statement: st.Dml, clauses: Clauses
) -> JoinedChange | str:
    """What the statement says, or the reason why DuckDB must run it."""
    if (why := why_not_ahead(session, statement.text)) is not None:
        return why
    of = info, session.macros, session.engine.definitions.fast_path(info.name)
    plan = functools.partial(_planned, session, info, statement, clauses)
    return session.plans.find("joined", statement.text, of, plan)


def _planned(
    session: Session, info: TableInfo, statement: st.Dml, clauses: Clauses
) -> JoinedChange | str:
    if not info.primary_key:
        return "the table has no primary key"
    read = read_joined(clauses, statement, info.names)
    change = None if read is None else by_found_rows(read, statement, info)
    if change is None:
        return "its clauses have a form that DuckDB alone reads"
    if statement.returning and returned(session, info, _as_keyed(statement, change)) is None:
        return NO_RETURNING
    named = [info.position(name) for branch in change.matched for name, _ in branch.sets]
    sets = {position for position in named if position is not None}
    if not sets.isdisjoint(info.primary_key):
        return "it sets columns of the primary key"
    if sets and moves_parents(info, sets, returning=statement.returning):
        return MOVES_PARENTS
    missing = _missing(session, info, change)
    if missing:
        return f"the defaults of {', '.join(missing)} are evaluated with its rows"
    return change


def otherwise(change: JoinedChange, statement: st.Dml, info: TableInfo) -> JoinedChange | None:
    """The change whose rows DuckDB finds, where a query behind IN does not; None for others."""
    return None if change.plain is None else by_found_rows(change.plain, statement, info)


def _missing(session: Session, info: TableInfo, change: JoinedChange) -> list[str]:
    """The columns with evaluated defaults that some branch of a MERGE does not give."""
    path = session.engine.definitions.fast_path(info.name)
    evaluated = () if path is None else [info.schema[i][0] for i in path.evaluated]
    lists = [b.columns for b in change.unmatched if b.action == "insert" and b.columns is not None]
    given = [{fold(name) for name in columns} for columns in lists]
    return [name for name in evaluated if any(fold(name) not in names for names in given)]


def finds_rows(session: Session, path: FastPath, statement: st.Dml, change: JoinedChange) -> bool:
    """Returns whether a change finds its rows by the key; True if that is not known."""
    session.release()
    with lenient(session.cursor):
        try:
            schema = describe(session.cursor, change.source)
        except duckdb.Error as error:  # it has parameters, or reads the table's columns
            if is_cut_short(error):
                raise
            return change.plain is None or not isinstance(error, duckdb.BinderException)
    return join_of(change, _reference(statement), path, schema) is not None


def _reference(statement: st.Dml) -> str:
    assert statement.table is not None
    return statement.alias or statement.table[-1]


def _as_keyed(statement: st.Dml, change: JoinedChange) -> st.KeyedChange:
    return st.KeyedChange(
        *(statement.text, statement.offset, statement.kind, statement.table, statement.alias),
        statement.returning,
        returned=change.returned,
    )


def _made(table: FastTable, met: JoinedRows, statement: st.Dml, effect: Effect) -> Result | None:
    """Adds the change; None, and nothing added, where DuckDB must find out or word an error."""
    session, transaction, path, info = table
    change, index, changes = met.join.change, met.index, []
    if effect.updated is not None and next(path.violations(effect.updated), None) is not None:
        return None
    if not _fits(path, index, statement, effect):
        return None
    if effect.added is not None:
        columns = dict(enumerate(effect.added.columns))
        try:
            changes = [path.insert(columns, len(effect.added), index)]
        except (ConstraintError, NeedsDuckDBError):
            return None
    main = path.change(effect.updated, effect.removed, index)
    if change.returned:
        shown = returned(session, info, _as_keyed(statement, change))
        rows = effect.deleted if effect.updated is None else effect.updated
        return finished(transaction, main, rows, shown)
    for each in (main, *changes):
        transaction.add(each)
    return Result.count(effect.rows)


def _fits(path: FastPath, index: KeyIndex, statement: st.Dml, effect: Effect) -> bool:
    """Returns whether the rows that go and those that replace others break no further key.

    Rows of several branches that would take and leave the same keys are left to DuckDB.
    """
    if path.further is None:
        return True
    none, updated = effect.deleted.slice(0, 0), effect.updated
    if not path.fits_further(none, Removed(effect.deleted, index.columns, None)):
        return False
    if updated is not None:
        written = path.set_columns(effect.sets, returning=statement.returning)
        replaced = Removed(effect.replaced, index.columns, written)
        if not path.fits_further(updated, replaced):
            return False
    if not path.updates_at_once(effect.sets, effect.rows):
        return False
    rows = effect.written
    refers = any(reference.table == path.table for reference in path.further.parents)
    if rows is None or (refers and len(effect.deleted)):
        return rows is None
    return all(are_distinct(path, key, dict(enumerate(rows.columns))) for key in path.keys)
