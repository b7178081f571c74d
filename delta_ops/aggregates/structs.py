"""Structs packed of the columns of a group's rows: the first one, or a list of them.

Law: a struct made of columns is never NULL itself, and its columns determine it, so rows that agree
in them are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from ivm.delta_ops.aggregates.collect import elements, list_column
from ivm.delta_ops.aggregates.group_rows import Grouped
from ivm.delta_ops.state.picked import picked
from ivm.storage.values.column import ArrowColumn, Column, empty_column
from ivm.storage.values.types import ColumnType


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
