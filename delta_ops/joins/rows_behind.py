"""The left rows of a join with the nearest right row that stand behind changed right rows.

Law: if the row that a left row meets is another one after a step, let g be the later one of the
two: g has come or gone, and after the step no right row stands between g and the left row's value.
So the left rows whose pairs change are found in the gaps between each changed right row and the
next value of its key; and all rows of a gap, up to the next changed row in it, meet what a left row
that compares with the gap's begin by ``>=`` (mirrored: ``<=``) meets, before the step and after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.joins.range_search import Comparison, RangeSearch, RunRanges, where_valid
from ivm.storage.arrangement.arrangement import Arrangement, Matches
from ivm.storage.arrangement.bound import Bound
from ivm.storage.values.column import Column, Indexes, concat, null_column
from ivm.storage.values.consolidate import distinct_rows
from ivm.storage.values.ordering.order import value_codes
from ivm.storage.values.ordering.ranges import first_places
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add, ones


class Points(NamedTuple):
    """Values under keys, from which on rows are looked for."""

    keys: Sequence[Column]
    values: Column

    def take(self, rows: Indexes) -> Points:
        return Points([key.take(rows) for key in self.keys], self.values.take(rows))


class Gaps(NamedTuple):
    """Gaps in which left rows stand.

    Attributes:
        number: of each left row that of its gap.
        begins: of the gaps, values of the right side.
    """

    number: Indexes
    begins: Points

    def spread(self, nearest: Matches) -> Matches:
        """What is found for each left row, from what is found for its gap (one row at most)."""
        place = np.full(len(self.begins.values), -1, np.int64)
        place[nearest.probe] = np.arange(len(nearest.probe))
        at = place[self.number]
        some = (at >= 0).nonzero()[0]
        return Matches(some, nearest.rows.take(at[some]))


class RowsBehind:
    """A search for left rows.

    Args:
        left: types of the left rows.
        right: types of the right rows.
        comparison: of the left value with the right one.
        value: the column of the right one.
    """

    def __init__(
        self,
        left: Sequence[ColumnType],
        right: Sequence[ColumnType],
        comparison: Comparison,
        value: int,
    ) -> None:
        self._value, self._type = value, right[value]
        self._order = comparison.left
        self._backwards, self._strict = comparison.is_lower, comparison.is_strict
        self._reached = RangeSearch(left, [comparison._replace(right=0)])

    def find(self, left: Arrange, right: Arrange, delta: ZSet) -> tuple[ZSet, Gaps | None] | None:
        """The left entries, after the step, from changed right rows on up to the next ones.

        Args:
            left: ordered by its value, or with one row under a key.
            right: ordered by its value.
            delta: changed right rows.

        Returns:
            Entries and their gaps; None if there are none. Without gaps, there may be entries of
            other keys, and of the right keys that are beyond the next row.
        """
        changed = self._distinct(left, right, delta)
        if not left.order:
            return left.after.lookup(changed.keys).rows, None
        probe = ZSet((changed.values,), ones(len(changed.values)))
        behind = list(self._reached.ranges(left.after, changed.keys if right.key else (), probe))
        if not behind:
            return None
        hits = np.unique(np.concatenate([ranges.hits for ranges in behind]))
        # Where few rows stand behind the changes, it is not worth while to look for the next ones.
        if sum(map(len, behind)) <= len(hits):
            return self._entries(behind, changed)[1], None
        ends = self._next(right, changed, hits)
        gaps = [some for ranges in behind if len((some := self._until(ranges, ends)).hits)]
        return self._in_gaps(left.after, gaps, changed) if gaps else None

    def _distinct(self, left: Arrange, right: Arrange, delta: ZSet) -> Points:
        """The changed keys and values; each once, where an update has them twice."""
        changed = Points(right.keys(delta), delta.columns[self._value])
        types = left.after.layout.key_types
        if not left.order:
            return changed.take(distinct_rows(changed.keys, types).first)
        if (delta.weights > 0).all():
            return changed
        columns = (*changed.keys, changed.values)
        return changed.take(distinct_rows(columns, (*types, self._type)).first)

    def _until(self, ranges: RunRanges, ends: Column) -> RunRanges:
        """The parts of ranges up to the ends; NULL is none."""
        run, hits, starts, stops = ranges
        wanted, column = ends.take(hits), run.columns[self._order]
        right = self._strict == self._backwards
        places = first_places(column, self._type, starts, stops, wanted, right=right)
        if self._backwards:
            stops = where_valid(wanted, places, stops)
        else:
            starts = where_valid(wanted, places, starts)
        some = starts < stops
        return RunRanges(run, hits[some], starts[some], stops[some])

    def _in_gaps(
        self, held: Arrangement, found: Sequence[RunRanges], changed: Points
    ) -> tuple[ZSet, Gaps | None]:
        """The entries in ranges, and the gaps they stand in if all are of the right keys."""
        number, rows = self._entries(found, changed)
        if len(held.verified(changed.keys, Matches(number, rows)).probe) < len(number):
            return rows, None
        some = np.zeros(len(changed.values), np.bool_)
        some[number] = True
        return rows, Gaps((some.cumsum() - 1)[number], changed.take(some.nonzero()[0]))

    def _entries(self, found: Sequence[RunRanges], changed: Points) -> tuple[Indexes, ZSet]:
        """The entries in ranges, each once, and of each the number of the last row it is behind."""
        codes = value_codes(changed.values, self._type)
        parts = [ranges.entries(codes, lower=self._backwards) for ranges in found]
        return np.concatenate([number for number, _ in parts]), add([rows for _, rows in parts])

    def _next(self, right: Arrange, changed: Points, hits: Indexes) -> Column:
        """The next values after the step, for the hits; NULL where there is none."""
        keys, values = changed.take(hits)
        ways = Bound(values, strict=True), [self._value]
        probe, found = right.after.first(keys, 1, None, *ways, backwards=not self._backwards)
        place = np.zeros(len(changed.values), np.int64)
        place[hits[probe]] = np.arange(1, len(probe) + 1)
        return concat([null_column(self._type, 1), *found.columns]).take(place)
