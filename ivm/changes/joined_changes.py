"""UPDATE, DELETE and MERGE of the rows that they meet, see `matching`, by the fast path.

Contract: as of `ivm.changes.queried_changes`. What is set and inserted is computed by kernels, or
by DuckDB over the rows met; constraints are checked in memory.
"""

from __future__ import annotations

import functools

import duckdb

from ivm.changes.fast_table import FastTable
from ivm.changes.inserts import finished, returned
from ivm.changes.matching import Matching
from ivm.changes.read.change_text import ChangeText
from ivm.changes.read.joined_clauses import JoinedChange, read_joined
from ivm.changes.rows.found_rows import by_found_rows
from ivm.changes.rows.joined_rows import SETS_KEY, JoinedRows, join_of
from ivm.ingest.effect import Effect
from ivm.ingest.fast_path import FastPath
from ivm.ingest.further_keys import MOVES_PARENTS, moves_parents
from ivm.ingest.not_fast import NotFastError, demanded
from ivm.ingest.parameters import Params
from ivm.session.readable import demand_ahead
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import describe, lenient
from ivm.storage.warehouse.duckdb.duckdb_errors import is_cut_short
from ivm.storage.warehouse.tables.table_info import TableInfo

KINDS = ("update", "delete", "merge")


def change_of_met_rows(table: FastTable, statement: st.Dml, params: Params) -> Result:
    """Runs a change by the fast path; NotFastError if DuckDB must run it."""
    written = ChangeText(statement.text, params)
    change = plan_of(table.session, table.info, statement, written)
    written.demand_fit()
    run = table, _reference(statement), statement, written
    try:
        met = Matching(*run, change, params).met()
    except NotFastError:
        if (found := otherwise(change, statement, table.info)) is None:
            raise
        met = Matching(*run, found, params).met()
    return _made(table, met.rows, statement, met.rows.effect(met.stored, met.probe))


def plan_of(
    session: Session, info: TableInfo, statement: st.Dml, written: ChangeText
) -> JoinedChange:
    """What the statement says; NotFastError if DuckDB must run it."""
    demand_ahead(session, statement.text)
    of = info, session.macros, session.engine.definitions.fast_path(info.name)
    plan = functools.partial(_planned, session, info, statement, written)
    return session.plans.find("joined", statement.text, of, plan)


def _planned(
    session: Session, info: TableInfo, statement: st.Dml, written: ChangeText
) -> JoinedChange:
    if not info.primary_key:
        raise NotFastError("the table has no primary key")
    read = read_joined(written, statement, info.names)
    found = None if read is None else by_found_rows(read, statement, info)
    change = demanded(found, "its clauses have a form that DuckDB alone reads")
    returned(session, info, statement, change.returned)  # or it is not certain to be computed
    named = [info.position(name) for branch in change.matched for name, _ in branch.sets]
    sets = {position for position in named if position is not None}
    if not sets.isdisjoint(info.primary_key):
        raise NotFastError(SETS_KEY)
    if sets and moves_parents(info, sets, returning=statement.returning):
        raise NotFastError(MOVES_PARENTS)
    if missing := _missing(session, info, change):
        raise NotFastError(f"the defaults of {', '.join(missing)} are evaluated with its rows")
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
    try:
        join_of(change, _reference(statement), path, schema)
    except NotFastError:
        return False
    return True


def _reference(statement: st.Dml) -> str:
    assert statement.table is not None
    return statement.alias or statement.table[-1]


def _made(table: FastTable, met: JoinedRows, statement: st.Dml, effect: Effect) -> Result:
    """Adds the change; NotFastError, and nothing added, where DuckDB must word an error."""
    session, transaction, path, info = table
    changes = path.check(effect, met.index, returning=statement.returning)
    if met.join.change.returned:
        shown = returned(session, info, statement, met.join.change.returned)
        rows = effect.deleted if effect.updated is None else effect.updated
        assert rows is not None
        return finished(transaction, changes, rows, shown)
    for change in changes:
        transaction.add(change)
    return Result.count(sum(effect.counts))
