"""Rows of tiny batches as Python tuples, where numpy's fixed cost per call would dominate.

Law: two tuples, also of different batches, are equal ⇔ their rows are equal (exactly, or under
SQL's grouping equality). Batches of over `TUPLE_ROWS` rows and those with nested values have none.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from ivm.storage.values import thresholds
from ivm.storage.values.canonical import canonical_values
from ivm.storage.values.column import ArrowColumn, Column, DictionaryColumn, FixedColumn
from ivm.storage.values.dictionary import words
from ivm.storage.values.types import ColumnType

# The bits of the one NaN that `canonical_floats` knows.
_NAN_BITS = {4: 0x7FC00000, 8: 0x7FF8000000000000}


def small_rows(
    columns: Sequence[Column], types: Sequence[ColumnType], grouping: bool
) -> list[tuple[Hashable, ...]] | None:
    """One tuple a row, or None when the batch is not small or not made of plain values."""
    if len(columns[0]) > thresholds.TUPLE_ROWS:
        return None
    lists = []
    for column, type in zip(columns, types, strict=True):
        if isinstance(column, DictionaryColumn):
            lists.append(words(column.codes))
        elif isinstance(column, ArrowColumn):
            if not type.is_bytes:
                return None
            lists.append(column.array.to_pylist())
        else:
            lists.append(_values(column, type, grouping))
    return list(zip(*lists, strict=True))


def word_bits(values: Any, grouping: bool) -> list[int]:
    """Values of at most 64 bits as integers, floats by their (canonical) bits."""
    if values.dtype.kind != "f":
        return values.tolist()  # type: ignore[no-any-return]
    size = values.dtype.itemsize
    bits: list[int] = values.view(f"i{size}").tolist()
    if not grouping:
        return bits
    nan = _NAN_BITS[size]
    floats = values.tolist()
    return [0 if v == 0 else b if v == v else nan for v, b in zip(floats, bits, strict=True)]


def _values(column: FixedColumn, type: ColumnType, grouping: bool) -> list[Any]:
    if type.is_word:
        values: list[Any] = word_bits(column.values, grouping)
    else:
        values = (canonical_values(column.values, type) if grouping else column.values).tolist()
    if column.valid is None:
        return values
    return [v if ok else None for v, ok in zip(values, column.valid.tolist(), strict=True)]
