"""Arrow rows whose types are the table's own: taken as they are, by a plan kept per schema.

Law: the columns are the rows' values, in the table's types; where a type differs there is no plan,
and the rows are converted (see `rows`). Few rows are read without Arrow's kernels, whose fixed cost
would be the larger part.
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

_TEXT = pa.large_string()
_PLANS = 8  # schemas that are remembered


class Step(NamedTuple):
    """What becomes of one given column.

    Attributes:
        position: of the column in the table.
        type: its type.
        words: the dtype of its buffer, where that holds the values as numpy would.
    """

    position: int
    type: ColumnType
    words: np.dtype[np.generic] | None


Plan: TypeAlias = tuple[Step, ...]


class ArrowReader:
    """Reads Arrow rows of one table.

    Args:
        plan: the table's columns for a schema, (position, type) each; None if one of them is to
            be converted.
    """

    def __init__(
        self, plan: Callable[[pa.Schema], Sequence[tuple[int, ColumnType]] | None]
    ) -> None:
        self._plan = plan
        self._known: list[tuple[pa.Schema, Plan | None]] = []

    def read(self, rows: ArrowRows) -> dict[int, Column] | None:
        """The columns by their position in the table; None if they are to be converted."""
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
    return tuple([Step(place, type, _words(given, type)) for given, (place, type) in pairs])


def _words(given: pa.DataType, type: ColumnType) -> np.dtype[np.generic] | None:
    plain = not isinstance(given, pa.BaseExtensionType) and type.sql != "BOOLEAN"
    if not (plain and type.is_word) or type.is_decimal:
        return None
    assert type.dtype is not None
    return type.dtype if given.bit_width == 8 * type.dtype.itemsize else None


def _few_arrays(rows: ArrowRows) -> list[pa.Array] | None:
    """The columns' arrays, as long as each is one chunk."""
    if isinstance(rows, pa.Table):
        batches = rows.to_batches()
        if len(batches) != 1:
            return None
        rows = batches[0]
    return rows.to_struct_array().flatten()  # type: ignore[no-any-return]


def _few_values(array: pa.Array, step: Step) -> Column:
    if step.words is not None and array.null_count == 0:
        start = array.offset * step.words.itemsize
        values: npt.NDArray[np.generic]
        values = np.frombuffer(array.buffers()[1], step.words, len(array), start)
        return FixedColumn(values)
    if step.type.dtype is None and step.type.memory == _TEXT and _is_text(array.type):
        return text_column(array.to_pylist())
    return column_from_arrow(array, step.type)


def _is_text(type: pa.DataType) -> bool:
    return type in (_TEXT, pa.string())


def text_column(texts: Sequence[str | None]) -> Column:
    """A few strings, as labels if all of them are known."""
    codes = dictionary.known(texts)
    return ArrowColumn(pa.array(texts, _TEXT)) if codes is None else DictionaryColumn(codes)


def _values(column: pa.Array | pa.ChunkedArray, type: ColumnType) -> Column:
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        column = column.chunk(0)
    if type.dtype is None and column.type != type.arrow and _is_text(column.type):
        column = column.cast(_TEXT)
    return column_from_arrow(column, type)
