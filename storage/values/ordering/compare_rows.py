"""Pairwise comparison of rows by the terms of an order, and search in sorted rows by it.

Law: compare(a, b) is −1, 0 or 1 as a comes before b, is exactly equal to it, or comes after it
in the total order of the terms, whatever batches the two are in.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ivm.storage.values.column import ArrowColumn, Column, FixedColumn, Indexes, Mask
from ivm.storage.values.key_codes import word_codes
from ivm.storage.values.ordering.nested_order import has_nested_order, nested_ranks
from ivm.storage.values.ordering.order import Columns, OrderTerm, label_codes, wide_codes
from ivm.storage.values.types import ColumnType

_FEW = 16  # targets of a range from which on it is searched alone

Signs = npt.NDArray[np.int8]
Words = npt.NDArray[Any]


def compare_rows(
    a: Columns,
    a_rows: Indexes,
    b: Columns,
    b_rows: Indexes,
    terms: Sequence[OrderTerm],
) -> Signs:
    """Signs of row a_rows[i] of `a` against row b_rows[i] of `b`."""
    signs = np.zeros(len(a_rows), np.int8)
    open_ = np.arange(len(a_rows))
    for term in terms:
        left, right = a[term.column].take(a_rows[open_]), b[term.column].take(b_rows[open_])
        found = _compare_columns(left, right, term)
        signs[open_] = found
        open_ = open_[found == 0]
        if len(open_) == 0:
            break
    return signs


def lower_bounds(
    sorted_columns: Columns,
    starts: Indexes,
    stops: Indexes,
    columns: Columns,
    rows: Indexes,
    terms: Sequence[OrderTerm],
    *,
    right: bool | Mask = False,
) -> Indexes:
    """The position of each row in a range of sorted rows: before the first that is not less.

    `right`: before the first that is greater (one for all, or one a row).
    """
    low, high = starts.copy(), stops.copy()
    for number, term in enumerate(terms):
        column, wanted = sorted_columns[term.column], columns[term.column]
        if not (_has_words(column, term) and _has_words(wanted, term)):
            return _compared(
                sorted_columns, low, high, columns, rows, terms[number:], np.asarray(right)
            )
        codes, targets = _words(column, term), _words(wanted, term)[rows]
        low, high = _narrowed(codes, targets, low, high)
        if (low == high).all():
            return low
    return np.where(right, high, low)


def _compared(
    sorted_columns: Columns,
    low: Indexes,
    high: Indexes,
    columns: Columns,
    rows: Indexes,
    terms: Sequence[OrderTerm],
    right: Mask,
) -> Indexes:
    limits = np.broadcast_to(right, len(low)).astype(np.int8)
    active = (low < high).nonzero()[0]
    while len(active):
        middle = (low[active] + high[active]) >> 1
        signs = compare_rows(sorted_columns, middle, columns, rows[active], terms)
        less = signs < limits[active]
        low[active] = np.where(less, middle + 1, low[active])
        high[active] = np.where(less, high[active], middle)
        active = active[low[active] < high[active]]
    return low


def _has_words(column: Column, term: OrderTerm) -> bool:
    """Returns whether the values under a term are all 64-bit numbers without a NULL."""
    return term.type.is_word and isinstance(column, FixedColumn) and column.valid is None


def _words(column: Column, term: OrderTerm) -> Words:
    """Numbers in the term's order, comparable between columns."""
    assert isinstance(column, FixedColumn)
    values = column.values
    if term.bits:
        return values.view(f"i{values.dtype.itemsize}")
    codes = word_codes(values, term.type)
    return ~codes if term.descending else codes


def _narrowed(codes: Words, targets: Words, low: Indexes, high: Indexes) -> tuple[Indexes, Indexes]:
    """The part of each range (of ascending codes) that equals its target."""
    others = ((low[1:] != low[:-1]) | (high[1:] != high[:-1])).nonzero()[0] + 1
    if len(low) and (not len(others) or len(others) * _FEW < len(low)):
        return _by_range(codes, targets, low, high, [0, *others.tolist(), len(low)])
    low = _bisected(codes, targets, low, high, False)
    last = low.copy()
    some = (low < high).nonzero()[0]
    some = some[codes[low[some]] == targets[some]]
    if len(some):
        last[some] = _bisected(codes, targets[some], low[some], high[some], True)
    return low, last


def _by_range(
    codes: Words, targets: Words, low: Indexes, high: Indexes, bounds: Sequence[int]
) -> tuple[Indexes, Indexes]:
    """See `_narrowed`; neighbours that search one range do it together.

    Args:
        bounds: where another range than the one before begins, and the end.
    """
    first, last = np.empty_like(low), np.empty_like(low)
    for start, stop in pairwise(bounds):
        begin, wanted = int(low[start]), targets[start:stop]
        part = codes[begin : int(high[start])]
        first[start:stop] = part.searchsorted(wanted) + begin
        last[start:stop] = part.searchsorted(wanted, "right") + begin
    return first, last


def _alike(numbers: Indexes) -> bool:
    """Returns whether all are the same (at least one)."""
    return bool(len(numbers)) and numbers.min() == numbers.max()


def bounded_search(
    codes: Words, targets: Words, low: Indexes, high: Indexes, right: bool
) -> Indexes:
    """Searches target i in codes[low[i] … high[i]], which ascend, as `searchsorted` does."""
    if _alike(low) and _alike(high):
        part = codes[int(low[0]) : int(high[0])]
        return part.searchsorted(targets, "right" if right else "left") + low
    return _bisected(codes, targets, low, high, right)


def _bisected(codes: Words, targets: Words, low: Indexes, high: Indexes, right: bool) -> Indexes:
    low, high = low.copy(), high.copy()
    active = (low < high).nonzero()[0]
    while len(active):
        begin, end = low[active], high[active]
        middle = (begin + end) >> 1
        values, wanted = codes[middle], targets[active]
        less = values <= wanted if right else values < wanted
        low[active] = begin = np.where(less, middle + 1, begin)
        high[active] = end = np.where(less, end, middle)
        active = active[begin < end]
    return low


def _compare_columns(a: Column, b: Column, term: OrderTerm) -> Signs:
    signs = _compare_bits(a, b, term.type) if term.bits else _compare_values(a, b, term.type)
    if term.descending:
        signs = -signs
    a_valid, b_valid = a.valid, b.valid
    if a_valid is None and b_valid is None:
        return signs
    a_null = np.zeros(len(signs), np.bool_) if a_valid is None else ~a_valid
    b_null = np.zeros(len(signs), np.bool_) if b_valid is None else ~b_valid
    nulls = _sign(a_null.view(np.int8), b_null.view(np.int8))
    return np.where(a_null | b_null, -nulls if term.nulls_first else nulls, signs)


def _sign(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Signs:
    return (a > b).view(np.int8) - (a < b).view(np.int8)


def _compare_values(a: Column, b: Column, type: ColumnType) -> Signs:
    if isinstance(a, ArrowColumn):
        assert isinstance(b, ArrowColumn)
        if type.is_enum:
            return _sign(label_codes(a.array, type), label_codes(b.array, type))
        if has_nested_order(type):
            return _compare_nested(a, b, bits=False)
        return _compare_bytes(a.array, b.array)
    assert not isinstance(b, ArrowColumn)
    if type.is_word:
        return _sign(word_codes(a.values, type), word_codes(b.values, type))
    a_high, a_low = wide_codes(a.values, type)
    b_high, b_low = wide_codes(b.values, type)
    high = _sign(a_high, b_high)
    return np.where(high != 0, high, _sign(a_low, b_low))


def _compare_nested(a: ArrowColumn, b: ArrowColumn, *, bits: bool) -> Signs:
    ranks = nested_ranks(pa.concat_arrays([a.array, b.array]), bits=bits)
    return _sign(ranks[: len(a)], ranks[len(a) :])


def _compare_bytes(a: Any, b: Any) -> Signs:
    greater = pc.greater(a, b).fill_null(False).to_numpy(zero_copy_only=False)
    less = pc.less(a, b).fill_null(False).to_numpy(zero_copy_only=False)
    return greater.view(np.int8) - less.view(np.int8)  # type: ignore[no-any-return]


def _compare_bits(a: Column, b: Column, type: ColumnType) -> Signs:
    if isinstance(a, ArrowColumn) and isinstance(b, ArrowColumn):
        return _compare_nested(a, b, bits=True)
    assert not isinstance(a, ArrowColumn)
    assert not isinstance(b, ArrowColumn)
    if type.is_float:
        words = f"i{a.values.dtype.itemsize}"
        return _sign(a.values.view(words), b.values.view(words))
    high = _sign(a.values["hi"], b.values["hi"])
    return np.where(high != 0, high, _sign(a.values["lo"], b.values["lo"]))
