"""A few rows as Python values for DuckDB's appender.

Registering an Arrow batch with DuckDB costs more than 0.5 ms before the first row; the appender
takes a few hundred Python rows in less.

Contract: the values written are exactly those of the batch; where a type has no exact Python value
(or none that the appender takes), the answer is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import duckdb
import numpy as np

from ivm.storage.values import thresholds
from ivm.storage.values.column import Column, DictionaryColumn, FixedColumn
from ivm.storage.values.dictionary import words
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duck import Cursor

Action: TypeAlias = Literal["insert", "update", "delete"]


_FEW, _TIMES = 32, 4
"""So few rows to be updated by a key of one column are given to DuckDB so many times over, which
changes nothing: it hashes the smaller side of the join, and where this is not the table it may make
a filter of the range of the keys for the table's scan. To fill that took 7 to 15 million
instructions, the whole statement without it 2 to 3 (views of 5 to 80 rows). Deletions are given
once: DuckDB's fault `rows_deleted_twice`."""

_MOST_PARSED = 256
"""Statements that are kept parsed."""

# Python's datetime ends with the year 9999, and DuckDB's infinities lie beyond.
_FIRST_DAY, _LAST_DAY = -719162, 2932896
_DAY = 86_400_000_000  # microseconds

_EXACT = {"BOOLEAN", "FLOAT", "DOUBLE", "VARCHAR", "BLOB", "HUGEINT"}
_ROUNDED_SCALE = 38  # of decimals that the appender takes for doubles


class Appenders:
    """A cursor's appenders and statements, kept since making one costs as much as using it.

    Args:
        cursor: they write inside its transactions.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._made: dict[tuple[str, str, tuple[str, ...]], duckdb.Appender] = {}
        self._parsed: dict[str, duckdb.Statement] = {}

    def run(self, sql: str, params: Sequence[object] | None = None) -> None:
        """Runs a statement that comes again and again to its end; it is parsed once."""
        if sql not in self._parsed:
            if len(self._parsed) >= _MOST_PARSED:
                self._parsed.clear()
            (self._parsed[sql],) = self._cursor.extract_statements(sql)
        self._cursor.execute(self._parsed[sql], params)
        self._cursor.complete()

    def write(
        self,
        table: str,
        rows: Sequence[tuple[object, ...]],
        action: Action = "insert",
        key: tuple[str, ...] = (),
    ) -> None:
        """Inserts full rows, updates rows by key (full rows), or deletes by key (key values)."""
        appender = self._made.get((table, action, key))
        if appender is None:
            appender = self._cursor.appender(table, action=action, key=list(key) or None)
            self._made[table, action, key] = appender
        try:
            repeat = action == "update" and len(key) == 1
            appender.append_rows(_repeated(rows) if repeat else rows)
            appender.flush()
        finally:
            appender.clear()  # rows left by a failure would be written with the next ones

    def forget(self) -> None:
        """The tables have changed, or the cursor is closed."""
        self._made.clear()
        self._parsed.clear()


def _repeated(rows: Sequence[tuple[object, ...]]) -> Sequence[tuple[object, ...]]:
    return [*rows] * _TIMES if len(rows) <= _FEW else rows


def python_rows(batch: ZSet, schema: Schema) -> list[tuple[object, ...]] | None:
    """The batch's rows as tuples (weights left aside), or None if Arrow is the better way."""
    if len(batch) > thresholds.APPENDED_ROWS:
        return None
    types = [type for _, type in schema]
    if not all(_has_exact_value(c, t) for c, t in zip(batch.columns, types, strict=True)):
        return None
    lists = [_values(c, t) for c, t in zip(batch.columns, types, strict=True)]
    return list(zip(*lists, strict=True))


def _values(column: Column, type: ColumnType) -> list[object]:
    if isinstance(column, DictionaryColumn):
        return list(words(column.codes))
    if type.sql == "HUGEINT":
        return _joined_halves(column)
    plain = type.is_integer or type.is_float or type.sql == "BOOLEAN"
    if isinstance(column, FixedColumn) and plain and column.valid is None:
        return column.values.tolist()  # type: ignore[no-any-return]
    return column.to_arrow(type).to_pylist()  # type: ignore[no-any-return]


def _joined_halves(column: Column) -> list[object]:
    assert isinstance(column, FixedColumn)
    values = [(high << 64) | low for low, high in column.values.tolist()]
    if column.valid is None:
        return list(values)
    return [v if valid else None for v, valid in zip(values, column.valid.tolist(), strict=True)]


def _has_exact_value(column: Column, type: ColumnType) -> bool:
    if type.sql == "DATE":
        return _within(column, _FIRST_DAY, _LAST_DAY)
    if type.sql == "TIMESTAMP":
        return _within(column, _FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1)
    if type.is_decimal:
        return type.scale < _ROUNDED_SCALE
    return (type.is_integer and type.is_word) or type.sql in _EXACT


def _within(column: Column, low: int, high: int) -> bool:
    assert isinstance(column, FixedColumn)
    return bool(np.all((column.values >= low) & (column.values <= high)))
