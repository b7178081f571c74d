"""Searches in ranges of a sorted column, and arithmetic of ranges.

Law: the rows of each range ascend by the column in DuckDB's order, NULLs last. `first_places`
counts the rows before a value, by binary search; `net_ranges` gives for every position covered by
ranges of a group the sum of their weights, so ranges that differ little cancel but for their
difference.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ivm.storage.values import thresholds
from ivm.storage.values.column import Column, FixedColumn, Indexes, null_column
from ivm.storage.values.key_codes import word_codes
from ivm.storage.values.ordering.compare_rows import lower_bounds
from ivm.storage.values.ordering.order import OrderTerm
from ivm.storage.values.ordering.sort_keys import cells, narrowed
from ivm.storage.values.types import ColumnType


def present(column: Column, type: ColumnType, starts: Indexes, stops: Indexes) -> Indexes:
    """The position where the NULLs of each range begin."""
    if isinstance(column, FixedColumn) and column.valid is None:  # strings count theirs, row by row
        return stops
    return _search(column, type, starts, stops, null_column(type, len(starts)), right=False)


def first_places(
    column: Column,
    type: ColumnType,
    starts: Indexes,
    stops: Indexes,
    wanted: Column,
    *,
    right: bool,
) -> Indexes:
    """The first row of each range at or after a value (`right`: after it); its end, if none.

    Args:
        column: ascending in each range, without NULLs there.
        type: of the column and of the values.
        wanted: a value for each range; the result for NULL has no meaning.
    """
    if not type.is_ordered_word:
        return _search(column, type, starts, stops, wanted, right=right)
    assert isinstance(column, FixedColumn)
    assert isinstance(wanted, FixedColumn)
    values = column.values
    side: Literal["left", "right"] = "right" if right else "left"
    if _is_one(starts, stops):
        start = int(starts[0])
        part = values[start : stops[0]]
        return start + part.searchsorted(wanted.values, side)
    if len(starts) > thresholds.SEARCHED_RANGES:
        return _search_words(values, type, starts, stops, wanted.values, right=right)
    found = [
        start + values[start:stop].searchsorted(value, side)
        for start, stop, value in zip(starts.tolist(), stops.tolist(), wanted.values, strict=True)
    ]
    return np.array(found, np.int64)


def expand(starts: Indexes, stops: Indexes) -> tuple[Indexes, Indexes]:
    """The members of ranges: the number of the range each belongs to, and the members."""
    if len(starts) == 1:
        members = np.arange(int(starts[0]), int(stops[0]))
        return np.zeros(len(members), np.int64), members
    counts = stops - starts
    which = np.arange(len(counts)).repeat(counts)
    return which, np.arange(len(which)) + (starts - offsets(counts))[which]


def offsets(counts: Indexes) -> Indexes:
    """The number of members in the ranges before each one."""
    return counts.cumsum() - counts if len(counts) > 1 else np.zeros(len(counts), np.int64)


def total(counts: Indexes) -> int:
    """The sum of the counts."""
    return counts.item() if len(counts) == 1 else int(counts.sum())


def begins_of(numbers: Indexes) -> Indexes:
    """The positions where segments of equal numbers begin."""
    begins = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=begins[1:])
    return begins.nonzero()[0]


def clipped(values: Indexes, low: Indexes | int, high: Indexes | int) -> Indexes:
    """Clips as `np.clip` does, at less cost for a few values."""
    return np.minimum(np.maximum(values, low), high)


def _is_one(starts: Indexes, stops: Indexes) -> bool:
    """Returns whether all ranges are the same (at least one)."""
    if len(starts) == 1:
        return True
    return bool(len(starts)) and bool(((starts == starts[0]) & (stops == stops[0])).all())


def _search_words(
    values: npt.NDArray[Any],
    type: ColumnType,
    starts: Indexes,
    stops: Indexes,
    wanted: npt.NDArray[Any],
    *,
    right: bool,
) -> Indexes:
    """Searches all ranges at once: finds the number of rows before the value, bit by bit."""
    before = np.less_equal if right else np.less
    # `found` is the rows known to be before the value; each width, halved from pass to pass, is
    # added where the last row of the range so extended is still before it.
    codes, found = word_codes(wanted, type), starts.copy()
    width = 1 << int((stops - starts).max()).bit_length() >> 1
    while width:
        ends = found + width
        passed = before(word_codes(values.take(ends - 1, mode="clip"), type), codes)
        found += (passed & (ends <= stops)) * width
        width >>= 1
    return found


def _search(
    column: Column,
    type: ColumnType,
    starts: Indexes,
    stops: Indexes,
    wanted: Column,
    *,
    right: bool,
) -> Indexes:
    """Searches as `first_places` does, for any type and also for NULL."""
    term = OrderTerm(0, type)
    if len(starts) > thresholds.SEARCHED_RANGES:
        every = np.arange(len(starts))
        return lower_bounds([column], starts, stops, [wanted], every, [term], right=right)
    cell, value = cells(column, term), cells(wanted, term)
    ranges = zip(starts.tolist(), stops.tolist(), strict=True)
    found = [narrowed(cell, a, b, value(i), term)[right] for i, (a, b) in enumerate(ranges)]
    return np.array(found, np.int64)


def net_ranges(
    group: Indexes, starts: Indexes, stops: Indexes, weights: Indexes
) -> tuple[Indexes, Indexes, Indexes, Indexes]:
    """Segments of positions with the net weight of the ranges of one group that cover them.

    Args:
        group: of each range.
        weights: of each range.

    Returns:
        Group, start, stop and weight (never 0) of segments that do not overlap within a group.
    """
    # A sweep: a range adds its weight at its start and takes it back at its stop, so between two
    # neighbouring edges of a group the running sum is the net weight.
    groups, bounds = np.concatenate((group, group)), np.concatenate((starts, stops))
    order = np.lexsort((bounds, groups))
    groups, bounds = groups[order], bounds[order]
    total = np.concatenate((weights, -weights))[order].cumsum()[:-1]  # 0 where a group ends
    kept = ((total != 0) & (bounds[1:] > bounds[:-1])).nonzero()[0]
    return groups[kept], bounds[kept], bounds[kept + 1], total[kept]
