"""Few rows of a query, read as Python values: an Arrow stream takes longer to set up than to read.

Law: the columns are bit for bit those that Arrow gives, or there are none: of types whose Python
values are not exact, of dates beyond Python's calendar, of many rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from types import NoneType
from typing import Any

from ivm.ingest.python_values import RULES, Values, python_values
from ivm.sql.scalar.compile import cast_column
from ivm.storage.values.column import Column, null_column
from ivm.storage.values.types import ColumnType, Schema, type_of
from ivm.storage.values.zset import ZSet, ones
from ivm.storage.warehouse.duck import Cursor, give_up

MOST = 256
"""Rows that are many."""
_MOST_QUERIES, _TRIALS = 1024, 4
_LITERALS = re.compile(r"'(?:[^']|'')*'|\d+")
_KINDS: dict[str, type] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), int),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), int),
    **{"BOOLEAN": bool, "FLOAT": float, "DOUBLE": float, "DECIMAL": Decimal, "VARCHAR": str},
    **{"DATE": date, "TIMESTAMP": datetime, '"NULL"': NoneType},
}
_ENDS: dict[type, tuple[object, ...]] = {
    date: (date.min, date.max),
    datetime: (datetime.min, datetime.max),
}
"""What infinite times are to DuckDB's Python values."""

Params = Sequence[Any] | Mapping[str, Any] | None


class FewRows:
    """Reads queries that have given few rows before; those that differ in literals are one.

    A query that is not known goes another way at first: many rows would have to be computed twice.
    """

    def __init__(self) -> None:
        self._ready: set[str] = set()
        self._unfit: dict[str, int] = {}  # how often a query's rows could not be read so

    def learn(self, sql: str, count: int) -> None:
        """Notes how many rows a query has given."""
        if len(self._ready) + len(self._unfit) > _MOST_QUERIES:
            self._ready, self._unfit = set(), {}
        shape = _shape(sql)
        if count < MOST and self._unfit.get(shape, 0) < _TRIALS:
            self._ready.add(shape)

    def knows(self, sql: str) -> bool:
        """Returns whether a query is known to give few rows."""
        return _shape(sql) in self._ready

    def read(
        self, cursor: Cursor, sql: str, params: Params, wanted: Schema | None = None
    ) -> tuple[Schema, ZSet] | None:
        """The columns and rows of a query; None if they must be read another way.

        Args:
            cursor: is left without a result.
            sql: the query.
            params: its parameters.
            wanted: columns with the types that the values are cast to; None for the query's own.

        Raises:
            duckdb.Error: it fails.
        """
        if not self.knows(sql):
            return None
        schema, rows = _fetched(cursor, sql, params)
        if rows is None or len(rows) < MOST:
            columns = None if rows is None else _columns(rows, schema, wanted or schema)
            if columns is not None and rows is not None:
                return wanted or schema, ZSet(columns, ones(len(rows)))
            self._unfit[_shape(sql)] = self._unfit.get(_shape(sql), 0) + 1
        self._ready.discard(_shape(sql))
        return None


def _fetched(
    cursor: Cursor, sql: str, params: Params
) -> tuple[Schema, list[tuple[Any, ...]] | None]:
    """The columns and the first rows of a query; None for rows whose values are not exact."""
    cursor.execute(sql, params)
    schema = tuple([(name, type_of(str(type))) for name, type, *_ in cursor.description or ()])
    exact = all(type.base in _KINDS for _, type in schema)
    rows = cursor.fetchmany(MOST) if exact else None
    if rows is None or len(rows) == MOST:
        give_up(cursor)
    else:
        cursor.abort()
    return schema, rows


def _shape(sql: str) -> str:
    return _LITERALS.sub("?", sql)


def _columns(
    rows: Sequence[tuple[Any, ...]], schema: Schema, wanted: Schema
) -> tuple[Column, ...] | None:
    if len(schema) != len(wanted):
        return None
    lists = zip(*rows, strict=True) if rows else [()] * len(schema)
    work = zip(lists, schema, wanted, strict=True)
    found = []
    for values, (_, type), (_, target) in work:
        column = _column(values, type, target)
        if column is None:
            return None
        found.append(column)
    return tuple(found)


def _column(values: Sequence[Any], type: ColumnType, target: ColumnType) -> Column | None:
    given = python_values(values)
    if given.kind is NoneType:
        return null_column(target, len(values))
    if not _is_exact(given, type):
        return None
    if type.is_integer and target.is_integer:
        return given.by_rule(RULES, target, len(values))
    column = given.by_rule(RULES, type, len(values))
    if column is None or type.sql == target.sql:
        return column
    return cast_column(column, type, target)


def _is_exact(given: Values, type: ColumnType) -> bool:
    if given.kind is not _KINDS[type.base]:
        return False  # a date beyond Python's calendar is a string
    ends = _ENDS.get(_KINDS[type.base], ())
    return not any(end in given.values for end in ends)
