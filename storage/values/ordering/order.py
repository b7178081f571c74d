"""DuckDB's order of values: ranks of a column, and a total order of rows.

Law: a < b in DuckDB's ORDER BY (NaN greatest, strings by their bytes, ENUMs by their position,
intervals by their length) ⇔ code(a) < code(b). The terms of an order are its keys, then all other
columns ascending with NULLS LAST, then the bits of values that DuckDB holds equal; rows that no
term distinguishes are exactly equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ivm.storage.values.canonical import canonical_intervals
from ivm.storage.values.column import ArrowColumn, Codes, Column, Indexes
from ivm.storage.values.key_codes import word_codes
from ivm.storage.values.ordering.nested_order import has_floats, has_nested_order, nested_ranks
from ivm.storage.values.radix_sort import order_of
from ivm.storage.values.types import ColumnType

_LIMITS = np.iinfo(np.int64)
_NARROW = 4  # bytes: the codes of such integers leave room for NULL below and above
_BYTES_IN_ORDER = frozenset(("VARCHAR", "JSON", "BLOB", "BIGNUM"))


@dataclass(frozen=True, slots=True)
class OrderKey:
    """One key of an order: a column position, its direction and the place of NULLs."""

    column: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One term of a total order: an order key, or the bits of a column's values."""

    column: int
    type: ColumnType
    descending: bool = False
    nulls_first: bool = False
    bits: bool = False

    def backwards(self) -> OrderTerm:
        """The term by which the same rows come in the opposite order."""
        return replace(self, descending=not self.descending, nulls_first=not self.nulls_first)


def orderable(type: ColumnType) -> bool:
    """Returns whether values of the type can be sorted here as DuckDB sorts them."""
    plain = type.dtype is not None or type.is_enum or type.sql in _BYTES_IN_ORDER
    return plain or has_nested_order(type)


def order_terms(types: Sequence[ColumnType], order: Sequence[OrderKey]) -> tuple[OrderTerm, ...]:
    """The terms of the total order that begins with the given keys."""
    terms = [OrderTerm(k.column, types[k.column], k.descending, k.nulls_first) for k in order]
    named = {key.column for key in order}
    terms += [OrderTerm(i, type) for i, type in enumerate(types) if i not in named]
    several = [i for i, t in enumerate(types) if t.is_float or t.is_interval or has_floats(t)]
    return (*terms, *[OrderTerm(i, types[i], bits=True) for i in several])


def order_codes(
    column: Column, type: ColumnType, descending: bool, nulls_first: bool
) -> npt.NDArray[np.int64]:
    """Ranks of the values in DuckDB's order, valid among themselves.

    Args:
        column: n values of an orderable type.
        type: the column's type.
        descending: largest first (NULLs stay where `nulls_first` puts them).
        nulls_first: NULLs before all values, else after them.

    Returns:
        int64[n], ascending in the wanted order; equal values have equal codes.
    """
    valid = column.valid
    codes = value_codes(column, type)
    if valid is not None and not _has_room(column):
        codes = _ranks(codes)
    if descending:
        codes = ~codes
    if valid is None:
        return codes
    return np.where(valid, codes, _LIMITS.min if nulls_first else _LIMITS.max)


def term_codes(column: Column, term: OrderTerm) -> Codes:
    """Ranks of a column's values under one term."""
    if not term.bits:
        return order_codes(column, term.type, term.descending, term.nulls_first)
    if isinstance(column, ArrowColumn):
        codes = nested_ranks(column.array, bits=True)
    elif term.type.is_float:
        codes = column.values.view(f"i{column.values.dtype.itemsize}").astype(np.int64)
    else:
        codes = _wide_ranks(column.values["hi"], column.values["lo"])
    return ~codes if term.descending else codes


def _has_room(column: Column) -> bool:
    if isinstance(column, ArrowColumn):
        return True
    return column.values.dtype.itemsize <= _NARROW and column.values.dtype.kind != "f"


def value_codes(column: Column, type: ColumnType) -> Codes:
    """Ranks of the values ascending; a NULL has some code."""
    if isinstance(column, ArrowColumn):
        if pa.types.is_nested(column.array.type):
            return nested_ranks(column.array)
        return label_codes(column.array, type) if type.is_enum else _text_ranks(column.array)
    if type.is_word:
        return word_codes(column.values, type)
    return _wide_ranks(*wide_codes(column.values, type))


def label_codes(array: pa.Array, type: ColumnType) -> Codes:
    """The positions of an ENUM's labels."""
    positions = pc.index_in(array, value_set=pa.array(type.labels, type.memory))
    return np.asarray(positions.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def wide_codes(values: npt.NDArray[Any], type: ColumnType) -> tuple[Any, Any]:
    """The high (signed) and low (unsigned) words that sort 16-byte values as DuckDB does."""
    if type.is_interval:
        values = canonical_intervals(values)
    high, low = values["hi"], values["lo"]
    if type.sql == "UUID":  # 16 bytes, most significant first
        high, low = low.byteswap().view(np.int64), high.view(np.uint64).byteswap()
    if type.sql in ("UUID", "UHUGEINT"):
        high = high ^ np.int64(_LIMITS.min)
    return high, low


def _wide_ranks(high: Any, low: Any) -> Codes:
    order = np.lexsort((low, high))
    return _ranks_in_order(order, steps(high[order]) | steps(low[order]))


def _text_ranks(array: pa.Array) -> Codes:
    ranks: pa.Array = pc.rank(array, "ascending", tiebreaker="dense")
    return np.asarray(ranks.to_numpy(zero_copy_only=False), np.int64)


def _ranks(codes: npt.NDArray[Any]) -> Codes:
    """Dense ranks 0 …"""
    order = order_of(codes)
    return _ranks_in_order(order, steps(codes[order]))


def steps(ordered: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """A mask of the values that differ from the one before them."""
    steps = np.zeros(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=steps[1:])
    return steps


def _ranks_in_order(order: Indexes, steps: npt.NDArray[np.bool_]) -> Codes:
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.cumsum(steps)
    return ranks


class Columns(Protocol):
    """Columns by position; only those of the terms are read."""

    def __getitem__(self, position: int, /) -> Column: ...
