"""One row of each key: which of several rows with equal keys count, or how many of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ivm.storage.values.column import Column, Indexes
from ivm.storage.values.consolidate import all_distinct, group
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import Weights


def last_of_each(keys: Sequence[Column], types: Sequence[ColumnType]) -> Indexes:
    """Index of the last row of each key, ascending."""
    return _one_of_each(keys, types, np.maximum, -1)


def first_of_each(keys: Sequence[Column], types: Sequence[ColumnType]) -> Indexes:
    """Index of the first row of each key, ascending."""
    return _one_of_each(keys, types, np.minimum, len(keys[0]))


def _one_of_each(
    keys: Sequence[Column], types: Sequence[ColumnType], better: np.ufunc, worst: int
) -> Indexes:
    count = len(keys[0])
    if all_distinct(keys, types):
        return np.arange(count)
    groups = group(keys, types)
    best = np.full(len(groups.first), worst)
    better.at(best, groups.inverse, np.arange(count))
    return np.sort(best)


def take_counts(probe: Indexes, stored: Weights, wanted: Weights) -> Weights:
    """The counts to take of each matching row, `wanted[i]` in all for probe i.

    Rows equal in SQL's sense may differ in representation (0.0 and −0.0): they go in match order.
    """
    if len(probe) == len(wanted):  # one matching row a probe
        taken = np.empty(len(probe), np.int64)
        taken[:] = np.minimum(stored, wanted[probe])
        return taken
    # Sorted by probe, a running count of the rows before each within its probe: as many of a row
    # are taken as are still wanted after those.
    order = np.argsort(probe, kind="stable")
    counts, wishes = stored[order], wanted[probe[order]]
    before = np.cumsum(counts) - counts
    starts = np.concatenate(([True], probe[order][1:] != probe[order][:-1]))
    before -= np.maximum.accumulate(np.where(starts, before, 0))
    taken = np.empty(len(probe), np.int64)
    taken[order] = np.clip(wishes - before, 0, counts)
    return taken
