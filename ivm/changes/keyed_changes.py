"""UPDATE and DELETE of the rows that a key index finds, without a DuckDB statement.

Contract: rows, count, errors and what RETURNING gives are those of DuckDB's own run; a statement
that is not certain to have them runs in DuckDB.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ivm.changes import queried_changes
from ivm.changes.inserts import NO_INDEX_NOW, finished, returned
from ivm.changes.row_expressions import row_expressions
from ivm.changes.values.keyed_rows import (
    Assignments,
    Search,
    assignments_of,
    found_rows,
    keys_of,
    new_rows,
    search_of,
)
from ivm.changes.values.row_expressions import Lookup, RowExpressions, lookup_in
from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.effect import Effect
from ivm.ingest.fast_path import FastPath
from ivm.ingest.further_keys import MOVES_PARENTS, moves_parents
from ivm.ingest.key_index import KeyIndex
from ivm.ingest.literal_columns import are_given, columns_of
from ivm.ingest.not_fast import NotFastError, demanded
from ivm.ingest.parameters import Params
from ivm.reads.returning import Returning
from ivm.session import dml
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.values.column import Column
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.tables.table_info import TableInfo

_NO_INDEX = (
    "the table has no primary key, and the WHERE clause compares no index of it with values; "
    "CREATE INDEX on the columns that it compares has the rows found in memory"
)

_NO_KEY = "its WHERE clause compares neither the whole primary key nor an index with values"


def change_by_key(session: Session, statement: st.KeyedChange, params: Params) -> Result:
    """Updates or deletes the rows that the WHERE clause finds by an index, or by a query."""
    with session.writing() as transaction:
        info = dml.table_of(session, statement)
        if info is not None and are_given(statement.parameters, params or ()):
            try:
                return _fast(session, transaction, info, statement, params)
            except NotFastError:
                pass  # nothing is changed yet
        return dml.run_in_duckdb(session, transaction, statement, info, params)


def _fast(
    session: Session,
    transaction: Transaction,
    info: TableInfo,
    statement: st.KeyedChange,
    params: Params,
) -> Result:
    try:
        found = _found(session, transaction, info, statement, params)
    except NotFastError:
        return queried_changes.fast(session, transaction, statement, info, params)
    return _changed(transaction, info, statement, params, found)


@dataclass(frozen=True)
class _Found:
    """The stored rows that a statement changes, with the columns of `index`."""

    path: FastPath
    plan: ChangePlan
    index: KeyIndex
    expressions: RowExpressions
    stored: ZSet


def _found(
    session: Session,
    transaction: Transaction,
    info: TableInfo,
    statement: st.KeyedChange,
    params: Params,
) -> _Found:
    """Finds the rows by an index; NotFastError if none is certain to find them."""
    path = demanded(transaction.fast_path(info.name), dml.NO_FAST_PATH)
    plan = plan_of(session, info, statement)
    keys = keys_of(plan.search, info.schema, plan.key, params or ())
    if info.keyed and plan.key != info.primary_key:
        keys = _primary_keys(transaction, info, plan.key, keys)
    index = index_of(transaction, info, statement, plan)
    expressions = expressions_of(session, transaction, info, statement, lookup_in(params or ()))
    return _Found(path, plan, index, expressions, found_rows(index, keys, plan.search, expressions))


def _changed(
    transaction: Transaction,
    info: TableInfo,
    statement: st.KeyedChange,
    params: Params,
    found: _Found,
) -> Result:
    """The change by the fast path; NotFastError if DuckDB must run the statement."""
    path, index, stored = found.path, found.index, found.stored
    sets, returning = found.plan.sets, found.plan.returning
    returns = statement.returning
    if statement.kind == "delete":
        changes = path.check(Effect(deleted=stored), index, returning=returns)
        return finished(transaction, changes, stored, returning)
    types = [info.schema[i][1] for i in sets.literal]
    literal = columns_of(statement.rows, types, params or (), transaction.idle_cursor)
    given = dict(zip(sets.literal, literal, strict=True))
    new = new_rows(sets, info.schema, stored, index, found.expressions, given)
    effect = Effect(replaced=stored, updated=new, sets=sets.all)
    return finished(transaction, path.check(effect, index, returning=returns), new, returning)


class ChangePlan(NamedTuple):
    """How an UPDATE or DELETE is done; `key` has the columns that rows are found by."""

    sets: Assignments
    search: Search
    key: tuple[int, ...]
    returning: Returning | None


def plan_of(session: Session, info: TableInfo, statement: st.KeyedChange) -> ChangePlan:
    """The plan of the fast path; NotFastError if DuckDB must run the statement."""
    of = info, session.macros
    plan = functools.partial(_planned, session, info, statement)
    return session.plans.find("keyed", statement.text, of, plan)


def _planned(session: Session, info: TableInfo, statement: st.KeyedChange) -> ChangePlan:
    found = demanded(_search(info, statement), _NO_KEY if info.keyed else _NO_INDEX)
    sets, returning = (
        assignments_of(statement, info),
        returned(session, info, statement, statement.returned),
    )
    if sets.all and moves_parents(info, sets.all, returning=statement.returning):
        raise NotFastError(MOVES_PARENTS)
    return ChangePlan(sets, *found, returning)


def _search(info: TableInfo, statement: st.KeyedChange) -> tuple[Search, tuple[int, ...]] | None:
    """How the rows are found, by the primary key, or by columns with a constraint or an index."""
    others = (*info.uniques, *info.indexed) if info.keyed else info.indexed
    for key in (info.primary_key, *others):
        search = search_of(statement, info, key)
        if search is not None:
            return search, key
    return None


def _primary_keys(
    transaction: Transaction, info: TableInfo, key: tuple[int, ...], keys: Sequence[Column]
) -> list[Column]:
    """The primary keys of the rows with these keys of an index; NotFastError if it lacks."""
    index = demanded(transaction.index_by(info.name, key), NO_INDEX_NOW)
    rows = index.find(keys).rows
    return [rows.columns[index.columns.index(position)] for position in info.primary_key]


def index_of(
    transaction: Transaction, info: TableInfo, statement: st.KeyedChange, plan: ChangePlan
) -> KeyIndex:
    """The index that has the rows: the key index, without a key the arrangement by the columns;
    NotFastError if it cannot be used."""
    if not info.keyed:
        return demanded(transaction.index_by(info.name, plan.key), NO_INDEX_NOW)
    needs_all = _needs_all(info, statement, plan)
    return demanded(transaction.index_of_committed(info.name, needs_all), NO_INDEX_NOW)


def _needs_all(info: TableInfo, statement: st.KeyedChange, plan: ChangePlan) -> bool:
    """Returns whether the index must hold all columns of the table."""
    search, sets = plan.search, plan.sets
    if search.conditions or sets.computed or not sets.all.isdisjoint(info.primary_key):
        return True
    if statement.kind == "delete":
        return statement.returning
    return len(sets.literal) + len(info.primary_key) < len(info.schema)


def expressions_of(
    session: Session,
    transaction: Transaction,
    info: TableInfo,
    statement: st.KeyedChange,
    lookup: Lookup,
) -> RowExpressions:
    """Evaluates SET and the conditions over the columns of the stored rows."""
    assert statement.table is not None
    names = ("", statement.alias or statement.table[-1])
    return row_expressions(session, transaction, statement, ((info.schema, names),), lookup)
