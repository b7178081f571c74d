"""Canonical values, and rows as Python tuples: one form for all that SQL's grouping holds equal.

Law: a = b in GROUP BY ⇔ canonical(a) and canonical(b) have equal bits. Only floats (−0.0 = 0.0,
all NaNs equal) and intervals ('1 month' = '30 days' = '720 hours') have several forms of one
value; TIME WITH TIME ZONE has not ('12:00+01' ≠ '11:00+00' in DuckDB), and a map with another
order of entries is another map.

Law: two tuples of `row_tuples`, also of different batches, are equal ⇔ their rows are equal
(exactly, or under SQL's grouping equality).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.values import thresholds
from ivm.storage.values.column import ArrowColumn, Column, DictionaryColumn, FixedColumn
from ivm.storage.values.dictionary import words
from ivm.storage.values.types import WIDE, ColumnType

_NANOS_PER_DAY = 86_400_000_000_000
_DAYS_PER_MONTH = 30
# The bits of the one NaN that `canonical_floats` knows.
_NAN_BITS = {4: 0x7FC00000, 8: 0x7FF8000000000000}


def canonical_values(values: npt.NDArray[Any], type: ColumnType) -> npt.NDArray[Any]:
    """Values of a fixed-width type in canonical form (the array itself if no other exists)."""
    if values.dtype.kind == "f":
        return canonical_floats(values)
    if type.is_interval:
        return canonical_intervals(values)
    return values


def canonical_floats(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Floats with −0.0 as 0.0 and one NaN."""
    values = values + values.dtype.type(0)
    nan = values != values
    if nan.any():
        values[nan] = np.nan
    return values


def canonical_intervals(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Intervals (Arrow's month, day, nanosecond) as the length DuckDB compares them by.

    Returns:
        WIDE[n]: hi = days, a month being 30 of them, lo = nanoseconds of the last day, 0 … 1 day;
        hi, then lo sorts as DuckDB sorts.
    """
    months, days, nanos = interval_parts(values)
    carry = nanos // _NANOS_PER_DAY
    result = np.empty(len(values), WIDE)
    result["hi"] = months * _DAYS_PER_MONTH + days + carry
    result["lo"] = nanos - carry * _NANOS_PER_DAY
    return result


def interval_parts(values: npt.NDArray[Any]) -> tuple[Any, Any, Any]:
    """The months, days and nanoseconds (int64[n] each) of WIDE intervals."""
    low = values["lo"].view(np.int64)
    return (low << 32) >> 32, low >> 32, values["hi"]


def row_tuples(
    columns: Sequence[Column], types: Sequence[ColumnType], grouping: bool
) -> list[tuple[Hashable, ...]] | None:
    """One tuple a row of a tiny batch, where numpy's fixed cost per call would dominate.

    Returns:
        None for over `TUPLE_ROWS` rows, and for rows with nested values.
    """
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
    """Values of at most 64 bits as integers; floats by their bits, canonical if `grouping`."""
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
