"""The rows of `executemany`: the values of each parameter as one column.

Contract: what has no such form (rows of different lengths or keys) is no batch; the statement is
then executed row by row, and its errors are those of `execute`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from ivm.ingest.parameters import own_value, values_of
from ivm.ingest.rows import to_arrow
from ivm.storage.errors import InputError
from ivm.storage.values.column import Indexes

Many: TypeAlias = Any
"""A list of parameter lists, tuples or dicts; or an Arrow table, a frame or a dict of columns."""
Row: TypeAlias = Sequence[Any] | dict[str, Any]
Rows: TypeAlias = list[Row] | pa.Table | dict[str, Any]
"""Rows one by one, or as named columns."""
_AS_GIVEN = frozenset((list, tuple))
"""Types of rows that are taken as they are."""


class Batch:
    """Values by parameter.

    Args:
        columns: by the index (from 0) or name of the parameter, all of one length.
        count: that length.
    """

    def __init__(self, columns: Mapping[int | str, Any], count: int) -> None:
        self.columns = columns
        self.count = count
        self._listed: dict[int | str, Sequence[Any]] = {}

    def first(self, count: int) -> Batch:
        """The first rows."""
        return Batch({name: column[:count] for name, column in self.columns.items()}, count)

    def values(self, parameter: int | str, rows: Indexes | None = None) -> Sequence[Any]:
        """The values of a parameter as Python objects, of some rows or all."""
        if parameter not in self._listed:
            self._listed[parameter] = _listed(self.columns[parameter])
        values = self._listed[parameter]
        return values if rows is None else [values[i] for i in rows.tolist()]


def _listed(column: Any) -> Sequence[Any]:
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column.to_pylist()  # type: ignore[no-any-return]
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


def drawn(given: Many) -> Many:
    """The rows of an iterator or sequence of any class as a list; others as they are.

    It is called outside of the transaction: what an iterator raises is the program's own error.
    """
    if isinstance(given, list | tuple | str | bytes):
        return given
    is_iterator = hasattr(given, "__next__") and not hasattr(given, "__arrow_c_stream__")
    if is_iterator:
        return list(map(own_value, given))  # it may give one object again and again
    return list(given) if isinstance(given, Sequence | np.ndarray) else given


def rows_of(given: Many) -> Rows:
    """Rows as a list, or as named columns of one length.

    Args:
        given: see `drawn`.

    Raises:
        InputError: it is neither; or the columns differ in length.
    """
    if isinstance(given, str | bytes):
        raise InputError(f"executemany takes rows, not the text {given!r}")
    if isinstance(given, list | tuple):
        return [row if type(row) in _AS_GIVEN else _row(row) for row in given]
    data = to_arrow(given)
    if isinstance(data, dict):
        if len({len(column) for column in data.values()}) > 1:
            raise InputError("columns differ in length: give each parameter as many values")
        return data
    return pa.table(data) if isinstance(data, pa.RecordBatch) else data


def _row(row: Any) -> Row:
    return dict(row) if isinstance(row, Mapping) else values_of(row, "the parameters of a row")


def batch_of(rows: Rows, wanted: Collection[int | str]) -> Batch | None:
    """The batch of a statement with these parameters; None if the rows do not fit them all."""
    if not isinstance(rows, list):
        names = list(rows) if isinstance(rows, dict) else rows.column_names
        columns = list(rows.values()) if isinstance(rows, dict) else rows.columns
        keys: Sequence[int | str] = names if _are_named(wanted) else range(len(names))
        count = len(columns[0]) if columns else 0
        found = dict(zip(keys, columns, strict=True))
        return Batch(found, count) if found.keys() == set(wanted) else None
    if _are_named(wanted):
        named = [row for row in rows if isinstance(row, dict) and row.keys() == wanted]
        if len(named) < len(rows):
            return None
        return Batch({name: [row[str(name)] for row in named] for name in wanted}, len(rows))
    if set(wanted) != {*range(len(wanted))}:
        return None
    if dict in set(map(type, rows)) or set(map(len, rows)) - {len(wanted)}:
        return None
    return Batch(dict(enumerate(zip(*rows, strict=True))), len(rows))


def _are_named(wanted: Collection[int | str]) -> bool:
    return any(isinstance(parameter, str) for parameter in wanted)


def each_row(rows: Rows, *, named: bool) -> list[Row]:
    """The rows one by one, as parameters of `execute`."""
    if isinstance(rows, list):
        return rows
    names = list(rows) if isinstance(rows, dict) else rows.column_names
    columns = rows.values() if isinstance(rows, dict) else rows.columns
    tuples = zip(*[_listed(column) for column in columns], strict=True)
    return [dict(zip(names, row, strict=True)) if named else row for row in tuples]
