"""Results that collect a group's rows: the first value, lists, joined strings, and structs of rows.

Law: a group without rows gives NULL. A struct made of columns is never NULL itself, and its columns
determine it, so rows that agree in them are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivm.delta_ops.aggregates.group_rows import Grouped
from ivm.delta_ops.state.picked import picked
from ivm.storage.values.column import ArrowColumn, Column, FixedColumn, Indexes, empty_column
from ivm.storage.values.types import ColumnType


def first_value(type: ColumnType) -> Callable[[Grouped], Column]:
    """The first row's first column."""
    return lambda g: picked(g.columns[0], g.starts, g.counts > 0)


def offsets(counts: Indexes) -> pa.Array:
    """The offsets at which the lists begin, and the end of the last."""
    ends = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=ends[1:])
    return pa.array(ends)


def listed(element: ColumnType, output: ColumnType) -> Callable[[Grouped], Column] | None:
    """LIST of the first column; None if its Arrow form is not that of a list of such elements."""
    if output.sql != f"{element.sql}[]" or not pa.types.is_list(output.memory):
        return None
    wanted = output.memory.value_type
    probe = elements(FixedColumn(np.zeros(0, element.dtype)), element, wanted) if (
        element.dtype is not None
    ) else elements(ArrowColumn(pa.nulls(0, element.memory)), element, wanted)  # fmt: skip
    if probe is None:
        return None

    def make(grouped: Grouped) -> Column:
        values = elements(grouped.columns[0], element, wanted)
        return list_column(values, grouped.counts, output)

    return make


def elements(column: Column, type: ColumnType, wanted: pa.DataType) -> pa.Array | None:
    """The column as the Arrow type of list elements; None if there is no way."""
    array = column.to_arrow(type)
    if array.type == wanted:
        return array
    try:
        return array.cast(wanted)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return None


def list_column(values: pa.Array | None, counts: Indexes, output: ColumnType) -> ArrowColumn:
    """Lists of consecutive values, NULL where there are none."""
    none = counts == 0
    mask = pa.array(none) if none.any() else None
    array = pa.ListArray.from_arrays(offsets(counts), values, type=output.memory, mask=mask)
    return ArrowColumn(array)


def joined(separator: str) -> Callable[[Grouped], Column]:
    """STRING_AGG of the first column, which has no NULL."""
    between = pa.scalar(separator, pa.large_string())

    def make(grouped: Grouped) -> Column:
        (column, *_) = grouped.columns
        assert isinstance(column, ArrowColumn)
        none = grouped.counts == 0
        mask = pa.array(none) if none.any() else None
        lists = pa.ListArray.from_arrays(offsets(grouped.counts), column.array, mask=mask)
        return ArrowColumn(pc.binary_join(lists, between))

    return make


def listed_structs(
    types: Sequence[ColumnType], output: ColumnType
) -> Callable[[Grouped], Column] | None:
    """LIST of the structs of the first columns; None if there is no Arrow form of them here."""
    wanted = output.memory.value_type if pa.types.is_list(output.memory) else None
    if wanted is None or not _packs(types, wanted):
        return None

    def make(grouped: Grouped) -> Column:
        values = _packed(grouped.columns[: len(types)], types, wanted, None)
        return list_column(values, grouped.counts, output)

    return make


def first_struct(
    types: Sequence[ColumnType], output: ColumnType
) -> Callable[[Grouped], Column] | None:
    """The struct of the first row; None if there is no Arrow form of it here."""
    if not _packs(types, output.memory):
        return None

    def make(grouped: Grouped) -> Column:
        there = grouped.counts > 0
        columns = [picked(c, grouped.starts, there) for c in grouped.columns[: len(types)]]
        mask = None if there.all() else pa.array(np.logical_not(there))
        return ArrowColumn(_packed(columns, types, output.memory, mask))

    return make


def _packs(types: Sequence[ColumnType], wanted: pa.DataType) -> bool:
    if not pa.types.is_struct(wanted) or wanted.num_fields != len(types):
        return False
    return all(
        elements(empty_column(type), type, wanted.field(i).type) is not None
        for i, type in enumerate(types)
    )


def _packed(
    columns: Sequence[Column], types: Sequence[ColumnType], wanted: pa.DataType, mask: pa.Array
) -> pa.Array:
    fields = [wanted.field(i) for i in range(len(types))]
    triples = zip(columns, types, fields, strict=True)
    arrays = [elements(column, type, field.type) for column, type, field in triples]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)
