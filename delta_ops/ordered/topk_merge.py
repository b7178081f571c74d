"""The first k rows of partitions after a delta, from those before it.

Law: let b be the last of a partition's first k rows. All rows up to b are known, so after the delta
they are known too; if at least k of them remain, the first k are among them. If fewer than k rows
existed, all are known. Only where a retraction leaves fewer must the state be read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ivm.storage.arrangement.arrangement import Matches
from ivm.storage.arrangement.layout import Layout
from ivm.storage.values.column import Indexes, Mask
from ivm.storage.values.ordering.sort import sort_rows
from ivm.storage.values.zset import Weights, ZSet, add


class RankRange(NamedTuple):
    """The ranks of rows in their partition: from `start`, `weights` of them (0: none)."""

    start: Indexes
    weights: Weights


class TopKMerge(NamedTuple):
    """The distinct rows in doubt of all partitions, in order.

    Attributes:
        rows: their columns (the weights mean nothing).
        partition: int64[m], ascending.
        old: their ranks among the first k before.
        new: their ranks now; void for partitions that are unsure.
        unsure: bool[p], partitions whose state must be read.
    """

    rows: ZSet
    partition: Indexes
    old: RankRange
    new: RankRange
    unsure: Mask


def merge_heads(
    layout: Layout, before: Matches, delta: ZSet, partition: Indexes, partitions: int, k: int
) -> TopKMerge:
    """Computes the first k rows after a delta.

    Args:
        layout: of the arrangement, ordered.
        before: the first k rows of every touched partition, numbered by `probe`.
        delta: rows of the layout.
        partition: the number of each delta row's partition.
        partitions: their number.
        k: rows wanted.
    """
    # Sorting the known rows and the delta's together numbers the distinct rows of each partition.
    rows = add([before.rows, delta])
    owners = np.concatenate([before.probe, partition])
    order, begins = sort_rows(owners, rows.columns, layout.terms)
    number = np.empty(len(order), np.int64)
    number[order] = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(order)))
    distinct = order[begins]
    owner, count = owners[distinct], len(before.probe)
    old = np.zeros(len(begins), np.int64)
    old[number[:count]] = before.rows.weights
    new = old.copy()
    np.add.at(new, number[count:], delta.weights)
    full = _sums(old, owner, partitions) >= k
    last = np.zeros(partitions, np.int64)
    last[before.probe] = number[:count]  # ascending within a partition: the last one stays
    # Past the last known row of a full partition the state may hold rows that are not here.
    known = ~full[owner] | (np.arange(len(new)) <= last[owner])
    new = np.where(known & (new > 0), new, 0)
    unsure = full & (_sums(new, owner, partitions) < k)
    was, now = _frame_rows(old, owner, partitions, k), _frame_rows(new, owner, partitions, k)
    return TopKMerge(rows.take(distinct), owner, was, now, unsure)


def _sums(weights: Weights, owner: Indexes, partitions: int) -> Weights:
    sums = np.zeros(partitions, np.int64)
    np.add.at(sums, owner, weights)
    return sums


def _frame_rows(weights: Weights, owner: Indexes, partitions: int, k: int) -> RankRange:
    ends = np.cumsum(_sums(weights, owner, partitions))
    sums_before = np.concatenate([[0], ends[:-1]])
    start = np.cumsum(weights) - weights - sums_before[owner]
    return RankRange(start, np.clip(k - start, 0, weights))
