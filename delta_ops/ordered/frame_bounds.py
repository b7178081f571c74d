"""Segments of partitions in order, and the ranks at which the frames of their rows begin and end.

Law: ranks are those of the whole sequence of rows, so the frames of a few rows are found without
reading the others: ROWS by counting, RANGE and GROUPS by binary search.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ivm.delta_ops.ordered.frame import Frame, RangeKey
from ivm.delta_ops.ordered.key_search import RangeKeys, keys_near, keys_of
from ivm.storage.ordered.gather import RowSlice
from ivm.storage.ordered.rank_select import PeerGroups
from ivm.storage.ordered.sorted_rows import SortedRows
from ivm.storage.values.column import Column, FixedColumn, Indexes
from ivm.storage.values.key_codes import same_key
from ivm.storage.values.ordering.order import Columns, OrderKey, OrderTerm, order_terms
from ivm.storage.values.ordering.ranges import begins_of, clipped, expand, offsets
from ivm.storage.values.types import ColumnType

Pair = tuple[Indexes, Indexes]

_NONE = np.iinfo(np.int64).max


class WindowOrder:
    """The partition and order of a window over rows of given types.

    Attributes:
        types: of the rows.
        terms: partition, order, then all other columns, then bits.
        partition: the number of the partition's terms.
        peers: the number of first terms in which peers agree.
        keys: the order's own columns.
    """

    def __init__(
        self, types: Sequence[ColumnType], partition: Sequence[int], order: Sequence[OrderKey]
    ) -> None:
        self.types = tuple(types)
        columns = list(dict.fromkeys(partition))
        own = [key for key in order if key.column not in columns]
        terms = [*[OrderKey(c, False, False) for c in columns], *own]
        self.terms: tuple[OrderTerm, ...] = order_terms(self.types, terms)
        self.partition = len(columns)
        self.partition_columns = tuple(columns)
        self.peers = len(terms)
        self.keys = tuple([key.column for key in own])


class Segments(NamedTuple):
    """Segments of partitions: the ranks of each partition's begin and end, and of the segment's."""

    first: Indexes
    last: Indexes
    start: Indexes
    stop: Indexes


class FrameExtent(NamedTuple):
    """The range of ranks, per segment, in which the bounded ends of all frames lie.

    Attributes:
        rows: of these ranges.
    """

    starts: Indexes
    stops: Indexes
    rows: RowSlice


class _Taken:
    """Columns of which some rows are taken."""

    def __init__(self, columns: Columns, rows: Indexes) -> None:
        self._columns, self._rows = columns, rows

    def __getitem__(self, number: int) -> Column:
        return self._columns[number].take(self._rows)


class FrameRows:
    """The rows of some segments, and the frames of these rows.

    Args:
        rows: all rows.
        order: the window's.
        segments: disjoint, in order; of one partition there may be several.
        range_key: the key to which RANGE distances are added.
    """

    def __init__(
        self,
        rows: SortedRows,
        order: WindowOrder,
        segments: Segments,
        range_key: RangeKey | None = None,
    ) -> None:
        some = (segments.start < segments.stop).nonzero()[0]
        if len(some) < len(segments.start):
            segments = Segments(*[part[some] for part in segments])
        self.rows = rows
        self.order = order
        self.segments = segments
        self._range_key = range_key
        self.segment, self.ranks = expand(segments.start, segments.stop)
        self.first, self.last = segments.first[self.segment], segments.last[self.segment]
        self._own: RowSlice | None = None
        self._groups: PeerGroups | None = None
        self._group: Indexes | None = None
        self._peers: Pair | None = None
        self._pieces: dict[Frame, list[Pair]] = {}
        self._around: dict[Frame, FrameExtent] = {}

    def __len__(self) -> int:
        return len(self.ranks)

    @property
    def own(self) -> RowSlice:
        """The columns of the segments' rows."""
        if self._own is None:
            self._own = RowSlice(self.rows, self.ranks)
        return self._own

    # Peers and groups

    @property
    def groups(self) -> PeerGroups:
        """The groups of peers of all rows."""
        if self._groups is None:
            self._groups = PeerGroups(self.rows, self.order.peers)
        return self._groups

    def group(self) -> Indexes:
        """The number of each row's group."""
        if self._group is None:
            self._group = self.groups.of(self.ranks)
        return self._group

    def peers(self) -> Pair:
        """The rank of each row's first peer, and the one past its last."""
        if self._peers is None:
            self._peers = self._found_peers()
        return self._peers

    def _found_peers(self) -> Pair:
        order, (first, last, start, stop) = self.order, self.segments
        columns = [term.column for term in order.terms[order.partition : order.peers]]
        if not columns:
            return self.first, self.last
        low, high = np.maximum(start - 1, first), np.minimum(stop + 1, last)  # and their neighbours
        part, ranks = expand(low, high)
        around = RowSlice.ranges(self.rows, low, high)
        keys, every = [around[i] for i in columns], np.arange(len(ranks) - 1)
        begins = np.ones(len(ranks), np.bool_)
        begins[1:] = ~same_key(keys, every, keys, every + 1, [order.types[i] for i in columns])
        begins[1:] |= part[1:] != part[:-1]
        group, heads = begins.cumsum() - 1, begins.nonzero()[0]
        firsts, lasts = ranks[heads], np.append(ranks[heads[1:] - 1], high[-1] - 1)
        shift = offsets(high - low) - low
        head, tail = group[start + shift], group[stop - 1 + shift]
        some = ((low < start) & (head == group[low + shift])).nonzero()[0]
        if len(some):
            outer = RowSlice(self.rows, start[some])
            firsts[head[some]] = self.rows.find_all(outer, len(some), False, order.peers)
        some = ((stop < high) & (tail == group[high - 1 + shift])).nonzero()[0]
        if len(some):
            outer = RowSlice(self.rows, stop[some] - 1)
            lasts[tail[some]] = self.rows.find_all(outer, len(some), True, order.peers) - 1
        number = group[self.ranks + shift[self.segment]]
        return firsts[number], lasts[number] + 1

    # Frames

    def pieces(self, frame: Frame) -> list[Pair]:
        """The rows of each frame as ranges of ranks, in order and apart from each other."""
        known = self._pieces.get(frame)
        if known is None:
            known = self._pieces[frame] = self._cut_out(frame)
        return known

    def around(self, frame: Frame) -> FrameExtent:
        """The ranks of the frames' rows, without those that only an unbounded end adds."""
        known = self._around.get(frame)
        if known is None:
            starts, stops = self._halo(frame, self.pieces(frame))
            known = FrameExtent(starts, stops, RowSlice.ranges(self.rows, starts, stops))
            self._around[frame] = known
        return known

    def _halo(self, frame: Frame, pieces: list[Pair]) -> Pair:
        first, _, start, stop = self.segments
        begins = offsets(stop - start)
        if frame.start is not None and frame.end is not None:
            lows, highs = pieces[0][0], pieces[-1][1]
            return np.minimum.reduceat(lows, begins), np.maximum.reduceat(highs, begins)
        low, high = np.full(len(first), _NONE), np.full(len(first), -1)
        for cut in [edge for piece in pieces for edge in piece]:
            lows, highs = cut, cut
            if frame.start is None:
                lows = np.where(cut == self.first, _NONE, cut)
                highs = np.where(cut == self.first, -1, highs)
            if frame.end is None:
                lows = np.where(cut == self.last, _NONE, lows)
                highs = np.where(cut == self.last, -1, highs)
            low = np.minimum(low, np.minimum.reduceat(lows, begins))
            high = np.maximum(high, np.maximum.reduceat(highs, begins))
        none = high < low
        return np.where(none, first, low), np.where(none, first, high)

    def bounds(self, frame: Frame) -> Pair:
        """The first and past-the-last rank of each frame, before EXCLUDE."""
        if frame.kind == "range" and (frame.start or frame.end):
            start, stop = self._range_edges(frame)
        else:
            edge = self._rows_edge if frame.kind == "rows" else self._groups_edge
            start = self.first if frame.start is None else edge(int(frame.start), False)
            stop = self.last if frame.end is None else edge(int(frame.end), True)
        return start, np.maximum(start, stop)

    def _cut_out(self, frame: Frame) -> list[Pair]:
        start, stop = self.bounds(frame)
        if not frame.exclude:
            return [(start, stop)]
        here = self.ranks
        low, high = (here, here + 1) if frame.exclude == "row" else self.peers()
        low, high = clipped(low, start, stop), clipped(high, start, stop)
        if frame.exclude != "ties":
            return [(start, low), (high, stop)]
        own = clipped(here, start, stop), clipped(here + 1, start, stop)
        return [(start, low), own, (high, stop)]

    def _rows_edge(self, distance: int, stop: bool) -> Indexes:
        return clipped(self.ranks + (distance + stop), self.first, self.last)

    def _groups_edge(self, distance: int, stop: bool) -> Indexes:
        if distance == 0:
            return self.peers()[stop]
        wanted = self.group() + (distance + stop)
        edge = self.groups.starts(np.maximum(wanted, 0))
        return clipped(edge, self.first, self.last)

    def _range_edges(self, frame: Frame) -> Pair:
        assert self._range_key is not None
        keys = self.own[self._range_key.column]
        assert isinstance(keys, FixedColumn)
        if keys.valid is None:
            return self._searched(keys, np.arange(len(self)), frame)
        unbounded = frame.start is None, frame.end is None
        ends = zip(unbounded, (self.first, self.last), self.peers(), strict=True)
        start, stop = [outer if open_ else peers.copy() for open_, outer, peers in ends]
        some = keys.valid.nonzero()[0]
        if len(some):
            start[some], stop[some] = self._searched(keys.take(some), some, frame)
        return start, stop

    def _searched(self, keys: FixedColumn, rows: Indexes, frame: Frame) -> Pair:
        """The frames of the given rows of the segments, whose keys are not NULL.

        The outermost edges in a segment are found among all rows, the others between them. (Months
        later, times of the 30th and the 31st may have the opposite order.)
        """
        key, ranges, begins = self._range_key, self.segments, np.zeros(1, np.int64)
        assert key is not None
        targets = self._targets(FixedColumn(keys.values), frame, key)
        if len(ranges.first) > 1:
            begins = begins_of(self.segment[rows])
            own = self.segment[rows[begins]]
            ranges = Segments(*[part[own] for part in ranges])
        least, most = [
            f.reduceat(functools.reduce(f, targets.values()), begins)
            for f in (np.minimum, np.maximum)
        ]
        found = keys_near(self.rows, key, ranges, least, most)
        if found is None:
            found = self._keys_between(least, most, rows[begins], key)
        edges = [self.first[rows], self.last[rows]]
        for stop, wanted in targets.items():
            edges[stop] = found.find(wanted, begins, bool(stop))
        return edges[0], edges[1]

    def _targets(self, keys: FixedColumn, frame: Frame, key: RangeKey) -> dict[int, Indexes]:
        """The codes, ascending, that frames begin with (0) and end with (1), where bounded."""
        targets = {}
        for stop, distance in enumerate((frame.start, frame.end)):
            if distance is not None:
                codes = key.targets(keys, distance, bool(stop))
                targets[stop] = ~codes if key.descending else codes
        return targets

    def _keys_between(
        self, least: Indexes, most: Indexes, around: Indexes, key: RangeKey
    ) -> RangeKeys:
        """The keys from one code to another in the partition of each of some rows."""
        codes, count = np.concatenate([least, most]), len(least)
        beside = _Taken(self.own, np.concatenate([around, around]))
        right = np.arange(2 * count) >= count
        codes = ~codes if key.descending else codes
        ranks = key.ranks(self.rows, beside, codes, self.order.partition, right)
        found = keys_of(self.rows, key, ranks[:count], ranks[count:])
        assert found is not None  # rows between two keys have no NULL keys
        return found
