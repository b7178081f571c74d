"""Order codes: integers that sort as DuckDB sorts a column's values.

Law: a < b in DuckDB's ORDER BY (NaN greatest, strings by their bytes, intervals by their carried
form) ⇔ code(a) < code(b). Codes are ranks, valid among the rows of one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ivm.storage.canonical import canonical_intervals
from ivm.storage.codes import word_codes
from ivm.storage.column import ArrowColumn, Column, FixedColumn, Indexes, Mask
from ivm.storage.types import ColumnType


@dataclass(frozen=True, slots=True)
class OrderKey:
    """One key of an order: a column position, its direction and the place of NULLs."""

    column: int
    descending: bool
    nulls_first: bool


_NARROW = 4  # bytes: codes of such values leave room for NULL below and above


def orderable(type: ColumnType) -> bool:
    """Whether values of the type can be sorted here as DuckDB sorts them."""
    return type.dtype is not None or type.sql in ("VARCHAR", "JSON", "BLOB")


def order_codes(
    column: Column, type: ColumnType, descending: bool, nulls_first: bool
) -> npt.NDArray[np.int64]:
    """Ranks of the values in DuckDB's order.

    Args:
        column: n values of an orderable type.
        type: the column's type.
        descending: largest first (NULLs stay where `nulls_first` puts them).
        nulls_first: NULLs before all values, else after them.

    Returns:
        int64[n], ascending in the wanted order; equal values have equal codes.
    """
    valid = column.valid
    codes = _value_codes(column, type)
    if valid is not None and codes is not None and not _has_room(column):
        codes = _ranks(codes)
    if descending:
        codes = ~codes
    return codes if valid is None else np.where(valid, codes, _outside(nulls_first))


def _outside(first: bool) -> np.int64:
    limits = np.iinfo(np.int64)
    return np.int64(limits.min if first else limits.max)


def _has_room(column: Column) -> bool:
    if isinstance(column, ArrowColumn):
        return True
    return column.values.dtype.itemsize <= _NARROW and column.values.dtype.kind != "f"


def _value_codes(column: Column, type: ColumnType) -> npt.NDArray[np.int64]:
    if isinstance(column, ArrowColumn):
        return _text_ranks(column.array)
    assert isinstance(column, FixedColumn)
    if type.is_word:
        return word_codes(column.values, type)
    high, low = wide_codes(column.values, type)
    order = np.lexsort((low, high))
    return _ranks_in_order(order, (high[order], low[order]))


def wide_codes(
    values: npt.NDArray[Any], type: ColumnType
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """High (signed) and low (unsigned) words that sort 16-byte values as DuckDB does."""
    if type.is_interval:
        values = canonical_intervals(values)
    high, low = values["hi"], values["lo"]
    if type.sql == "UUID":  # 16 bytes, most significant first
        swapped = values["lo"].byteswap(), values["hi"].view(np.uint64).byteswap()
        high, low = swapped[0].view(np.int64), swapped[1]
    if type.sql in ("UUID", "UHUGEINT"):
        high = high ^ np.int64(np.iinfo(np.int64).min)
    return high, low


def _text_ranks(array: pa.Array) -> npt.NDArray[np.int64]:
    ranks: pa.Array = pc.rank(array, "ascending", tiebreaker="dense")
    return np.asarray(ranks.to_numpy(zero_copy_only=False), np.int64)


def _ranks(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Dense ranks 0 …, so that room is left below and above."""
    order = np.argsort(codes)
    return _ranks_in_order(order, (codes[order],))


def _ranks_in_order(
    order: npt.NDArray[np.intp], ordered: tuple[npt.NDArray[Any], ...]
) -> npt.NDArray[np.int64]:
    steps: Mask = np.zeros(len(order), np.bool_)
    for values in ordered:
        steps[1:] |= values[1:] != values[:-1]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(steps)
    return ranks


def sort_keys(
    codes: npt.NDArray[Any],
    columns: Sequence[Column],
    types: Sequence[ColumnType],
    order: Sequence[OrderKey],
) -> list[npt.NDArray[Any]]:
    """What rows are sorted by, most significant first; rows with equal keys are exactly equal.

    These are the given codes, the order keys, then all other columns ascending with NULLS LAST,
    then the bits of values that DuckDB holds equal.
    """
    keys = [codes]
    for key in order:
        column, type = columns[key.column], types[key.column]
        keys.append(order_codes(column, type, key.descending, key.nulls_first))
    done = {key.column for key in order}
    for i, (column, type) in enumerate(zip(columns, types, strict=True)):
        if i not in done:
            keys.append(order_codes(column, type, False, False))
    for column, type in zip(columns, types, strict=True):
        keys.extend(_bits(column, type))
    return keys


def _bits(column: Column, type: ColumnType) -> list[npt.NDArray[Any]]:
    """The representation of values that have several."""
    if not isinstance(column, FixedColumn):
        return []
    if type.is_float:
        return [column.values.view(f"i{column.values.dtype.itemsize}")]
    return [column.values["hi"], column.values["lo"]] if type.is_interval else []


def sort_rows(keys: Sequence[npt.NDArray[Any]]) -> tuple[Indexes, Indexes]:
    """Sort by several keys.

    Args:
        keys: most significant first, of equal length.

    Returns:
        The order of the rows, and the positions in it where a stretch of equal rows begins.
    """
    order = np.lexsort(tuple(reversed(keys)))
    begins = np.zeros(len(order), np.bool_)
    begins[:1] = True
    for key in keys:
        ordered = key[order]
        begins[1:] |= ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(begins)
