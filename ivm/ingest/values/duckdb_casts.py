"""Casts values by DuckDB, where no kernel and no rule is sure of the result."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

from ivm.storage.values.column import Column, column_from_arrow, concat, empty_column
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duckdb.duck import Cursor, table

Array: TypeAlias = pa.Array | pa.ChunkedArray

_PARAMETERS = 500  # in one statement


def cast_arrays(
    arrays: Mapping[int, Array], types: Mapping[int, ColumnType], cursor: Cursor
) -> dict[int, Column]:
    """Casts arrays of one length to a type each, together by one statement.

    Raises:
        duckdb.Error: a value does not fit its type.
    """
    casts = ", ".join([f"CAST(v{i} AS {types[i].sql}) AS v{i}" for i in arrays])
    cursor.register("ivm_given", pa.table({f"v{i}": array for i, array in arrays.items()}))
    try:
        cast = table(cursor, f"SELECT {casts} FROM ivm_given")
    finally:
        with contextlib.suppress(duckdb.TransactionException):  # aborted: the name goes with it
            cursor.unregister("ivm_given")
    pairs = zip(arrays, cast.columns, strict=True)
    return {i: column_from_arrow(array, types[i]) for i, array in pairs}


def cast_parameters(values: Sequence[Any], type: ColumnType, cursor: Cursor) -> Column:
    """Casts Python values one by one, as DuckDB's INSERT does it with its parameters.

    Raises:
        duckdb.Error: a value does not fit the type.
    """
    parts = []
    for begin in range(0, len(values), _PARAMETERS):
        part = list(values[begin : begin + _PARAMETERS])
        cells = ", ".join([f"(CAST(? AS {type.sql}))"] * len(part))
        cast = table(cursor, f"VALUES {cells}", part)
        parts.append(column_from_arrow(cast.column(0), type))
    return concat(parts) if parts else empty_column(type)
