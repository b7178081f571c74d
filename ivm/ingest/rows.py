"""Rows as users give them (Arrow, pandas, polars, dicts) to columns of a table's exact types.

Law: a value means what DuckDB's implicit cast of it to the column's type would mean. Where that is
known (see `python_values` for Python's values, `arrow_values` for Arrow's) it is done here; the
rest is cast by one DuckDB statement.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

from ivm.ingest.arrow_rows import ArrowReader
from ivm.ingest.arrow_values import column_of, is_own
from ivm.ingest.literal_columns import python_column
from ivm.storage.errors import ConstraintError, InputError
from ivm.storage.identifiers import fold, quote
from ivm.storage.values.column import Column, column_from_arrow, concat, empty_column
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.warehouse.duck import Cursor, table
from ivm.storage.warehouse.duckdb_errors import of_our_sql
from ivm.storage.warehouse.table_info import TableInfo

Rows: TypeAlias = Any
"""An Arrow table or batch, a pandas or polars frame, a dict of columns, or a list of dicts."""
Data: TypeAlias = pa.Table | pa.RecordBatch | dict[str, Any]

_ROW = (dict, Mapping)  # the concrete class first: it is told fastest
_LIST = (list, Sequence)
_TEXT = (str, bytes)  # sequences, but of no values
_PARAMETERS = 500  # in one statement
_FORMS = 256  # sets of column names that a reader remembers


def to_arrow(rows: Rows) -> Data:
    """The rows as Arrow, or as a dict of column name to sequence of Python values.

    What it gives it takes as well; a stream it reads to the end.

    Raises:
        InputError: the object is none of the accepted kinds, or its dicts differ in their keys.
    """
    if isinstance(rows, (pa.Table, pa.RecordBatch)):
        return rows
    if isinstance(rows, _ROW):
        return dict(rows)
    if isinstance(rows, _LIST) and not isinstance(rows, _TEXT):
        return _from_dicts(rows)
    if hasattr(rows, "__arrow_c_stream__"):  # polars, and pandas since 2.2
        return pa.table(rows)
    if hasattr(rows, "to_arrow"):
        return rows.to_arrow()
    raise InputError(
        f"cannot take rows of type {type(rows).__name__}: give an Arrow table or batch, a pandas or"
        " polars frame, a dict of columns, or a list of dicts"
    )


def _from_dicts(rows: Sequence[Any]) -> dict[str, Any]:
    if not rows:
        return {}
    for row in rows:
        if not isinstance(row, _ROW):
            raise InputError(
                f"a list of rows must hold dicts, not {type(row).__name__}: "
                "write [{'column': value, …}, …]"
            )
    names = rows[0].keys()
    if not names:
        raise InputError("the rows have no columns: give each row a value at least, or no rows")
    for row in rows:
        if row.keys() != names:
            raise InputError(
                f"the row {dict(row)!r} has other columns than the first one"
                f" ({', '.join(map(str, names))}):"
                " give every row the same columns"
            )
    return {name: [row[name] for row in rows] for name in names}


class RowReader:
    """Takes rows for one table; what it learns of their form it keeps for the next call.

    Args:
        info: the table.
    """

    def __init__(self, info: TableInfo) -> None:
        self.info = info
        self._table = info.name
        self._schema = info.schema
        self._known: dict[tuple[str, ...], dict[str, int]] = {}
        self._arrow = ArrowReader(self._plan)

    def read(self, data: Data, cursor: Cursor) -> tuple[dict[int, Column], int]:
        """Columns of the table's types by their position in the table.

        Args:
            data: see `to_arrow`; names are matched without regard to case.
            cursor: evaluates the casts that Arrow cannot do as DuckDB would.

        Returns:
            ({position in schema: column}, number of rows); columns not given are absent.

        Raises:
            InputError: an unknown or doubled column, columns of different lengths.
            ConstraintError: a value does not fit its column's type.
        """
        if not isinstance(data, dict):
            columns = self._arrow.read(data)
            if columns is not None:
                return columns, data.num_rows
        names = tuple(data) if isinstance(data, dict) else tuple(data.schema.names)
        positions = self._known.get(names)
        if positions is None:
            positions = _positions(names, self._schema, self._table)
            if len(self._known) < _FORMS:
                self._known[names] = positions
        given = data if isinstance(data, dict) else dict(zip(names, data.columns, strict=True))
        count = _common_length(given)
        return _typed(given, positions, self._schema, self._table, cursor), count

    def _plan(self, schema: pa.Schema) -> list[tuple[int, ColumnType]] | None:
        """Where each column goes; None if one of them is to be converted."""
        positions = _positions(schema.names, self._schema, self._table)
        plan = [(positions[name], self._schema[positions[name]][1]) for name in schema.names]
        types = zip(schema.types, plan, strict=True)
        return plan if all(is_own(given, type) for given, (_, type) in types) else None


def _common_length(given: dict[str, Any]) -> int:
    count = None
    for name, values in given.items():
        if isinstance(values, _TEXT) or not hasattr(values, "__len__"):
            raise InputError(f"a column must be a sequence of values, not {values!r}")
        count = len(values) if count is None else count
        if len(values) != count:
            raise InputError(
                f"columns differ in length: {name!r} has {len(values)} values, others {count}"
            )
    return count or 0


def _positions(names: Sequence[str], schema: Schema, table_name: str) -> dict[str, int]:
    known = {fold(name): i for i, (name, _) in enumerate(schema)}
    positions: dict[str, int] = {}
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"the name of a column is text, not {name!r}")
        position = known.get(fold(name))
        if position is None:
            raise InputError(
                f"table {table_name!r} has no column {name!r}; it has: "
                + ", ".join(column for column, _ in schema)
            )
        if position in positions.values():
            raise InputError(f"column {name!r} of table {table_name!r} is given twice")
        positions[name] = position
    return positions


def _single(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The one chunk of a column that has one."""
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        return column.chunk(0)
    return column


def _array(values: Any) -> pa.Array | pa.ChunkedArray | None:
    """A column's values as Arrow, in the type that is their own; None if Arrow has none."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return _single(values)
    try:
        return pa.array(values)
    except pa.ArrowNotImplementedError:
        return None
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # of several types, or too large
        return pa.array([None if v is None else str(v) for v in values], pa.large_string())


def _typed(
    given: dict[str, Any],
    positions: dict[str, int],
    schema: Schema,
    table_name: str,
    cursor: Cursor,
) -> dict[int, Column]:
    columns: dict[int, Column] = {}
    foreign: dict[str, pa.Array] = {}
    for name, values in given.items():
        position = positions[name]
        type = schema[position][1]
        column = python_column(values, type) if isinstance(values, list) else None
        if column is None:
            own = None if isinstance(values, list) and _is_parameter(type) else _array(values)
            if own is None:
                columns[position] = _cast_parameters(list(values), type, table_name, cursor)
                continue
            array = own
            column = column_of(array, type)
        if column is None:
            foreign[name] = array
        else:
            columns[position] = column
    if foreign:
        columns.update(_cast(foreign, positions, schema, table_name, cursor))
    return columns


def _is_parameter(type: ColumnType) -> bool:
    """Whether Arrow has no form for Python's values: UUIDs and times with a zone inside others."""
    return type.dtype is None and any(word in type.sql for word in ("UUID", "TIME WITH TIME ZONE"))


def _cast_parameters(
    values: list[Any], type: ColumnType, table_name: str, cursor: Cursor
) -> Column:
    """Python values as DuckDB's INSERT takes them for parameters."""
    parts = []
    for begin in range(0, len(values), _PARAMETERS):
        part = values[begin : begin + _PARAMETERS]
        cells = ", ".join([f"(CAST(? AS {type.sql}))"] * len(part))
        try:
            cast = table(cursor, f"VALUES {cells}", part)
        except duckdb.Error as error:
            raise ConstraintError(
                f"a value does not fit table {table_name!r} ({type.sql}): {of_our_sql(error)}; "
                "nothing was changed"
            ) from error
        parts.append(column_from_arrow(cast.column(0), type))
    return concat(parts) if parts else empty_column(type)


def _cast(
    arrays: dict[str, pa.Array],
    positions: dict[str, int],
    schema: Schema,
    table_name: str,
    cursor: Cursor,
) -> dict[int, Column]:
    """The columns that need a conversion, cast together by one DuckDB statement."""
    given = pa.table({f"v{positions[name]}": array for name, array in arrays.items()})
    targets = {f"v{positions[name]}": schema[positions[name]] for name in arrays}
    casts = ", ".join(f"CAST({v} AS {type.sql}) AS {v}" for v, (_, type) in targets.items())
    cursor.register("ivm_given", given)
    try:
        cast = table(cursor, f"SELECT {casts} FROM ivm_given")
        cursor.unregister("ivm_given")
    except duckdb.Error as error:
        with contextlib.suppress(duckdb.TransactionException):  # aborted: the name goes with it
            cursor.unregister("ivm_given")
        columns = ", ".join(f"{quote(name)} {type.sql}" for name, type in targets.values())
        raise ConstraintError(
            f"a value does not fit table {table_name!r} ({columns}): {of_our_sql(error)}; "
            "nothing was changed"
        ) from error
    return {
        positions[name]: column_from_arrow(cast.column(i), schema[positions[name]][1])
        for i, name in enumerate(arrays)
    }
