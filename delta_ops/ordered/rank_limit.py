"""RANK ≤ k and DENSE_RANK ≤ k: the first rows of each partition, with all that tie.

Law: neither RANK nor DENSE_RANK falls along the order, so the rows wanted come before one position
of the partition: the end of the peers of its k-th row (RANK), or of its k-th group of peers
(DENSE_RANK). Affected rows after that position are never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ivm.delta_ops.ordered.frame_bounds import Pair, Segments
from ivm.delta_ops.ordered.function import Rank
from ivm.delta_ops.ordered.window import Window
from ivm.storage.ordered.rank_select import PeerGroups
from ivm.storage.ordered.sorted_rows import SortedRows
from ivm.storage.values.column import Indexes
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.ordering.ranges import clipped
from ivm.storage.values.types import ColumnType


class RankLimit(Window):
    """The rows of a rank up to a bound, with it as the last column.

    Args:
        inputs: the input's types, all orderable.
        partition: positions of the PARTITION BY columns.
        order: the ORDER BY.
        rank: RANK or DENSE_RANK.
        most: the greatest rank wanted.
    """

    why: ClassVar[str] = "the first rows of the touched partitions, with those that tie"

    def __init__(
        self,
        inputs: Sequence[ColumnType],
        partition: Sequence[int],
        order: Sequence[OrderKey],
        rank: Rank,
        most: int,
    ) -> None:
        super().__init__(inputs, partition, order, [rank])
        self._by_group = rank.function == "dense_rank"
        self._most = most

    def _shown(self, rows: SortedRows, segments: Segments) -> Segments:
        first, last, start, stop = segments
        end = self._end(rows, first, last)
        return Segments(first, last, np.minimum(start, end), np.minimum(stop, end))

    def _in_pairs(self, old: Segments, was: Indexes, new: Segments, now: Indexes) -> Pair:
        """The pairs of a segment, which begins with the same rows before and after.

        It may end sooner in one of the two.
        """
        a, b = old.start.searchsorted(was, "right"), new.start.searchsorted(now, "right")
        count = len(old.start) + 1
        common = np.minimum(np.bincount(a, minlength=count), np.bincount(b, minlength=count))
        left, right = [np.arange(len(n)) - n.searchsorted(n) < common[n] for n in (a, b)]
        return left.nonzero()[0], right.nonzero()[0]

    def _end(self, rows: SortedRows, first: Indexes, last: Indexes) -> Indexes:
        """The position past the rows wanted of each partition."""
        if self._most < 1:
            return first
        groups = PeerGroups(rows, self._order.peers)
        if self._by_group:
            number = groups.of(first) + self._most
        else:
            number = groups.of(np.maximum(np.minimum(first + self._most, last) - 1, 0)) + 1
        return clipped(groups.starts(np.maximum(number, 0)), first, last)

    def describe(self) -> str:
        return f"RankedTop({self._most} per {list(self._order.partition_columns)})"
