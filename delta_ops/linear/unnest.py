"""Unnest: each row once for every place in its lists; linear.

Law: the rows of an input row are a function of it alone, so its weight is theirs. Lists run side by
side: row i of a row's output holds element i of each list, NULL where a list has ended.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ivm.delta_ops.operator import Operator
from ivm.storage.values.column import ArrowColumn, Column, FixedColumn, Indexes, column_from_arrow
from ivm.storage.values.nested import list_elements
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet


class Unnest(Operator):
    """Elements of list columns beside columns that are passed on.

    Args:
        kept: types and positions of the columns to pass on.
        lists: positions of the LIST (or ARRAY) columns.
        elements: the types of their elements.
        outer: a row without any element stays, once, with NULLs.
        ordinality: put the place (from 1) out as the last column.
    """

    def __init__(
        self,
        kept: Sequence[tuple[ColumnType, int]],
        lists: Sequence[int],
        elements: Sequence[ColumnType],
        *,
        outer: bool = False,
        ordinality: bool = False,
    ) -> None:
        places = [type_of("BIGINT")] if ordinality else []
        super().__init__([*[t for t, _ in kept], *elements, *places])
        self._kept = tuple(i for _, i in kept)
        self._lists = tuple(lists)
        self._elements = tuple(elements)
        self._outer = outer
        self._ordinality = ordinality

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        (delta,) = inputs
        lists = [_array(delta.columns[i]) for i in self._lists]
        taken = [list_elements(array) for array in lists]
        longest = np.max([lengths for _, _, lengths in taken], axis=0)
        counts = np.maximum(longest, 1) if self._outer else longest
        rows = np.repeat(np.arange(len(delta)), counts)
        places = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        columns: list[Column] = [delta.columns[i].take(rows) for i in self._kept]
        for (values, starts, lengths), type in zip(taken, self._elements, strict=True):
            inside = places < lengths[rows]
            columns.append(_elements(values, starts[rows] + places, inside, type))
        if self._ordinality:
            inside = places < longest[rows]
            columns.append(FixedColumn(np.where(inside, places + 1, 0), _mask(inside)))
        return ZSet(tuple(columns), delta.weights[rows])

    def describe(self) -> str:
        return f"Unnest({list(self._lists)})"


def _array(column: Column) -> pa.Array:
    assert isinstance(column, ArrowColumn)
    return column.array


def _elements(
    values: pa.Array, indexes: Indexes, inside: np.typing.NDArray[np.bool_], type: ColumnType
) -> Column:
    """The elements at `indexes`, NULL where a list has ended."""
    missing = _mask(inside)
    places = pa.array(indexes) if missing is None else pa.array(indexes, mask=~inside)
    return column_from_arrow(values.take(places), type)


def _mask(inside: np.typing.NDArray[np.bool_]) -> np.typing.NDArray[np.bool_] | None:
    return None if inside.all() else inside
