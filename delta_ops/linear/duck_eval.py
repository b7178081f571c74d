"""Expressions evaluated by DuckDB over a delta, where no kernel exists.

Law: one statement per call; a row number travels along, so results find their rows again whatever
order DuckDB returns them in. Errors of the expression become `EvaluationError` in DuckDB's words.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import duckdb
import numpy as np

from ivm.delta_ops.operator import CursorFactory, Predicate
from ivm.storage.errors import EvaluationError
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask
from ivm.storage.values.types import ColumnType, Schema, type_of
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb import duck

ROW = "row__"
BIGINT = type_of("BIGINT")
_REFUSALS = (
    duckdb.DataError,
    duckdb.InvalidInputException,
    duckdb.NotSupportedError,
    duckdb.BinderException,  # json_each() says so of a path in a row
)


def column_names(types: Sequence[ColumnType], start: int = 0) -> Schema:
    """The schema SQL over a delta sees: c<start>, c<start+1>, …"""
    return tuple((f"c{start + i}", t) for i, t in enumerate(types))


def numbered(columns: Sequence[Column], count: int) -> ZSet:
    """The columns with the row number as one more column at the end."""
    row = FixedColumn(np.arange(count, dtype=np.int64))
    return ZSet((*columns, row), np.ones(count, np.int64))


def run_sql(
    cursor_factory: CursorFactory,
    sql: str,
    inputs: Mapping[str, tuple[ZSet, Schema]],
    output: Schema,
) -> ZSet:
    """Runs `duck.evaluate` on a fresh cursor, with DuckDB's errors as `EvaluationError`."""
    with contextlib.closing(cursor_factory()) as cursor:
        try:
            return duck.evaluate(cursor, sql, inputs, output)
        except _REFUSALS as error:
            raise EvaluationError(str(error)) from error


def row_numbers(column: Column) -> Indexes:
    """The values of a row number column that came back from DuckDB."""
    assert isinstance(column, FixedColumn)
    return column.values


def duck_predicate(
    condition: str, types: Sequence[ColumnType], cursor_factory: CursorFactory
) -> Predicate:
    """A predicate evaluated by DuckDB.

    Args:
        condition: SQL over c0, c1, … of `types`.
    """
    schema = (*column_names(types), (ROW, BIGINT))
    sql = f"SELECT {ROW} FROM delta WHERE {condition}"

    def predicate(columns: Sequence[Column], count: int) -> Mask:
        registered = {"delta": (numbered(columns, count), schema)}
        found = run_sql(cursor_factory, sql, registered, ((ROW, BIGINT),))
        mask = np.zeros(count, np.bool_)
        mask[row_numbers(found.columns[0])] = True
        return mask

    return predicate
