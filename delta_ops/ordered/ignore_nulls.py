"""Functions that skip NULLs: LAG, LEAD, FIRST_VALUE, LAST_VALUE and NTH_VALUE IGNORE NULLS.

Law: rows with a value are numbered in the order of all rows, so the row some values away is found
by its number. A change affects rows up to as many values away from it, and a row without a value
affects only itself where frames do not count rows.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ivm.delta_ops.ordered.affected_rows import ChangedRows, reached
from ivm.delta_ops.ordered.frame import RangeKey
from ivm.delta_ops.ordered.frame_bounds import FrameRows, Pair, WindowOrder
from ivm.delta_ops.ordered.function import Neighbour, Nth, nth_rank, value_at_rank
from ivm.storage.ordered.gather import RowSlice
from ivm.storage.ordered.rank_select import NotNull, RankSelect
from ivm.storage.ordered.sorted_rows import SortedRows
from ivm.storage.values.column import Column, Indexes, null_column


class PresentNeighbour(Neighbour):
    """LAG and LEAD among rows with a value; the distance is not 0."""

    def wanted(self, frame_rows: FrameRows) -> Pair:
        present = RankSelect(frame_rows.rows, NotNull(self._argument))
        distance = self._distance
        if distance > 0:
            return present.select(
                present.rank(frame_rows.ranks + 1) + distance - 1
            ), frame_rows.last
        number = present.rank(frame_rows.ranks) + distance
        missing = number < present.rank(frame_rows.first)
        ranks = present.select(np.maximum(number, 0))
        return np.where(missing, frame_rows.last, ranks), frame_rows.last

    def reached(
        self, changed: ChangedRows, before: SortedRows, order: WindowOrder, key: RangeKey | None
    ) -> Pair:
        present = RankSelect(before, NotNull(self._argument))
        low, high = changed.at, changed.end
        if self._distance > 0:
            low = back(present, changed, self._distance)
        else:
            high = ahead(present, changed, -self._distance)
        return _if_present(self._argument, changed, (low, high))


def back(present: RankSelect, changed: ChangedRows, count: int) -> Indexes:
    """The rank of the value some values before each changed row."""
    number = present.rank(changed.at) - count
    ranks = np.maximum(present.select(np.maximum(number, 0)), changed.first)
    return np.where(number < 0, changed.first, ranks)


def ahead(present: RankSelect, changed: ChangedRows, count: int) -> Indexes:
    """The rank past the value some values after each changed row."""
    number = present.rank(changed.end) + count - 1
    return np.minimum(present.select(number) + 1, changed.last)


def _if_present(argument: int, changed: ChangedRows, reach: Pair) -> Pair:
    valid = changed.rows[argument].valid
    if valid is None:
        return reach
    low, high = reach
    return np.where(valid, low, changed.at), np.where(valid, high, changed.end)


class PresentNth(Nth):
    """FIRST_VALUE, LAST_VALUE and NTH_VALUE of the rows with a value; ANY_VALUE."""

    @property
    def edge(self) -> Literal["", "first", "last"]:
        """None, because rows without a value may stand there."""
        return ""

    def evaluate(self, frame_rows: FrameRows) -> Column:
        present = RankSelect(frame_rows.rows, NotNull(self._argument))
        pieces = [
            (present.rank(start), present.rank(np.maximum(start, stop)))
            for start, stop in frame_rows.pieces(self._frame)
        ]
        numbers, inside = nth_rank(pieces, self._number)
        ranks = present.select(numbers[inside])
        found = RowSlice(frame_rows.rows, ranks)[self._argument]
        return value_at_rank(found, inside, null_column(self.type, int((~inside).sum())))

    def reached(
        self, changed: ChangedRows, before: SortedRows, order: WindowOrder, key: RangeKey | None
    ) -> Pair:
        frame = self._frame
        reach = reached(frame, changed, before, order, key)
        counts_rows = {frame.start, frame.end} - {None, 0} and frame.kind != "range"
        if frame.exclude or counts_rows:
            return reach
        present = RankSelect(before, NotNull(self._argument))
        return _if_present(self._argument, changed, self._narrowed(present, changed, reach))

    def _narrowed(self, present: RankSelect, changed: ChangedRows, reach: Pair) -> Pair:
        """The ranges without the rows that meet other values first."""
        low, high = reach
        frame, number = self._frame, self._number
        at, end = changed.at, changed.end
        if frame.start is None and number > 0:
            others = present.rank(at) - present.rank(changed.first) >= number
            return np.where(others, at, low), np.where(others, end, high)
        if frame.end is None and number < 0:
            others = present.rank(changed.last) > present.rank(end)
            return np.where(others, at, low), np.where(others, end, high)
        if frame.end == 0 and number < 0:
            high = np.minimum(high, np.maximum(ahead(present, changed, 1), end))
        if frame.start == 0 and number > 0:
            low = np.maximum(low, np.minimum(back(present, changed, number), at))
        return low, high
