"""UPDATE and DELETE of the rows that a key index finds, without a DuckDB statement.

Contract: rows, count, errors and what RETURNING gives are those of DuckDB's own run; a statement
that is not certain to have them runs in DuckDB.
"""

from __future__ import annotations

from ivm.engine.transaction import Transaction
from ivm.ingest.keyed_rows import (
    Assignments,
    Search,
    assignments_of,
    found_rows,
    keys_of,
    new_rows,
    search_of,
)
from ivm.ingest.literal_columns import are_given, columns_of
from ivm.ingest.row_expressions import Lookup, RowExpressions, lookup_in
from ivm.session import dml
from ivm.session.inserts import finished, returned
from ivm.session.result import Result
from ivm.session.session import Params, Session
from ivm.sql.statements import parse as st
from ivm.storage.warehouse.table_info import TableInfo


def change_by_key(session: Session, statement: st.KeyedChange, params: Params) -> Result:
    """Updates or deletes the rows that the WHERE clause finds by an index."""
    with session.writing() as transaction:
        info = dml.table_of(session, statement)
        result = None
        if info is not None and are_given(statement.parameters, params or ()):
            result = _change(session, transaction, info, statement, params)
        if result is None:
            return dml.run_in_duckdb(session, transaction, statement, info, params)
        return result


def _change(
    session: Session,
    transaction: Transaction,
    info: TableInfo,
    statement: st.KeyedChange,
    params: Params,
) -> Result | None:
    """The change by the fast path; None if DuckDB must run the statement."""
    path, sets = transaction.fast_path(info.name), assignments_of(statement, info)
    search, returning = search_of(statement, info, info.primary_key), None
    if path is None or sets is None or search is None:
        return None
    if statement.returning and (returning := returned(session, info, statement)) is None:
        return None
    keys = keys_of(search, info.schema, info.primary_key, params or ())
    all_columns = needs_all(info, statement, search, sets)
    index = None if keys is None else transaction.index_of_committed(info.name, all_columns)
    if index is None or keys is None:
        return None
    expressions = expressions_of(session, info, statement, lookup_in(params or ()))
    stored = found_rows(index, keys, search, expressions)
    if stored is None or statement.kind == "delete":
        change = None if stored is None else path.change(None, stored, index)
        return None if change is None else finished(transaction, change, change.removed, returning)
    types = [info.schema[i][1] for i in sets.literal]
    literal = columns_of(statement.rows, types, params or (), transaction.idle_cursor)
    if literal is None:
        return None
    given = dict(zip(sets.literal, literal, strict=True))
    new = new_rows(sets, info.schema, stored, index, expressions, given)
    if new is None or next(path.violations(new), None) is not None:
        return None
    return finished(transaction, path.change(new, stored, index), new, returning)


def needs_all(
    info: TableInfo, statement: st.KeyedChange, search: Search, sets: Assignments
) -> bool:
    """Returns whether the index must hold all columns of the table."""
    if search.conditions or sets.computed:
        return True
    if statement.kind == "delete":
        return statement.returning
    return len(sets.literal) + len(info.primary_key) < len(info.schema)


def expressions_of(
    session: Session, info: TableInfo, statement: st.KeyedChange, lookup: Lookup
) -> RowExpressions:
    """Evaluates SET and the conditions over the columns of the stored rows."""
    assert statement.table is not None
    names = ("", statement.alias or statement.table[-1])
    return RowExpressions(((info.schema, names),), session.macros, lookup)
