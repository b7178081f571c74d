"""The left rows of a join with the nearest right row that stand behind changed right rows.

Law: if the row that a left row meets is another one after a step, let g be the later one of the
two: g has come or gone, and after the step no right row stands between g and the left row's value.
So the left rows whose pairs change are found between each changed right row and the next value of
its key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.joins.range_search import Comparison, RangeSearch
from ivm.storage.arrangement.bound import Bound
from ivm.storage.values.column import Column, concat, null_column
from ivm.storage.values.consolidate import distinct_rows
from ivm.storage.values.ordering.order import value_codes
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add

_NOT_BEYOND = {">=": "<", ">": "<=", "<=": ">", "<": ">="}
"""How a left value compares with the next right value, if the row before that is its nearest."""


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
        self._backwards = comparison.is_lower
        reached = comparison._replace(right=0)
        until = Comparison(comparison.left, _NOT_BEYOND[comparison.operator], 1, open="right")
        self._reached = RangeSearch(left, [reached])
        self._between = RangeSearch(left, [reached, until])

    def find(self, left: Arrange, right: Arrange, delta: ZSet) -> tuple[ZSet, Column | None] | None:
        """The left entries, after the step, from changed right rows on up to the next ones.

        Args:
            left: ordered by its value, or with one row under a key.
            right: ordered by its value.
            delta: changed right rows.

        Returns:
            Entries, among which may be some of other keys, and of each the value of the nearest
            changed row, if that is known; None if there are none.
        """
        keys = right.keys(delta)
        if not left.order:
            first, _ = distinct_rows(keys, left.after.layout.key_types)
            return left.after.lookup([key.take(first) for key in keys]).rows, None
        values = delta.columns[self._value]
        searched = keys if right.key else ()
        found = list(self._reached.ranges(left.after, searched, ZSet((values,), delta.weights)))
        # Where few rows stand behind the changes, it is not worth while to look for the next ones.
        if sum(map(len, found)) > len(delta):
            hits = np.unique(np.concatenate([ranges.hits for ranges in found]))
            keys, values = tuple([key.take(hits) for key in keys]), values.take(hits)
            probe = ZSet((values, self._next(right, keys, values)), delta.weights[hits])
            found = list(self._between.ranges(left.after, keys if right.key else (), probe))
        if not found:
            return None
        codes = value_codes(values, self._type)
        parts = [ranges.entries(codes, lower=self._backwards) for ranges in found]
        return add([rows for _, rows in parts]), values.take(np.concatenate([n for n, _ in parts]))

    def _next(self, right: Arrange, keys: Sequence[Column], values: Column) -> Column:
        """The next values under the keys after the step; NULL where there is none."""
        find = right.after.first if self._backwards else right.after.last
        bound = Bound(values, strict=True)
        probe, found = find(keys, 1, bound=bound, wanted=[self._value])
        place = np.zeros(len(values), np.int64)
        place[probe] = np.arange(1, len(probe) + 1)
        return concat([null_column(self._type, 1), *found.columns]).take(place)
