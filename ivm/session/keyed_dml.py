"""UPDATE and DELETE of one row by its primary key, without a DuckDB statement.

Contract: rows, count and errors are those of DuckDB's own run of the statement. A key is compared
only with a value of its own kind (an integer with an integer, a string with a string); a statement
that is not known to have the same meaning here runs in DuckDB.
"""

from __future__ import annotations

import functools
import re

import duckdb

from ivm.delta_ops.operator import Kernel
from ivm.engine.transaction import Transaction
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.ingest.literal_columns import columns_of
from ivm.session import dml
from ivm.session.result import Result
from ivm.session.session import Params, Session
from ivm.sql.parse.expression_text import expression_of
from ivm.sql.scalar.compile import compile_scalar
from ivm.sql.statements import parse as st
from ivm.storage.errors import EvaluationError
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.warehouse.table_info import TableInfo

_INTEGER = re.compile(r"-?[0-9]+")


def change_one(session: Session, statement: st.KeyedChange, params: Params) -> Result:
    """Updates or deletes the row with a key."""
    with session.writing() as transaction:
        info = dml.table_of(session, statement)
        change = None if info is None else _change(session, transaction, info, statement, params)
        if change is None:
            return dml.run_in_duckdb(session, transaction, statement, info, params)
        transaction.add(change)
        return Result.count(1 if len(change) else 0)


def _change(
    session: Session,
    transaction: Transaction,
    info: TableInfo,
    statement: st.KeyedChange,
    params: Params,
) -> TableChange | None:
    """The change by the fast path; None if DuckDB must run the statement."""
    path = transaction.fast_path(info.name)
    positions = None if path is None else _positions(info, statement, params)
    if path is None or positions is None:
        return None
    every = len(positions) == len(info.schema) and not statement.computed
    all_columns = statement.kind == "update" and not every
    index = transaction.index_if_worthwhile(info.name, all_columns=all_columns)
    if index is None:
        return None
    types = [info.schema[i][1] for i in positions]
    columns = columns_of(statement.rows, types, params or (), transaction.idle_cursor)
    if columns is None:
        return None
    given = dict(zip(positions, columns, strict=True))
    return _checked(path, index, info, statement, given, session.macros)


def _checked(
    path: FastPath,
    index: KeyIndex,
    info: TableInfo,
    statement: st.KeyedChange,
    given: dict[int, Column],
    macros: frozenset[str],
) -> TableChange | None:
    """The change of the stored row; None if DuckDB must evaluate the expressions."""
    keys = {i: given[i] for i in path.key}
    stored = index.find(list(keys.values())).rows
    if not len(stored):
        return path.nothing(index)
    if statement.kind == "delete":
        return path.delete(keys, 1, index)
    for name, text in statement.computed:
        position = info.position(name)
        assert position is not None
        kernel = _kernel(text, info.schema, info.schema[position][1], macros)
        if kernel is None:
            return None
        try:  # of the stored row: SET reads the old values
            given[position] = kernel(stored.columns, 1)
        except (EvaluationError, duckdb.Error):
            return None
    return path.upsert(given, 1, index)


def _positions(info: TableInfo, statement: st.KeyedChange, params: Params) -> list[int] | None:
    """The positions of the columns with literal values.

    Returns:
        None if the WHERE clause is not the primary key or has a value of another kind, or a column
        is unknown, set twice, or both set and in the key.
    """
    names = [*statement.columns, *[name for name, _ in statement.computed]]
    found = [info.position(name) for name in names]
    known = [i for i in found if i is not None]
    count = len(statement.columns)
    keys = known[count - statement.keys : count]
    if len(set(known)) < len(names) or set(keys) != set(info.primary_key):
        return None
    return known[:count] if _keys_fit(info, statement, params) else None


def _keys_fit(info: TableInfo, statement: st.KeyedChange, params: Params) -> bool:
    """Returns whether each key column is compared with a value of its own kind."""
    for column in range(len(statement.columns) - statement.keys, len(statement.columns)):
        position = info.position(statement.columns[column])
        assert position is not None
        sources = statement.rows.column_parameters[column]
        type = info.schema[position][1]
        if sources is None:
            fits = _literal_fits(statement.rows.cells[column][0], type)
        else:
            fits = _parameter_fits(params, sources[0], type)
        if not fits:
            return False
    return True


def _literal_fits(cell: str, type: ColumnType) -> bool:
    if type.is_integer:
        return _INTEGER.fullmatch(cell) is not None
    return type.sql == "VARCHAR" and cell[:1] == "'"


def _parameter_fits(params: Params, parameter: int | str, type: ColumnType) -> bool:
    try:
        value = params[parameter]  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        return False
    if type.is_integer:
        return isinstance(value, int) and not isinstance(value, bool)
    return type.sql == "VARCHAR" and isinstance(value, str)


@functools.lru_cache(maxsize=256)
def _kernel(text: str, schema: Schema, output: ColumnType, macros: frozenset[str]) -> Kernel | None:
    """The kernel of an expression over a table's columns, cast to a column's type."""
    cast = f"CAST(({text}) AS {output.sql})"
    tree = expression_of(cast, [name for name, _ in schema], macros)
    if tree is None:
        return None
    try:
        return compile_scalar(tree, [type for _, type in schema], output)
    except duckdb.Error:
        return None
