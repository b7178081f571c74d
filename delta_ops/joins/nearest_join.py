"""Inner join of each left row with one right row of its key: the nearest by a comparison.

Law: of the right rows of its key whose value is not after the left one's, a left row meets the
last in the order of the right side (mirrored: of those not before it, the first). So a change of
the right side changes the pairs of the left rows that `RowsBehind` finds, and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.joins.join import Join
from ivm.delta_ops.joins.range_search import Comparison
from ivm.delta_ops.joins.rows_behind import Gaps, Points, RowsBehind
from ivm.delta_ops.operator import Predicate
from ivm.storage.arrangement.arrangement import Arrangement, Matches
from ivm.storage.arrangement.bound import Bound
from ivm.storage.values.key_codes import same_row
from ivm.storage.values.zset import ZSet


class NearestJoin(Join):
    """Inner join with the nearest right row. Its inputs are two `Arrange` nodes.

    Args:
        left: arranged by the left key columns, and under them by the left value alone; a side with
            one row under a key may do without the order.
        right: arranged by the right ones, and under them by the value first, ascending, which is
            never NULL.
        output: as for `Join`.
        comparison: of the left value with the right one: by ``>=`` or ``>`` the nearest row is the
            last one, by ``<=`` or ``<`` the first one.
        null_safe: as for `Join`.
        residual: as for `Join`; it is tested on the nearest row, and no other is looked for.
    """

    why: ClassVar[str] = "a ⋈ B + the left rows between b and its neighbour, with their nearest"

    def __init__(
        self,
        left: Arrange,
        right: Arrange,
        output: Sequence[int],
        comparison: Comparison,
        null_safe: Sequence[bool] | None = None,
        residual: Predicate | None = None,
    ) -> None:
        super().__init__(left, right, output, null_safe, residual)
        self._value, value = comparison.left, right.order[0].column
        self._backwards, self._strict = comparison.is_lower, comparison.is_strict
        read = range(len(self._types)) if residual else self._output
        self._shown = sorted({i - self._width for i in read if i >= self._width})
        self._behind = RowsBehind(left.types, right.types, comparison, value)

    def _probe(
        self, delta: ZSet, side: Arrange, other: Arrangement, *, probe_is_left: bool
    ) -> ZSet:
        assert probe_is_left
        rows = self._with_values(delta)
        return self._met(rows, self._nearest(self._points(rows), other, self._strict))

    def _changes(self, a: ZSet, b: ZSet) -> Iterator[ZSet]:
        if len(a.weights):
            yield self._probe(a, self._left, self._right.before, probe_is_left=True)
        if len(b.weights):
            changed = self._joinable(b, self._right)
            found = self._behind.find(self._left, self._right, changed)
            if found is not None:
                yield from self._moved(*found)

    def _moved(self, rows: ZSet, gaps: Gaps | None) -> Iterator[ZSet]:
        """The pairs of left rows before and after the step, where they differ.

        Args:
            rows: of the left side, as it is after the step.
            gaps: in which they stand, so that one search serves all rows of each.
        """
        if gaps is None:
            rows = self._with_values(rows)
            points, strict = self._points(rows), self._strict
        else:
            points, strict = gaps.begins, False
        was = self._nearest(points, self._right.before, strict)
        now = self._nearest(points, self._right.after, strict)
        was, now = self._apart(was, now, len(points.values))
        if gaps is not None:
            was, now = gaps.spread(was), gaps.spread(now)
        yield self._met(rows, was).negate()
        yield self._met(rows, now)

    def _with_values(self, rows: ZSet) -> ZSet:
        """The left rows that may meet one."""
        return self._joinable(rows, self._left).without_nulls([self._value])

    def _points(self, rows: ZSet) -> Points:
        return Points(self._left.keys(rows), rows.columns[self._value])

    def _nearest(self, points: Points, other: Arrangement, strict: bool) -> Matches:
        """The nearest right rows, with the columns that are shown."""
        bound, backwards = Bound(points.values, strict), self._backwards
        return other.first(points.keys, 1, bound=bound, wanted=self._shown, backwards=backwards)

    def _met(self, rows: ZSet, nearest: Matches) -> ZSet:
        probe, found = nearest
        right = dict(zip(self._shown, found.columns, strict=False))
        return self._pairs(rows.columns, probe, right, None, rows.weights[probe])

    def _apart(self, was: Matches, now: Matches, count: int) -> Iterator[Matches]:
        """The nearest rows of so many probes before and after, without those that stay."""
        place = np.full(count, -1, np.int64)
        place[was.probe] = np.arange(len(was.probe))
        both = (place[now.probe] >= 0).nonzero()[0]
        at, types = place[now.probe[both]], [self._right.types[i] for i in self._shown]
        same = same_row(was.rows.columns, at, now.rows.columns, both, types)
        for matches, stayed in ((was, at[same]), (now, both[same])):
            mask = np.ones(len(matches.probe), np.bool_)
            mask[stayed] = False
            yield Matches(matches.probe[mask], matches.rows.filter(mask))

    def describe(self) -> str:
        return f"NearestJoin(on {list(self._left.key)} = {list(self._right.key)})"
