"""Rows that wait for their iteration of a recursive query, the least iteration first.

The last column of every row is its iteration (BIGINT, never NULL).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

from ivm.storage.values.column import FixedColumn, Indexes
from ivm.storage.values.zset import ZSet, add


class PendingIterations:
    """A queue of Z-sets by iteration."""

    def __init__(self) -> None:
        self._rows: dict[int, list[ZSet]] = {}
        self._order: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._order)

    def add(self, rows: ZSet) -> None:
        """Let rows of any iterations wait."""
        for iteration, part in _split(rows):
            if iteration not in self._rows:
                self._rows[iteration] = []
                heapq.heappush(self._order, iteration)
            self._rows[iteration].append(part)

    def pop(self) -> tuple[int, ZSet]:
        """The least iteration and its rows."""
        iteration = heapq.heappop(self._order)
        return iteration, add(self._rows.pop(iteration))


def iterations(rows: ZSet) -> Indexes:
    """The last column's values."""
    column = rows.columns[-1]
    assert isinstance(column, FixedColumn)
    return column.values


def at_iteration(rows: ZSet, iteration: int) -> ZSet:
    """The rows with one iteration as a new last column."""
    values = np.full(len(rows), iteration, np.int64)
    return ZSet((*rows.columns, FixedColumn(values)), rows.weights)


def one_later(rows: ZSet) -> ZSet:
    """The same rows one iteration later."""
    return ZSet((*rows.columns[:-1], FixedColumn(iterations(rows) + 1)), rows.weights)


def _split(rows: ZSet) -> Iterator[tuple[int, ZSet]]:
    if not len(rows):
        return
    found = iterations(rows)
    if (found == found[0]).all():
        yield int(found[0]), rows
        return
    order = np.argsort(found, kind="stable")
    ordered = rows.take(order)
    numbers, starts = np.unique(found[order], return_index=True)
    for number, start, stop in zip(numbers, starts, [*starts[1:], len(rows)], strict=True):
        yield int(number), ordered.slice(int(start), int(stop))
