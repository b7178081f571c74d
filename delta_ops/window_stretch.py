"""Stretches of partitions in order, and where the frames of their rows begin and end.

Law: every place is one of the whole sequence of rows, so the frames of a few rows are found without
looking at the others: ROWS by counting, RANGE and GROUPS by binary search.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ivm.delta_ops.window_frame import Frame, RangeKey
from ivm.storage.at_places import AtPlaces
from ivm.storage.codes import same_key, word_codes
from ivm.storage.column import FixedColumn, Indexes
from ivm.storage.comparing import bounded_search
from ivm.storage.marks import PeerGroups
from ivm.storage.ordering import OrderKey, Term, order_terms
from ivm.storage.places import begins_of, clipped, expand
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
        some = (segments.start < segments.stop).nonzero()[0]
        if len(some) < len(segments.start):
            segments = Segments(*[part[some] for part in segments])
        self.rows = rows
        self.order = order
        self.segments = segments
        self._range_key = range_key
        self.segment, self.places = expand(segments.start, segments.stop)
        self.first, self.last = segments.first[self.segment], segments.last[self.segment]
        self._own: AtPlaces | None = None
        self._groups: PeerGroups | None = None
        self._group: Indexes | None = None
        self._peers: Pair | None = None
        self._pieces: dict[Frame, list[Pair]] = {}

    def __len__(self) -> int:
        return len(self.places)

    @property
    def own(self) -> AtPlaces:
        """The columns of the stretch's rows."""
        if self._own is None:
            self._own = AtPlaces(self.rows, self.places)
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
            self._group = self.groups.of(self.places)
        return self._group

    def peers(self) -> Pair:
        """Each row's first peer and the place past its last one."""
        if self._peers is None:
            self._peers = self._found_peers()
        return self._peers

    def _found_peers(self) -> Pair:
        order, (first, last, start, stop) = self.order, self.segments
        columns = [term.column for term in order.terms[order.partition : order.peers]]
        if not columns:
            return self.first, self.last
        own, every = [self.own[i] for i in columns], np.arange(len(self) - 1)
        types = [order.types[i] for i in columns]
        begins = np.ones(len(self), np.bool_)
        begins[1:] = ~same_key(own, every, own, every + 1, types)
        begins[(stop - start).cumsum()[:-1]] = True
        number = begins.cumsum() - 1
        heads = begins.nonzero()[0]
        low, high = self.places[heads], np.empty(len(heads), np.int64)
        high[:-1], high[-1] = self.places[heads[1:] - 1] + 1, stop[-1]
        # Peers of a segment's first and last rows may stand outside of it.
        some = (first < start).nonzero()[0]
        if len(some):
            outer = AtPlaces(self.rows, start[some])
            low[low.searchsorted(start[some])] = self.rows.find_all(
                outer, len(some), False, order.peers
            )
        some = (stop < last).nonzero()[0]
        if len(some):
            outer = AtPlaces(self.rows, stop[some] - 1)
            high[high.searchsorted(stop[some])] = self.rows.find_all(
                outer, len(some), True, order.peers
            )
        return low[number], high[number]

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
        low, high = clipped(low, start, stop), clipped(high, start, stop)
        if frame.exclude != "ties":
            return [(start, low), (high, stop)]
        own = clipped(here, start, stop), clipped(here + 1, start, stop)
        return [(start, low), own, (high, stop)]

    def _rows_edge(self, distance: int | float, stop: bool) -> Indexes:
        return clipped(self.places + int(distance) + stop, self.first, self.last)

    def _groups_edge(self, distance: int | float, stop: bool) -> Indexes:
        if distance == 0:
            return self.peers()[stop]
        wanted = self.group() + int(distance) + stop
        edge = self.groups.starts(np.maximum(wanted, 0))
        return clipped(edge, self.first, self.last)

    def _range_edge(self, distance: int | float, stop: bool) -> Indexes:
        if distance == 0:
            return self.peers()[stop]
        assert self._range_key is not None
        keys = self.own[self._range_key.column]
        assert isinstance(keys, FixedColumn)
        if keys.valid is None:
            return self._searched(keys, np.arange(len(self)), distance, stop)
        edge = self.peers()[stop].copy()
        some = keys.valid.nonzero()[0]
        if len(some):
            edge[some] = self._searched(keys.take(some), some, distance, stop)
        return edge

    def _searched(
        self, keys: FixedColumn, rows: Indexes, distance: int | float, stop: bool
    ) -> Indexes:
        """Edges at a distance from the keys (none NULL) of the given rows of the stretch.

        The outermost of a segment are found among all rows, the others between them. (Months later,
        times of the 30th and the 31st may stand the other way round.)
        """
        key = self._range_key
        assert key is not None
        targets = key.targets(FixedColumn(keys.values), distance, stop)
        begins = begins_of(self.segment[rows])
        ordered = ~targets if key.descending else targets
        least, most = [f.reduceat(ordered, begins) for f in (np.minimum, np.maximum)]
        outer = np.concatenate([least, most])
        around = AtPlaces(self.rows, self.places[rows[np.concatenate([begins, begins])]])
        outer = ~outer if key.descending else outer
        found = key.places(self.rows, around, outer, self.order.partition, stop)
        starts, stops = found[: len(begins)], found[len(begins) :]
        between = AtPlaces.ranges(self.rows, starts, stops)[key.column]
        assert isinstance(between, FixedColumn)
        codes = word_codes(between.values, key.type)
        if key.descending:
            codes = ~codes
        if len(begins) == 1:
            return codes.searchsorted(ordered, "right" if stop else "left") + starts
        part = np.arange(len(begins)).repeat(np.append(begins[1:], len(rows)) - begins)
        offsets = (stops - starts).cumsum() - (stops - starts)
        low = offsets[part]
        high = low + (stops - starts)[part]
        edges: Indexes = bounded_search(codes, ordered, low, high, stop) - low + starts[part]
        return edges
