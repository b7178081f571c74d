"""Reads rows as users give them (Arrow, pandas, polars, dicts) as columns of a table's types.

Law: a value means what DuckDB's implicit cast of it to the column's type would mean. Known casts
are done by `python_values` for Python's values and `arrow_values` for Arrow's, the others by one
DuckDB statement.
Contract: no column refers to memory of the rows, into which their owner may write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ivm.ingest.arrow_rows import ArrowReader
from ivm.ingest.row_columns import RowColumns
from ivm.ingest.values.arrow_values import is_own
from ivm.ingest.values.durations import intervals, is_of_durations
from ivm.storage.errors import InputError
from ivm.storage.identifiers import fold
from ivm.storage.values.column import Column, owned
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo

Rows: TypeAlias = Any
"""An Arrow table or batch, a pandas or polars frame, a dict of columns, or a list of dicts."""
Data: TypeAlias = pa.Table | pa.RecordBatch | dict[str, Any]

_ROW = (dict, Mapping)  # the concrete class first: its check is the fastest
_LIST = (list, Sequence)
_STRINGS = (str, bytes)  # sequences, but not of values
_ALIKE: tuple[set[type], ...] = (set(), {str}, {bytes})  # objects that are alike to Arrow
_NOT_ARROW = frozenset(("Object", "Int128", "UInt128"))  # types of polars
_SERIES = "_ivm_series"
_FORMS = 256  # sets of column names whose positions are cached


def to_arrow(rows: Rows) -> Data:
    """The rows as Arrow, or as a dict of column name to sequence of Python values.

    A result may be passed in again; a stream is read to its end.

    Raises:
        InputError: the object is none of the accepted kinds, its dicts differ in their keys, or its
            stream fails.
    """
    if isinstance(rows, (pa.Table, pa.RecordBatch)):
        return rows
    if isinstance(rows, _ROW):
        return {name: _column(values) for name, values in rows.items()}
    if isinstance(rows, _LIST) and not isinstance(rows, _STRINGS):
        return _from_dicts(rows)
    if hasattr(rows, "__arrow_c_stream__"):  # polars, and pandas since 2.2
        return _read(rows)
    if hasattr(rows, "to_arrow"):
        return rows.to_arrow()
    raise InputError(
        f"cannot take rows of type {type(rows).__name__}: give an Arrow table or batch, a pandas or"
        " polars frame, a dict of columns, or a list of dicts"
    )


def _read(stream: Any) -> Data:
    try:
        if hasattr(stream, "iterrows"):
            return _of_pandas(stream)
        if hasattr(stream, "iter_rows"):
            return _of_polars(stream)
        return pa.table(stream)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"the stream of rows cannot be read: {error}") from error


def _of_pandas(frame: Any) -> Data:
    """The columns of a pandas frame, and its index if that has a name.

    Objects are listed unless they are texts: Arrow has no type for some, and alters others.
    """
    objects = [name for name, dtype in frame.dtypes.items() if dtype.name == "object"]
    listed = [name for name in objects if set(map(type, frame[name].dropna())) not in _ALIKE]
    table = pa.Table.from_pandas(frame.drop(columns=listed), preserve_index=True)
    for name in [name for name, dtype in frame.dtypes.items() if is_of_durations(dtype)]:
        at = table.column_names.index(str(name))
        table = table.set_column(at, str(name), intervals(frame[name].to_numpy()))
    index = (table.schema.pandas_metadata or {}).get("index_columns", ())
    unnamed = [n for n in index if isinstance(n, str) and n.startswith("__index_level_")]
    lists = {str(n): frame[n].where(frame[n].notna(), None).tolist() for n in listed}
    return _joined(table.drop_columns(unnamed), lists, map(str, frame.columns))


def _of_polars(frame: Any) -> Data:
    """The columns of a polars frame.

    Of objects it lends the addresses, not the values; Arrow has no integers of 128 bits.
    """
    listed = [name for name, dtype in frame.schema.items() if str(dtype) in _NOT_ARROW]
    lists = {name: frame[name].to_list() for name in listed}
    return _joined(pa.table(frame.drop(listed)), lists, frame.columns)


def _column(values: Any) -> Any:
    """A column of a dict: a Series is read as in a frame, an array of lists as lists."""
    if isinstance(values, np.ndarray):
        if values.ndim > 1:
            return list(values)
        return intervals(values) if is_of_durations(values.dtype) else values
    if type(values).__name__ != "Series":
        return values
    data = _read(values.to_frame(_SERIES))
    return data[_SERIES]


def _joined(table: pa.Table, lists: Mapping[str, list[Any]], names: Iterable[str]) -> Data:
    """The columns of a frame, in the order of the names; others come at the end."""
    if not lists:
        return table
    columns = {**dict(zip(table.column_names, table.columns, strict=True)), **lists}
    return {name: columns[name] for name in [*names, *columns]}


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
    """Reads rows for one table, and caches what depends on their column names and types alone.

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
                return {i: owned(column) for i, column in columns.items()}, data.num_rows
        names = tuple(data) if isinstance(data, dict) else tuple(data.schema.names)
        positions = self._known.get(names)
        if positions is None:
            positions = _positions(names, self._schema, self._table)
            if len(self._known) < _FORMS:
                self._known[names] = positions
        given = data if isinstance(data, dict) else dict(zip(names, data.columns, strict=True))
        count = _common_length(given)
        values = {positions[name]: column for name, column in given.items()}
        return RowColumns(self._schema, self._table, cursor).convert(values), count

    def _plan(self, schema: pa.Schema) -> list[tuple[int, ColumnType]] | None:
        """Position and type of each column; None if one of them must be converted."""
        positions = _positions(schema.names, self._schema, self._table)
        plan = [(positions[name], self._schema[positions[name]][1]) for name in schema.names]
        types = zip(schema.types, plan, strict=True)
        return plan if all(is_own(given, type) for given, (_, type) in types) else None


def _common_length(given: dict[str, Any]) -> int:
    count = None
    for name, values in given.items():
        if isinstance(values, _STRINGS) or not hasattr(values, "__len__"):
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
