"""Unnest: each row once for every element of its lists, or every row of a table function; linear.

Law: the rows of an input row are a function of it alone, so its weight is theirs. Lists run side by
side: row i of a row's output holds element i of each list, NULL where a list has ended. For a table
function DuckDB gets the arguments and a row number; the columns that are passed on stay here, bit
by bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ivm.delta_ops.linear.duck_eval import BIGINT, ROW, column_names, numbered, row_numbers, run_sql
from ivm.delta_ops.operator import CursorFactory, Operator
from ivm.storage.values.column import ArrowColumn, Column, FixedColumn, Indexes, column_from_arrow
from ivm.storage.values.nested import list_elements
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet, empty


class Unnest(Operator):
    """Elements of list columns beside columns that are passed on.

    Args:
        kept: types and positions of the columns to pass on.
        lists: positions of the LIST (or ARRAY) columns.
        elements: the types of their elements.
        outer: a row without any element stays, once, with NULLs.
        ordinality: the last output column is the position in the list (from 1).
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
        ordinals = [type_of("BIGINT")] if ordinality else []
        super().__init__([*[t for t, _ in kept], *elements, *ordinals])
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
        ordinals = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        columns: list[Column] = [delta.columns[i].take(rows) for i in self._kept]
        for (values, starts, lengths), type in zip(taken, self._elements, strict=True):
            inside = ordinals < lengths[rows]
            columns.append(_elements(values, starts[rows] + ordinals, inside, type))
        if self._ordinality:
            inside = ordinals < longest[rows]
            columns.append(FixedColumn(np.where(inside, ordinals + 1, 0), _mask(inside)))
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
    ordinals = pa.array(indexes) if missing is None else pa.array(indexes, mask=~inside)
    return column_from_arrow(values.take(ordinals), type)


def _mask(inside: np.typing.NDArray[np.bool_]) -> np.typing.NDArray[np.bool_] | None:
    return None if inside.all() else inside


class DuckUnnest(Operator):
    """Columns of a table function beside columns that are passed on, one statement a step.

    Args:
        kept: types and positions of the columns to pass on.
        arguments: types and positions of the columns that the function is called with.
        elements: the types of the function's columns.
        columns: SQL of the function's columns.
        source: SQL of `delta` beside the function; it calls the columns by their positions.
        cursor_factory: see `CursorFactory`.
    """

    why = "applied to the change alone, by a DuckDB statement"

    def __init__(
        self,
        kept: Sequence[tuple[ColumnType, int]],
        arguments: Sequence[tuple[ColumnType, int]],
        elements: Sequence[ColumnType],
        columns: Sequence[str],
        source: str,
        cursor_factory: CursorFactory,
    ) -> None:
        super().__init__([*[t for t, _ in kept], *elements])
        self._kept = tuple(i for _, i in kept)
        self._arguments = tuple(i for _, i in arguments)
        self._schema = (*[(f"c{i}", t) for t, i in arguments], (ROW, BIGINT))
        self._output = (*column_names(elements), (ROW, BIGINT))
        self._sql = f"SELECT {', '.join([*columns, ROW])} FROM {source}"
        self._cursor_factory = cursor_factory

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        (delta,) = inputs
        if not len(delta):
            return empty(self.types)
        arguments = [delta.columns[i] for i in self._arguments]
        registered = {"delta": (numbered(arguments, len(delta)), self._schema)}
        found = run_sql(self._cursor_factory, self._sql, registered, self._output)
        rows = row_numbers(found.columns[-1])
        kept = [delta.columns[i].take(rows) for i in self._kept]
        return ZSet((*kept, *found.columns[:-1]), delta.weights[rows])

    def describe(self) -> str:
        return f"DuckUnnest({self._sql})"
