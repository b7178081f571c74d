"""Converts columns of rows (Python lists, Arrow and numpy arrays, Series) to a table's types.

Law: each value is cast as DuckDB casts it alone. Values of a list that one Arrow array would alter
are converted in parts, and joined (see `python_parts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from ivm.ingest.values.arrow_values import column_of
from ivm.ingest.values.duckdb_casts import Array, cast_arrays, cast_parameters
from ivm.ingest.values.python_parts import arrow_form, inferred, parts_of, without_missing
from ivm.ingest.values.python_values import python_column
from ivm.storage.errors import ConstraintError
from ivm.storage.identifiers import quote
from ivm.storage.values.column import ArrowColumn, Column, FixedColumn, concat, owned
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.duckdb.duckdb_errors import is_cut_short, of_our_sql

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
        """Converts values, by their column's position; DuckDB's casts are one statement.

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
        """The column, or the array that DuckDB must cast."""
        type = self._schema[position][1]
        listed = values if isinstance(values, list) else _listed(values)
        if listed is None:
            array = _array(values)
        else:
            column = python_column(listed, type)
            if column is not None:
                return column
            listed = without_missing(listed)
            parts = parts_of(listed, type)
            if 1 < len(parts) <= _MOST_PARTS:
                return self._joined(position, listed, parts)
            array = arrow_form(listed, type) if len(parts) == 1 else None
        if array is None:
            return self._cast_parameters(list(values) if listed is None else listed, type)
        column = column_of(array, type)
        if column is None:
            return array
        return column if listed is not None else owned(column)

    def _joined(self, position: int, values: list[Any], parts: list[list[int]]) -> Column:
        """Converts each part by itself."""
        given = [[values[i] for i in part] for part in parts]
        columns = [self.convert({position: part})[position] for part in given]
        order = np.concatenate(parts)  # the row of each value; its inverse puts them back
        return concat(columns).take(np.argsort(order))

    def _cast_parameters(self, values: list[Any], type: ColumnType) -> Column:
        try:
            return cast_parameters(values, type, self._cursor)
        except duckdb.Error as error:
            if is_cut_short(error):
                raise
            raise self._misfit(type.sql, error) from error

    def _cast(self, arrays: Mapping[int, Array]) -> dict[int, Column]:
        types = {i: self._schema[i][1] for i in arrays}
        try:
            return cast_arrays(arrays, types, self._cursor)
        except duckdb.NotImplementedException:  # an Arrow type that DuckDB does not know
            raise
        except duckdb.Error as error:
            if is_cut_short(error):
                raise
            columns = [f"{quote(self._schema[i][0])} {type.sql}" for i, type in types.items()]
            raise self._misfit(", ".join(columns), error) from error

    def _misfit(self, columns: str, error: duckdb.Error) -> ConstraintError:
        return ConstraintError(
            f"a value does not fit table {self._table!r} ({columns}): {of_our_sql(error)}; "
            "nothing was changed"
        )


def _listed(values: Any) -> list[Any] | None:
    """Python values of a tuple or an array of objects as a list, None for others.

    On some of them that are NumPy's, and of several types, Arrow ends the process.
    """
    is_array = isinstance(values, np.ndarray) and values.dtype == object
    return list(values) if is_array or isinstance(values, tuple) else None


def _array(values: Sequence[Any] | Array) -> Array | None:
    """A column's values as Arrow, in the type that is their own; None if it has none."""
    if isinstance(values, pa.ChunkedArray) and values.num_chunks == 1:
        return values.chunk(0)
    return values if isinstance(values, pa.Array | pa.ChunkedArray) else inferred(values)
