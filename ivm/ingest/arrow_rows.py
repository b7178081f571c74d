"""Reads Arrow rows whose types are the table's own, by a plan for each of the last schemas.

Contract: the columns hold the rows' values unchanged; if one of the types differs, there is no plan
and the rows are converted (see `row_columns`). Few rows are read without Arrow's kernels, whose
fixed cost would be the larger part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivm.storage.values import dictionary, thresholds
from ivm.storage.values.column import (
    ArrowColumn,
    Column,
    DictionaryColumn,
    FixedColumn,
    column_from_arrow,
)
from ivm.storage.values.types import ColumnType

ArrowRows: TypeAlias = pa.Table | pa.RecordBatch

_STRING = pa.large_string()
_PLANS = 8  # schemas whose plans are cached


class Step(NamedTuple):
    """How one column of the rows is read.

    Attributes:
        position: of the column in the table.
        type: its type.
        words: dtype of its buffer's numbers, None if numpy does not hold the values so.
    """

    position: int
    type: ColumnType
    words: np.dtype[np.generic] | None


Plan: TypeAlias = tuple[Step, ...]


class ArrowReader:
    """Reads Arrow rows of one table.

    Args:
        plan: gives the table's columns for a schema, (position, type) each; None if one of them
            must be converted.
    """

    def __init__(
        self, plan: Callable[[pa.Schema], Sequence[tuple[int, ColumnType]] | None]
    ) -> None:
        self._plan = plan
        self._known: list[tuple[pa.Schema, Plan | None]] = []

    def read(self, rows: ArrowRows) -> dict[int, Column] | None:
        """The columns by their position in the table; None if they must be converted."""
        plan = self._plan_of(rows.schema)
        if plan is None:
            return None
        if 0 < rows.num_rows <= thresholds.ARROW_ROWS:
            arrays = _few_arrays(rows)
            if arrays is not None:
                pairs = zip(plan, arrays, strict=True)
                return {step.position: _few_values(array, step) for step, array in pairs}
        pairs = zip(plan, rows.columns, strict=True)
        return {step.position: _values(array, step.type) for step, array in pairs}

    def _plan_of(self, schema: pa.Schema) -> Plan | None:
        for known, plan in self._known:
            if known.equals(schema):
                return plan
        steps = self._plan(schema)
        plan = None if steps is None else _with_words(schema, steps)
        self._known = [(schema, plan), *self._known[: _PLANS - 1]]
        return plan


def _with_words(schema: pa.Schema, steps: Sequence[tuple[int, ColumnType]]) -> Plan:
    pairs = zip(schema.types, steps, strict=True)
    return tuple([Step(position, type, _words(given, type)) for given, (position, type) in pairs])


def _words(given: pa.DataType, type: ColumnType) -> np.dtype[np.generic] | None:
    plain = not isinstance(given, pa.BaseExtensionType) and type.sql != "BOOLEAN"
    if not (plain and type.is_word) or type.is_decimal:
        return None
    assert type.dtype is not None
    return type.dtype if given.bit_width == 8 * type.dtype.itemsize else None


def _few_arrays(rows: ArrowRows) -> list[pa.Array] | None:
    """The columns' arrays, None if they are in several chunks."""
    if isinstance(rows, pa.Table):
        batches = rows.to_batches()
        if len(batches) != 1:
            return None
        rows = batches[0]
    return rows.to_struct_array().flatten()  # type: ignore[no-any-return]


def _few_values(array: pa.Array, step: Step) -> Column:
    if step.words is not None and array.null_count == 0:
        # Arrow's buffer may begin before the array, and numpy reads it without a copy.
        start = array.offset * step.words.itemsize
        values: npt.NDArray[np.generic]
        values = np.frombuffer(array.buffers()[1], step.words, len(array), start)
        return FixedColumn(values)
    if step.type.dtype is None and step.type.memory == _STRING and _is_string(array.type):
        return string_column(array.to_pylist())
    return column_from_arrow(array, step.type)


def _is_string(type: pa.DataType) -> bool:
    return type in (_STRING, pa.string())


def string_column(strings: Sequence[str | None]) -> Column:
    """A few strings, dictionary-encoded if the dictionary has all of them."""
    codes = dictionary.known(strings)
    return ArrowColumn(pa.array(strings, _STRING)) if codes is None else DictionaryColumn(codes)


def _values(column: pa.Array | pa.ChunkedArray, type: ColumnType) -> Column:
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        column = column.chunk(0)
    if type.dtype is None and column.type != type.arrow and _is_string(column.type):
        column = column.cast(_STRING)
    return column_from_arrow(column, type)
