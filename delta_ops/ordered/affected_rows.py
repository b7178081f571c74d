"""Affected rows: the rows whose frames meet a change.

Law: let x be a changed row. A row r has x in its frame only if x is between r's start and end, that
is, if r is between x − end and x − start; where several rows change, a row whose frame changed is
found from the changed row nearest to it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ivm.delta_ops.ordered.frame import Frame, RangeKey
from ivm.delta_ops.ordered.frame_bounds import Pair, WindowOrder
from ivm.delta_ops.ordered.key_search import keys_near
from ivm.storage.ordered.rank_select import PeerGroups
from ivm.storage.ordered.sorted_rows import SortedRows
from ivm.storage.values.column import Column, FixedColumn, Indexes
from ivm.storage.values.ordering.ranges import clipped


class ChangedRows(NamedTuple):
    """A sorted delta in the rows before it.

    Attributes:
        rows: the delta's distinct rows.
        at: the rank at which each is inserted, or the first rank that is removed.
        end: the rank after the last one that is removed.
        come: the number of times that it is inserted.
        first: the first rank of its partition.
        last: the rank after its partition.
        part: the number of its partition.
        moved: the shift of later rows by it and those before it; 0 before the first.
        reaches: results of `reached`, by frame.
    """

    rows: Sequence[Column]
    at: Indexes
    end: Indexes
    come: Indexes
    first: Indexes
    last: Indexes
    part: Indexes
    moved: Indexes
    reaches: dict[Frame, Pair]


def reached(
    frame: Frame, changed: ChangedRows, before: SortedRows, order: WindowOrder, key: RangeKey | None
) -> Pair:
    """The range of ranks, before the change, of the rows that each changed row affects."""
    known = changed.reaches.get(frame)
    if known is None:
        known = changed.reaches[frame] = _reached(frame, changed, before, order, key)
    return known


def _reached(
    frame: Frame, changed: ChangedRows, before: SortedRows, order: WindowOrder, key: RangeKey | None
) -> Pair:
    at, end = changed.at, changed.end
    first, last = changed.first, changed.last
    if frame.kind == "rows":
        low = first if frame.end is None else at - max(int(frame.end), 0)
        high = last if frame.start is None else end + max(-int(frame.start), 0)
        return np.maximum(low, first), np.minimum(high, last)
    finder = _Finder(changed, before, order, key)
    near = None if frame.kind == "groups" else finder.near(frame)
    if near is not None:
        return near
    low = first if frame.end is None else finder.edge(frame.kind, frame.end, False)
    high = last if frame.start is None else finder.edge(frame.kind, frame.start, True)
    return np.minimum(low, at), np.maximum(high, end)


class _Finder:
    def __init__(
        self, changed: ChangedRows, before: SortedRows, order: WindowOrder, key: RangeKey | None
    ) -> None:
        self._changed, self._before, self._order, self._key = changed, before, order, key

    def near(self, frame: Frame) -> Pair | None:
        """The ranks of a RANGE frame's `edge`s, if they are near the changed rows."""
        changed, key = self._changed, self._key
        keys = None if key is None else changed.rows[key.column]
        if key is None or keys is None or keys.valid is not None:
            return None
        assert isinstance(keys, FixedColumn)
        first, last, at, end = changed.first, changed.last, changed.at, changed.end
        edges, wanted = [first, last], {}
        for stop, distance in enumerate((frame.end, frame.start)):
            if distance is not None and not _same((at, end)[stop], edges[stop]):
                codes = key.concerned(keys, -distance, bool(stop))
                wanted[stop] = ~codes if key.descending else codes
        if wanted:
            least, most = [functools.reduce(f, wanted.values()) for f in (np.minimum, np.maximum)]
            found = keys_near(self._before, key, (first, last, at, end), least, most)
            if found is None:
                return None
            every = np.arange(len(at))
            for stop, codes in wanted.items():
                edges[stop] = found.find(codes, every, bool(stop))
        return np.minimum(edges[0], at), np.maximum(edges[1], end)

    def edge(self, kind: str, distance: int | float, stop: bool) -> Indexes:
        """The ranks of the rows `distance` before the changed rows: the first, or past the last."""
        if kind == "groups":
            return self._groups_away(int(distance), stop)
        if distance == 0:
            return self._peers(stop)
        assert self._key is not None
        keys = self._changed.rows[self._key.column]
        assert isinstance(keys, FixedColumn)
        codes = self._key.concerned(FixedColumn(keys.values), -distance, stop)
        around = self._changed.rows
        found = self._key.ranks(self._before, around, codes, self._order.partition, stop)
        return found if keys.valid is None else np.where(keys.valid, found, self._peers(stop))

    def _peers(self, stop: bool) -> Indexes:
        changed = self._changed
        return self._before.find_all(changed.rows, len(changed.at), stop, self._order.peers)

    def _groups_away(self, distance: int, stop: bool) -> Indexes:
        """The ranks so many groups away, the changed row's own group (there or not) being one."""
        edge = self._peers(stop)
        steps = -distance if stop else distance
        if steps <= 0 or not len(self._before):
            return edge
        groups = PeerGroups(self._before, self._order.peers)
        inside = clipped(edge - (not stop), 0, len(self._before) - 1)
        number = groups.of(inside) + (steps if stop else 1 - steps)
        found = groups.starts(np.maximum(number, 0))
        return clipped(found, self._changed.first, self._changed.last)


def _same(ranks: Indexes, others: Indexes) -> bool:
    return bool(ranks.tolist() == others.tolist())
