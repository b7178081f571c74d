"""Columns of a table's types from those of rows: Python lists, Arrow and numpy arrays, Series.

Law: each value means what DuckDB makes of it alone. Values of a list that would not in one Arrow
array are converted in parts, and joined (see `python_parts`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

from ivm.ingest.arrow_values import column_of
from ivm.ingest.literal_columns import python_column
from ivm.ingest.python_parts import arrow_form, parts_of
from ivm.storage.errors import ConstraintError
from ivm.storage.identifiers import quote
from ivm.storage.values.column import (
    ArrowColumn,
    Column,
    FixedColumn,
    column_from_arrow,
    concat,
    empty_column,
)
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.warehouse.duck import Cursor, table
from ivm.storage.warehouse.duckdb_errors import of_our_sql

Array: TypeAlias = pa.Array | pa.ChunkedArray

_PARAMETERS = 500  # in one statement
_MOST_PARTS = 64  # of one column; DuckDB casts the values of more one by one


class RowColumns:
    """Converts the columns of a table's rows.

    Args:
        schema: the table's columns.
        table_name: for error messages.
        cursor: evaluates the casts that are not known here.
    """

    def __init__(self, schema: Schema, table_name: str, cursor: Cursor) -> None:
        self._schema = schema
        self._table = table_name
        self._cursor = cursor

    def convert(self, given: Mapping[int, Any]) -> dict[int, Column]:
        """Converts values, by their column's position; one statement casts what DuckDB must cast.

        Raises:
            ConstraintError: a value does not fit its column's type.
        """
        columns: dict[int, Column] = {}
        foreign: dict[int, Array] = {}
        for position, values in given.items():
            found = self._convert(position, values)
            if isinstance(found, (FixedColumn, ArrowColumn)):
                columns[position] = found
            else:
                foreign[position] = found
        if foreign:
            columns.update(self._cast(foreign))
        return columns

    def _convert(self, position: int, values: Any) -> Column | Array:
        """The column, or the array that DuckDB is to cast."""
        type = self._schema[position][1]
        if not isinstance(values, list):
            array = _array(values)
        else:
            column = python_column(values, type)
            if column is not None:
                return column
            parts = parts_of(values, type)
            if 1 < len(parts) <= _MOST_PARTS:
                return self._joined(position, values, parts)
            array = arrow_form(values, type) if len(parts) == 1 else None
        if array is None:
            return self._cast_parameters(list(values), type)
        column = column_of(array, type)
        return array if column is None else column

    def _joined(self, position: int, values: list[Any], parts: list[list[int]]) -> Column:
        """Converts each part by itself."""
        given = [[values[i] for i in part] for part in parts]
        columns = [self.convert({position: part})[position] for part in given]
        order = np.concatenate(parts)
        return concat(columns).take(np.argsort(order))

    def _cast_parameters(self, values: list[Any], type: ColumnType) -> Column:
        """Casts Python values as DuckDB's INSERT takes them for parameters."""
        parts = []
        for begin in range(0, len(values), _PARAMETERS):
            part = values[begin : begin + _PARAMETERS]
            cells = ", ".join([f"(CAST(? AS {type.sql}))"] * len(part))
            try:
                cast = table(self._cursor, f"VALUES {cells}", part)
            except duckdb.Error as error:
                raise self._misfit(type.sql, error) from error
            parts.append(column_from_arrow(cast.column(0), type))
        return concat(parts) if parts else empty_column(type)

    def _cast(self, arrays: Mapping[int, Array]) -> dict[int, Column]:
        """Casts the columns together by one statement."""
        cursor, types = self._cursor, {i: self._schema[i][1] for i in arrays}
        casts = ", ".join([f"CAST(v{i} AS {type.sql}) AS v{i}" for i, type in types.items()])
        cursor.register("ivm_given", pa.table({f"v{i}": array for i, array in arrays.items()}))
        try:
            cast = table(cursor, f"SELECT {casts} FROM ivm_given")
            cursor.unregister("ivm_given")
        except duckdb.Error as error:
            with contextlib.suppress(duckdb.TransactionException):  # aborted: the name goes with it
                cursor.unregister("ivm_given")
            columns = [f"{quote(self._schema[i][0])} {type.sql}" for i, type in types.items()]
            raise self._misfit(", ".join(columns), error) from error
        pairs = zip(types.items(), cast.columns, strict=True)
        return {i: column_from_arrow(array, type) for (i, type), array in pairs}

    def _misfit(self, columns: str, error: duckdb.Error) -> ConstraintError:
        return ConstraintError(
            f"a value does not fit table {self._table!r} ({columns}): {of_our_sql(error)}; "
            "nothing was changed"
        )


def _array(values: Sequence[Any] | Array) -> Array | None:
    """A column's values as Arrow, in the type that is their own; None if Arrow has none."""
    if isinstance(values, pa.ChunkedArray) and values.num_chunks == 1:
        return values.chunk(0)
    return values if isinstance(values, pa.Array | pa.ChunkedArray) else arrow_form(values, None)
