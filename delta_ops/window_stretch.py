"""Stretches of partitions in order, and where the frames of their rows begin and end.

Law: every place is one of the whole sequence of rows, so the frames of a few rows are found without
looking at the others: ROWS by counting, RANGE and GROUPS by binary search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ivm.delta_ops.window_frame import Frame, RangeKey, bounded_search
from ivm.storage.codes import same_key, word_codes
from ivm.storage.column import Column, FixedColumn, Indexes, concat, empty_column
from ivm.storage.ordering import OrderKey, Term, order_terms
from ivm.storage.places import expand
from ivm.storage.sorted_rows import SortedRows
from ivm.storage.types import ColumnType

Pair = tuple[Indexes, Indexes]


class WindowOrder:
    """Partition and order of a window over rows of given types.

    Attributes:
        types: of the rows.
        terms: partition, order, then all other columns, then bits.
        partition: how many terms are the partition's.
        peers: how many terms rows agree on that are peers.
        keys: the order's own columns.
    """

    def __init__(
        self, types: Sequence[ColumnType], partition: Sequence[int], order: Sequence[OrderKey]
    ) -> None:
        self.types = tuple(types)
        columns = list(dict.fromkeys(partition))
        own = [key for key in order if key.column not in columns]
        terms = [*[OrderKey(c, False, False) for c in columns], *own]
        self.terms: tuple[Term, ...] = order_terms(self.types, terms)
        self.partition = len(columns)
        self.partition_columns = tuple(columns)
        self.peers = len(terms)
        self.keys = tuple([key.column for key in own])


class Segments(NamedTuple):
    """Stretches: each partition's first place and the one past its end, and the stretch's own."""

    first: Indexes
    last: Indexes
    start: Indexes
    stop: Indexes


class Stretch:
    """Rows of some partitions whose window functions are wanted.

    Args:
        rows: all rows.
        order: the window's.
        segments: disjoint, in order; of one partition there may be several.
        range_key: what RANGE distances are added to.
    """

    def __init__(
        self,
        rows: SortedRows,
        order: WindowOrder,
        segments: Segments,
        range_key: RangeKey | None = None,
    ) -> None:
        some = segments.start < segments.stop
        if not some.all():
            segments = Segments(*[part[some] for part in segments])
        self.rows = rows
        self.order = order
        self.segments = segments
        self._range_key = range_key
        self.segment, self.places = expand(segments.start, segments.stop)
        self.first, self.last = segments.first[self.segment], segments.last[self.segment]
        self._groups: dict[tuple[int, int], _Groups] = {}
        self._pieces: dict[Frame, list[Pair]] = {}

    @staticmethod
    def over(rows: SortedRows, order: WindowOrder) -> Stretch:
        """A stretch of no rows, to look around in."""
        none = np.zeros(0, np.int64)
        return Stretch(rows, order, Segments(none, none, none, none))

    def __len__(self) -> int:
        return len(self.places)

    def column(self, number: int) -> Column:
        """One column of the stretch's rows."""
        return self.gather(number, self.segments.start, self.segments.stop)

    def gather(self, number: int, starts: Indexes, stops: Indexes) -> Column:
        """One column of the rows in ranges of places, one range after the other."""
        parts = []
        for start, stop in _joined(starts, stops):
            parts.append(self.rows.column(number, start, stop))
        return concat(parts) if parts else empty_column(self.order.types[number])

    # Peers and groups

    def peers(self) -> Pair:
        """Each row's first peer and the place past its last one."""
        if not self.order.keys:
            return self.first, self.last
        groups = self.groups(0, 0)
        return groups.starts[groups.own], groups.stops[groups.own]

    def groups(self, back: int, ahead: int) -> _Groups:
        """Peer groups around the stretch.

        Args:
            back: groups wanted before that of each segment's first row.
            ahead: groups wanted after that of its last row.
        """
        known = self._groups.get((back, ahead))
        if known is None:
            known = self._groups[back, ahead] = self._read_groups(back, ahead)
        return known

    def _read_groups(self, back: int, ahead: int) -> _Groups:
        starts, stops = self.segments.start.copy(), self.segments.stop.copy()
        for i, (first, last, start, stop) in enumerate(
            zip(*[part.tolist() for part in self.segments], strict=True)
        ):
            starts[i] = self.group_start(start, first, back)
            stops[i] = self.group_stop(stop - 1, last, ahead)
        which, places = expand(starts, stops)
        begins = np.ones(len(places), np.bool_)
        rows = np.arange(len(places) - 1)
        keys = [self.gather(number, starts, stops) for number in self.order.keys]
        types = [self.order.types[number] for number in self.order.keys]
        if keys:
            begins[1:] = ~same_key(keys, rows, keys, rows + 1, types)
        else:
            begins[1:] = False
        begins[1:] |= which[1:] != which[:-1]
        at = np.flatnonzero(begins)
        ends = np.append(at[1:], len(places))
        offsets = np.cumsum(stops - starts) - (stops - starts)
        number = np.cumsum(begins) - 1
        own = number[self.places - starts[self.segment] + offsets[self.segment]]
        lows, highs = number[offsets], number[offsets + (stops - starts) - 1]
        return _Groups(places[at], places[ends - 1] + 1, own, lows, highs)

    def group_start(self, place: int, first: int, back: int) -> int:
        """The first place of the group `back` groups before that of a row."""
        if not self.order.keys:
            return first
        while place > first:
            place = self.rows.find(self.rows.key_at(place, self.order.peers))
            if back <= 0 or place <= first:
                break
            place, back = place - 1, back - 1
        return place

    def group_stop(self, place: int, last: int, ahead: int) -> int:
        """The place past the group `ahead` groups after that of a row."""
        if not self.order.keys:
            return last
        stop = place + 1
        while stop < last:
            stop = self.rows.find(self.rows.key_at(place, self.order.peers), right=True)
            if ahead <= 0 or stop >= last:
                break
            place, ahead, stop = stop, ahead - 1, stop + 1
        return stop

    # Frames

    def pieces(self, frame: Frame) -> list[Pair]:
        """The rows of each frame as ranges of places, in order and apart from each other."""
        known = self._pieces.get(frame)
        if known is None:
            known = self._pieces[frame] = self._cut_out(frame)
        return known

    def bounds(self, frame: Frame) -> Pair:
        """The first and past-the-last place of each frame, before anything is excluded."""
        kind = {"rows": self._rows_edge, "range": self._range_edge, "groups": self._groups_edge}
        edge = kind[frame.kind]
        start = self.first if frame.start is None else edge(frame.start, False)
        stop = self.last if frame.end is None else edge(frame.end, True)
        return start, np.maximum(start, stop)

    def _cut_out(self, frame: Frame) -> list[Pair]:
        start, stop = self.bounds(frame)
        if not frame.exclude:
            return [(start, stop)]
        here = self.places
        low, high = (here, here + 1) if frame.exclude == "row" else self.peers()
        low, high = np.clip(low, start, stop), np.clip(high, start, stop)
        if frame.exclude != "ties":
            return [(start, low), (high, stop)]
        own = np.clip(here, start, stop), np.clip(here + 1, start, stop)
        return [(start, low), own, (high, stop)]

    def _rows_edge(self, distance: int | float, stop: bool) -> Indexes:
        return np.clip(self.places + int(distance) + stop, self.first, self.last)

    def _groups_edge(self, distance: int | float, stop: bool) -> Indexes:
        distance = int(distance)
        if not self.order.keys and distance == 0:
            return self.last if stop else self.first
        groups = self.groups(max(-distance, 0), max(distance, 0))
        wanted = groups.own + distance
        low, high = groups.low[self.segment], groups.high[self.segment]
        inside = np.clip(wanted, low, high)
        edge = (groups.stops if stop else groups.starts)[inside]
        return np.where(wanted < low, self.first, np.where(wanted > high, self.last, edge))

    def _range_edge(self, distance: int | float, stop: bool) -> Indexes:
        if distance == 0:
            return self.peers()[stop]
        assert self._range_key is not None
        keys = self.column(self._range_key.column)
        assert isinstance(keys, FixedColumn)
        if keys.valid is None:
            return self._searched(keys, np.arange(len(self)), distance, stop)
        edge = self.peers()[stop].copy()
        some = np.flatnonzero(keys.valid)
        if len(some):
            edge[some] = self._searched(keys.take(some), some, distance, stop)
        return edge

    def _searched(
        self, keys: FixedColumn, rows: Indexes, distance: int | float, stop: bool
    ) -> Indexes:
        """Edges at a distance from the keys (none NULL) of the given rows of the stretch."""
        key = self._range_key
        assert key is not None
        targets = key.targets(FixedColumn(keys.values), distance, stop)
        owners = self.segment[rows]
        begins = np.flatnonzero(np.diff(owners, prepend=-1))
        ends = np.append(begins[1:], len(owners)) - 1
        starts, stops = np.zeros(len(begins), np.int64), np.zeros(len(begins), np.int64)
        for i, (a, b) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            prefix = self.rows.key_at(int(self.places[rows[a]]), self.order.partition)
            starts[i] = self.rows.find((*prefix, int(targets[a])), stop)
            same = targets[a] == targets[b]
            stops[i] = starts[i] if same else self.rows.find((*prefix, int(targets[b])), stop)
        found = self.gather(key.column, starts, stops)
        assert isinstance(found, FixedColumn)
        codes = word_codes(found.values, key.type)
        if key.descending:
            codes, targets = ~codes, ~targets
        part = np.repeat(np.arange(len(begins)), ends - begins + 1)
        offsets = np.cumsum(stops - starts) - (stops - starts)
        low = offsets[part]
        high = low + (stops - starts)[part]
        edges: Indexes = bounded_search(codes, targets, low, high, stop) - low + starts[part]
        return edges


class _Groups(NamedTuple):
    """Peer groups in order.

    Attributes:
        starts: each group's first place.
        stops: the place past its last one.
        own: the group of every row of the stretch.
        low: the first group read for each segment.
        high: the last one.
    """

    starts: Indexes
    stops: Indexes
    own: Indexes
    low: Indexes
    high: Indexes


def _joined(starts: Indexes, stops: Indexes) -> list[tuple[int, int]]:
    """The ranges that are not empty; those that follow on each other as one."""
    some = np.flatnonzero(starts < stops)
    starts, stops = starts[some], stops[some]
    if len(starts) == 0:
        return []
    cuts = np.flatnonzero(starts[1:] != stops[:-1]) + 1
    begins = np.concatenate([[0], cuts])
    ends = np.append(cuts, len(starts)) - 1
    return list(zip(starts[begins].tolist(), stops[ends].tolist(), strict=True))
