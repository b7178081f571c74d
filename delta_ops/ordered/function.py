"""The interface of window functions, and the functions of ranks alone.

Law: a function's value for a row depends on the rows of the row's frame (`reach`) and on its rank
among them, so a change affects only rows whose frame meets it. A function that
`is_partition_constant` has one value for a whole partition, and a change that keeps this value
affects no row.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ivm.delta_ops.aggregates.lanes.float_sum import Floats
from ivm.delta_ops.ordered.affected_rows import ChangedRows, reached
from ivm.delta_ops.ordered.frame import UP_TO_HERE, UP_TO_PEERS, WHOLE, Frame, RangeKey
from ivm.delta_ops.ordered.frame_bounds import FrameRows, Pair, WindowOrder
from ivm.storage.ordered.gather import RowSlice
from ivm.storage.ordered.sorted_rows import SortedRows
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask, concat, null_column
from ivm.storage.values.types import ColumnType


class WindowFunction:
    """One function over a window.

    Attributes:
        type: of the result.
        reach: the rows on which its value may depend.
        is_partition_constant: it has one value per partition.
    """

    is_partition_constant: bool = False

    def __init__(self, type: ColumnType, reach: Frame) -> None:
        self.type = type
        self.reach = reach

    def evaluate(self, frame_rows: FrameRows) -> Column:
        """The values for the rows of some segments.

        Raises:
            EvaluationError: as DuckDB would.
        """
        raise NotImplementedError

    @property
    def edge(self) -> Literal["", "first", "last"]:
        """The edge, if the function reads only the first or the last row of the partition."""
        return ""

    def reached(
        self, changed: ChangedRows, before: SortedRows, order: WindowOrder, key: RangeKey | None
    ) -> Pair:
        """The range of ranks, before the change, of the rows that each changed row affects."""
        return reached(self.reach, changed, before, order, key)


class Rank(WindowFunction):
    """ROW_NUMBER, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE.

    Attributes:
        function: the name in lower case.

    Args:
        function: the name in lower case.
        buckets: the argument of NTILE.
    """

    def __init__(self, function: str, type: ColumnType, buckets: int = 1) -> None:
        reaches = {"row_number": UP_TO_HERE, "rank": UP_TO_PEERS, "dense_rank": UP_TO_PEERS}
        super().__init__(type, reaches.get(function, WHOLE))
        self.function = function
        self._buckets = buckets

    def evaluate(self, frame_rows: FrameRows) -> Column:
        return FixedColumn(getattr(self, f"_{self.function}")(frame_rows))

    def _row_number(self, frame_rows: FrameRows) -> Indexes:
        return frame_rows.ranks - frame_rows.first + 1

    def _rank(self, frame_rows: FrameRows) -> Indexes:
        return frame_rows.peers()[0] - frame_rows.first + 1

    def _dense_rank(self, frame_rows: FrameRows) -> Indexes:
        before = frame_rows.groups.of(frame_rows.segments.first)
        return frame_rows.group() - before[frame_rows.segment] + 1

    def _percent_rank(self, frame_rows: FrameRows) -> Floats:
        above = frame_rows.peers()[0] - frame_rows.first
        share: Floats = above / np.maximum(frame_rows.last - frame_rows.first - 1, 1)
        return share

    def _cume_dist(self, frame_rows: FrameRows) -> Floats:
        done = frame_rows.peers()[1] - frame_rows.first
        share: Floats = done / (frame_rows.last - frame_rows.first)
        return share

    def _ntile(self, frame_rows: FrameRows) -> Indexes:
        count, rank = frame_rows.last - frame_rows.first, frame_rows.ranks - frame_rows.first
        size, larger = count // self._buckets, count % self._buckets
        turn = larger * (size + 1)
        late = larger + (rank - turn) // np.maximum(size, 1)
        number: Indexes = np.where(rank < turn, rank // (size + 1), late) + 1
        return number


class Neighbour(WindowFunction):
    """LAG and LEAD: the value some rows away.

    Args:
        argument: input position of the value.
        type: of the value.
        distance: rows ahead (LEAD), or behind if negative (LAG).
        default: where there is no such row: input position, a constant of one row, or None.
    """

    def __init__(
        self, argument: int, type: ColumnType, distance: int, default: int | Column | None
    ) -> None:
        super().__init__(type, Frame("rows", distance, distance))
        self._argument = argument
        self._distance = distance
        self._default = default

    def evaluate(self, frame_rows: FrameRows) -> Column:
        wanted, last = self.wanted(frame_rows)
        inside = (wanted >= frame_rows.first) & (wanted < last)
        found = RowSlice(frame_rows.rows, wanted[inside])[self._argument]
        return value_at_rank(found, inside, self._defaults(frame_rows, ~inside))

    def wanted(self, frame_rows: FrameRows) -> Pair:
        """The rank that each row reads, and the one past its partition."""
        return frame_rows.ranks + self._distance, frame_rows.last

    def _defaults(self, frame_rows: FrameRows, outside: Mask) -> Column:
        count = int(outside.sum())
        if self._default is None:
            return null_column(self.type, count)
        if isinstance(self._default, int):
            return RowSlice(frame_rows.rows, frame_rows.ranks[outside])[self._default]
        return self._default.take(np.zeros(count, np.int64))


def value_at_rank(found: Column, inside: Mask, others: Column) -> Column:
    """The found values where `inside`, the others elsewhere, both in order."""
    if len(others) == 0:
        return found
    number = np.empty(len(inside), np.int64)
    number[inside] = np.arange(len(found))
    number[~inside] = np.arange(len(found), len(inside))
    return concat([found, others]).take(number)


class Nth(WindowFunction):
    """FIRST_VALUE, LAST_VALUE and NTH_VALUE: the value of one row of the frame.

    Args:
        argument: input position of the value.
        type: of the value.
        frame: its rows.
        number: from the front if positive (1 is the first), −1 is the last.
    """

    def __init__(self, argument: int, type: ColumnType, frame: Frame, number: int) -> None:
        super().__init__(type, frame)
        self._argument = argument
        self._frame = frame
        self._number = number

    @property
    def edge(self) -> Literal["", "first", "last"]:
        """See `WindowFunction`."""
        start, end = self._frame.start, self._frame.end
        if self._frame.exclude:
            return ""
        if self._number == 1 and start is None and (end is None or end >= 0):
            return "first"
        if self._number == -1 and end is None and (start is None or start <= 0):
            return "last"
        return ""

    def evaluate(self, frame_rows: FrameRows) -> Column:
        ranks, inside = nth_rank(frame_rows.pieces(self._frame), self._number)
        found = RowSlice(frame_rows.rows, ranks[inside])[self._argument]
        return value_at_rank(found, inside, null_column(self.type, int((~inside).sum())))


def nth_rank(pieces: list[Pair], number: int) -> tuple[Indexes, Mask]:
    """The rank of the n-th row of each frame, and whether there is one."""
    counts = [stop - start for start, stop in pieces]
    total = np.sum(counts, axis=0)
    left = total - 1 if number < 0 else np.full(len(total), number - 1)
    inside = (left >= 0) & (left < total)
    ranks = np.zeros(len(total), np.int64)
    for (start, _), count in zip(pieces, counts, strict=True):
        here = (left >= 0) & (left < count)
        ranks = np.where(here, start + left, ranks)
        left = np.where(here, -1, left - count)
    return ranks, inside
