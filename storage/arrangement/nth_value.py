"""The n-th live values under one key, without reading the others.

Law: in every run the rows of a key are in the order of the layout; the value of rank p is the
least one up to which the runs hold more than p live rows, counted by prefix sums of the weights.
Each step halves the widest range of candidates and narrows all others by the same value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ivm.storage.arrangement.run_cursors import RunSource
from ivm.storage.values.column import FixedColumn, Indexes
from ivm.storage.values.zset import Weights

Ranks = Callable[[int], list[int]]
"""Number of live rows → the ranks wanted, from 0."""


class _RunSlice(NamedTuple):
    """Values of one run under the key, ascending, and the sums of the weights before each."""

    values: npt.NDArray[Any]
    sums: Weights | None

    def rows(self, stop: int) -> int:
        """Live rows among the first `stop`, less those that later runs cancel."""
        return stop if self.sums is None else int(self.sums[stop] - self.sums[0])


def select(source: RunSource, code: Any, column: int, ranks: Ranks) -> tuple[list[Any], int]:
    """Values of a column, which the layout sorts by ascending, of some ranks under a key.

    Args:
        source: its layout has an exact key; the column has at most 64 bits and no NULL.
        code: of the key.

    Returns:
        The values (none if there is no live row), and the number of live rows.
    """
    slices = _run_slices(source, code, column)
    total = sum(s.rows(len(s.values)) for s in slices)
    if total <= 0:
        return [], 0
    return [_at(slices, rank) for rank in ranks(total)], total


def _run_slices(source: RunSource, code: Any, column: int) -> list[_RunSlice]:
    found = []
    for run in source.runs:
        start, stop = run.find_one(code)
        if stop > start:
            held = run.columns[column]
            assert isinstance(held, FixedColumn)
            sums = None if run.weights is None else run.sums[start : stop + 1]
            found.append(_RunSlice(held.values[start:stop], sums))
    rows = source.buffer.find_one(code, source.seen)
    if len(rows):
        found.append(_sorted(source, rows, column))
    return found


def _sorted(source: RunSource, rows: Indexes, column: int) -> _RunSlice:
    buffer = source.buffer.take(rows)
    held = buffer.columns[column]
    assert isinstance(held, FixedColumn)
    order = np.argsort(held.values, kind="stable")
    sums = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(buffer.weights[order], out=sums[1:])
    return _RunSlice(held.values[order], sums)


def _at(slices: list[_RunSlice], rank: int) -> Any:
    low = [0] * len(slices)
    high = [len(s.values) for s in slices]
    best: Any = None
    while True:
        widths = [end - begin for begin, end in zip(low, high, strict=True)]
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= 0:
            return best
        value = slices[widest].values[(low[widest] + high[widest]) // 2]
        ends = [int(s.values.searchsorted(value, "right")) for s in slices]
        if sum(s.rows(end) for s, end in zip(slices, ends, strict=True)) > rank:
            best = value
            begins = [int(s.values.searchsorted(value)) for s in slices]
            high = [min(pair) for pair in zip(high, begins, strict=True)]
        else:
            low = [max(pair) for pair in zip(low, ends, strict=True)]
