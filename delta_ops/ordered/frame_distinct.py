"""Linear aggregates of distinct values over bounded frames: COUNT(DISTINCT x), SUM(DISTINCT x), …

Law: of each pair of neighbours among the equal values in order, a frame that holds both counts the
later one once too often. Frames begin and end in the order of their rows, so those that hold a pair
belong to a range of rows: from the first that ends after the later value to the last that begins
before or at the earlier one. Subtracting from a range of rows is a difference at its two ends,
summed up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ivm.delta_ops.aggregates.lanes.call import AggregateSpec, Argument
from ivm.delta_ops.ordered.frame import Frame, RangeKey
from ivm.delta_ops.ordered.frame_bounds import FrameRows
from ivm.delta_ops.ordered.frame_sums import FrameSum, batch_of
from ivm.storage.ordered.gather import RowSlice
from ivm.storage.values.column import Column, Indexes
from ivm.storage.values.ordering.order import OrderTerm
from ivm.storage.values.ordering.ranges import offsets
from ivm.storage.values.ordering.sort import sort_rows

_NONE = np.iinfo(np.int64).max


class DistinctFrameSum(FrameSum):
    """A linear aggregate of the distinct values of its frame.

    Args:
        call: `is_linear`, of one column of an orderable type, with DISTINCT.
        frame: bounded on both sides, its bounds in the order of the rows (see `in_order`), and
            nothing or the current row excluded.
    """

    def __init__(self, call: AggregateSpec, frame: Frame) -> None:
        super().__init__(call, frame)
        assert call.argument_type is not None
        self._counted = Argument.of(call)
        self._equal = OrderTerm(0, call.argument_type)

    def evaluate(self, frame_rows: FrameRows) -> Column:
        starts, stops, rows = frame_rows.around(self.reach)
        shift = (offsets(stops - starts) - starts)[frame_rows.segment]
        pieces = frame_rows.pieces(self.reach)
        begin, end = pieces[0][0] + shift, pieces[-1][1] + shift
        sums = self._running(rows)
        pairs = self._neighbours(rows, offsets(stops - starts))
        total = sums[end] - sums[begin] - _twice(pairs, sums, begin, end)
        if self.reach.exclude:
            here = frame_rows.ranks + shift
            alone = ((begin <= here) & (here < end)).nonzero()[0]
            alone = alone[pairs.alone(here[alone], begin[alone], end[alone])]
            total[alone] -= sums[here[alone] + 1] - sums[here[alone]]
        return self._finish(self._widened(total))

    def _neighbours(self, rows: RowSlice, begins: Indexes) -> _Neighbours:
        """The pairs of neighbouring rows that have the same value within their segment.

        Args:
            begins: the segments' first rows; an empty segment begins where the next one does.
        """
        count = len(rows)
        given = self._counted.rows(batch_of(rows, count), np.arange(count))
        assert given.values is not None
        counted = given.weights.nonzero()[0]
        codes = begins.searchsorted(counted, "right")
        order, first = sort_rows(codes, [given.values.take(counted)], [self._equal])
        order = counted[order]
        same = np.ones(len(order), np.bool_)
        same[first] = False
        later = same.nonzero()[0]
        return _Neighbours(order[later - 1], order[later], count)


class _Neighbours(NamedTuple):
    """Pairs of rows with the same value and none of it between them.

    Attributes:
        rows: their number.
    """

    earlier: Indexes
    later: Indexes
    rows: int

    def alone(self, chosen: Indexes, begin: Indexes, end: Indexes) -> Indexes:
        """The positions of the chosen rows whose value is nowhere else in the row's range."""
        before, behind = np.full(self.rows, -1), np.full(self.rows, _NONE)
        before[self.later], behind[self.earlier] = self.earlier, self.later
        return ((before[chosen] < begin) & (behind[chosen] >= end)).nonzero()[0]


def _twice(pairs: _Neighbours, sums: Indexes, begin: Indexes, end: Indexes) -> Indexes:
    """The repeated values of each frame: the later rows of the pairs that it holds.

    Args:
        sums: running sums over all rows.
    """
    change = np.zeros((len(begin) + 1, sums.shape[1]), np.int64)
    first = end.searchsorted(pairs.later, "right")
    last = begin.searchsorted(pairs.earlier, "right")
    some = (first < last).nonzero()[0]
    repeated = pairs.later[some]
    values = sums[repeated + 1] - sums[repeated]
    np.add.at(change, first[some], values)
    np.subtract.at(change, last[some], values)
    return change[:-1].cumsum(axis=0)


def in_order(frame: Frame, key: RangeKey | None) -> bool:
    """Returns whether frames begin and end in the order of their rows."""
    if frame.kind != "range" or key is None:
        return True
    return key.keeps_order(frame.start) and key.keeps_order(frame.end)
