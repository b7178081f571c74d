"""Which rows a change concerns: those whose frames meet it.

Law: let x be a changed row. A row r has x in its frame only if x stands between r's start and end,
that is, if r stands between x − end and x − start; where several rows change, a row whose frame
changed is found from the changed row nearest to it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ivm.delta_ops.window_frame import Frame, RangeKey
from ivm.delta_ops.window_stretch import Stretch, WindowOrder
from ivm.storage.column import FixedColumn, Indexes
from ivm.storage.sorted_rows import Block, SortedRows


class Changed(NamedTuple):
    """A sorted delta in the rows before it.

    Attributes:
        rows: the delta's distinct rows.
        at: where each is inserted, or the first place it is removed from.
        gone: how many places it is removed from.
        first: the first place of its partition.
        last: the place past its partition.
        part: the number of its partition.
    """

    rows: Block
    at: Indexes
    gone: Indexes
    first: Indexes
    last: Indexes
    part: Indexes


def reached(
    frame: Frame, changed: Changed, before: SortedRows, order: WindowOrder, key: RangeKey | None
) -> tuple[Indexes, Indexes]:
    """For each changed row the places before the change that hold all rows it concerns."""
    at, end = changed.at, changed.at + changed.gone
    if frame.kind == "rows":
        low = changed.first if frame.end is None else at - max(int(frame.end), 0)
        high = changed.last if frame.start is None else end + max(-int(frame.start), 0)
        return np.maximum(low, changed.first), np.minimum(high, changed.last)
    finder = _Finder(changed, before, order, key)
    count = len(at)
    lows, highs = at.copy(), end.copy()
    for i in range(count):
        if frame.end is None:
            lows[i] = changed.first[i]
        else:
            lows[i] = min(finder.edge(i, frame.kind, frame.end, False), at[i])
        if frame.start is None:
            highs[i] = changed.last[i]
        else:
            highs[i] = max(finder.edge(i, frame.kind, frame.start, True), end[i])
    return lows, highs


class _Finder:
    def __init__(
        self, changed: Changed, before: SortedRows, order: WindowOrder, key: RangeKey | None
    ) -> None:
        self._changed, self._before, self._order, self._key = changed, before, order, key

    def edge(self, row: int, kind: str, distance: int | float, stop: bool) -> int:
        """The places of rows that stand `distance` before the changed row: first, or past them."""
        cells = self._changed.rows.key(self._order.terms, row, self._order.peers)
        if kind == "groups":
            return self._groups_away(row, cells, int(distance), stop)
        if distance == 0 or (self._key is not None and cells[-1] is None):
            return self._before.find(cells, stop)
        assert self._key is not None
        if self._key.type.is_float:
            keys = self._changed.rows.columns[self._key.column].slice(row, row + 1)
            assert isinstance(keys, FixedColumn)
            target = int(self._key.targets(FixedColumn(keys.values), -distance, stop)[0])
        else:
            target = self._key.target(cells[-1], -int(distance), stop)
        return self._before.find((*cells[: self._order.partition], target), stop)

    def _groups_away(self, row: int, cells: tuple[Any, ...], distance: int, stop: bool) -> int:
        """As many groups away, the changed row's own group (there or not) counted as one."""
        stretch = Stretch.over(self._before, self._order)
        start, end = self._before.find(cells), self._before.find(cells, True)
        first, last = int(self._changed.first[row]), int(self._changed.last[row])
        if stop:
            steps = max(-distance, 0)
            return stretch.group_stop(end, last, steps - 1) if steps and end < last else end
        steps = max(distance, 0)
        return (
            stretch.group_start(start - 1, first, steps - 1) if steps and start > first else start
        )
