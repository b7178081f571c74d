"""Few rows of a query, read as Python values: an Arrow stream takes longer to set up than to read.

Law: the rows are bit for bit those that Arrow gives, or there are none: see `fetched_rows`; nor of
many rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ivm.ingest.fetched_rows import fetched_rows, may_be_exact
from ivm.ingest.parameters import Params
from ivm.sql.scalar.compile import cast_column
from ivm.storage.values.column import Column, null_column
from ivm.storage.values.types import ColumnType, Schema, type_of
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duck import Cursor, give_up

MOST = 256
"""Rows that are many."""
_MOST_QUERIES, _TRIALS = 1024, 4
_LITERALS = re.compile(r"'(?:[^']|'')*'|\d+")


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
            read = None if rows is None else _cast(rows, schema, wanted or schema)
            if read is not None:
                return wanted or schema, read
            self._unfit[_shape(sql)] = self._unfit.get(_shape(sql), 0) + 1
        self._ready.discard(_shape(sql))
        return None


def _fetched(
    cursor: Cursor, sql: str, params: Params
) -> tuple[Schema, list[tuple[Any, ...]] | None]:
    """The columns and the first rows of a query; None for rows whose values are not exact."""
    cursor.execute(sql, params)
    schema = tuple([(name, type_of(str(type))) for name, type, *_ in cursor.description or ()])
    exact = all(may_be_exact(type) for _, type in schema)
    rows = cursor.fetchmany(MOST) if exact else None
    if rows is None or len(rows) == MOST:
        give_up(cursor)
    else:
        cursor.abort()
    return schema, rows


def _shape(sql: str) -> str:
    return _LITERALS.sub("?", sql)


def _cast(rows: Sequence[tuple[Any, ...]], schema: Schema, wanted: Schema) -> ZSet | None:
    """The rows in the types of the wanted columns; None if they are not told, or do not fit."""
    read = fetched_rows(rows, [type for _, type in schema])
    return None if read is None else cast_rows(read, schema, wanted)


def cast_rows(rows: ZSet, schema: Schema, wanted: Schema) -> ZSet | None:
    """Rows of some columns in the types of others; None if they do not fit, or DuckDB must cast."""
    if len(schema) != len(wanted):
        return None
    columns = []
    for column, (_, type), (_, target) in zip(rows.columns, schema, wanted, strict=True):
        cast = _cast_column(column, type, target)
        if cast is None:
            return None
        columns.append(cast)
    return ZSet(tuple(columns), rows.weights)


def _cast_column(column: Column, type: ColumnType, target: ColumnType) -> Column | None:
    if type.sql == target.sql:
        return column
    if type.sql == '"NULL"':
        return null_column(target, len(column))
    return cast_column(column, type, target)
