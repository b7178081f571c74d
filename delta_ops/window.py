"""Window functions: every input row with the values of some functions over one window.

Law: the rows are held in the order of the window, so a row's value is worked out from its place
and from the rows of its frame. A step finds the places of the changed rows by binary search, takes
the stretches of rows whose frames meet a change (`window_reach`), works the functions out over them
before and after, and puts out the rows whose values differ, besides the changed rows themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from ivm.delta_ops.key_forms import has_forms
from ivm.delta_ops.operator import Fetch, Operator, Strategy
from ivm.delta_ops.window_frame import RangeKey
from ivm.delta_ops.window_function import WindowFunction
from ivm.delta_ops.window_reach import Changed
from ivm.delta_ops.window_recompute import Recomputed
from ivm.delta_ops.window_stretch import Pair, Segments, Stretch, WindowOrder
from ivm.storage.at_places import AtPlaces
from ivm.storage.codes import same_key, same_row
from ivm.storage.column import Column, Indexes, Mask, concat, empty_column
from ivm.storage.marks import PeerGroups
from ivm.storage.ordering import OrderKey
from ivm.storage.sorted_rows import SortedRows, demand_present, sorted_sum
from ivm.storage.types import ColumnType
from ivm.storage.zset import ZSet, empty

_CHUNK = 1 << 17


class Window(Operator):
    """Functions over one window; the output has their columns behind the input's.

    Args:
        inputs: the input's types, all orderable.
        partition: positions of the PARTITION BY columns; none for one partition of all rows.
        order: the ORDER BY; where the functions look at places, ties are broken by all columns.
        functions: see `WindowFunction`.
        range_key: what distances of RANGE frames are added to, if there are any.
        reproducible: DuckDB's answer has the same bits.
    """

    strategy: ClassVar[Strategy] = "indexed"
    why: ClassVar[str] = "the rows whose frames meet the change, by their places in order"
    stateful: ClassVar[bool] = True

    def __init__(
        self,
        inputs: Sequence[ColumnType],
        partition: Sequence[int],
        order: Sequence[OrderKey],
        functions: Sequence[WindowFunction],
        range_key: RangeKey | None = None,
        *,
        reproducible: bool = True,
    ) -> None:
        super().__init__([*inputs, *[f.type for f in functions]])
        self._inputs = tuple(inputs)
        self._order = WindowOrder(inputs, partition, order)
        self._functions = tuple(functions)
        self._range_key = range_key
        self.reproducible = reproducible and not has_forms(inputs)
        self._before = self._after = self._of([])

    @property
    def whole(self) -> bool:
        """DuckDB works all rows out again at every change."""
        alone = not self._order.partition
        return alone and any(isinstance(f, Recomputed) and f.reach.whole for f in self._functions)

    def _of(self, chunks: Sequence[ZSet]) -> SortedRows:
        return SortedRows.build(self._inputs, self._order.terms, chunks)

    # Stepping

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        (delta,) = inputs
        before = self._before
        rows, weights = sorted_sum(delta, self._order.terms)
        if len(weights) == 0:
            return empty(self.types)
        at = self._places(rows, weights)
        self._after = before.changed(rows, at, weights)
        changed = self._changed(rows, at, weights)
        old, new = self._segments(changed, weights)
        old, new = self._shown(before, old), self._shown(self._after, new)
        return self._difference(changed, weights, old, new)

    def _shown(self, rows: SortedRows, segments: Segments) -> Segments:
        """The part of each stretch that is put out, from its beginning."""
        return segments

    def _places(self, rows: Sequence[Column], weights: Indexes) -> Indexes:
        """Equal rows come behind those that are there, and go from their end."""
        high = self._before.find_all(rows, len(weights), True)
        gone = np.flatnonzero(weights < 0)
        if len(gone):
            taken = [c.take(gone) for c in rows]
            demand_present(self._before, taken, high[gone], weights[gone])
        return high + np.minimum(weights, 0)

    def _changed(self, rows: Sequence[Column], at: Indexes, weights: Indexes) -> Changed:
        gone = -np.minimum(weights, 0)
        return Changed(rows, at, gone, *self._partitions(rows, len(at)))

    def _partitions(self, rows: Sequence[Column], count: int) -> tuple[Indexes, Indexes, Indexes]:
        """The range of places of each row's partition, and its number."""
        own, before = self._order.partition_columns, self._before
        part = np.zeros(count, np.int64)
        if not own:
            return part, np.full(count, len(before)), part
        columns, every = [rows[i] for i in own], np.arange(count - 1)
        types = [self._inputs[i] for i in own]
        part[1:] = np.cumsum(~same_key(columns, every, columns, every + 1, types))
        chosen = _firsts(part)
        ones = {i: rows[i].take(chosen) for i in own}
        first, last = [
            before.find_all(ones, len(chosen), right, self._order.partition)[part]
            for right in (False, True)
        ]
        return first, last, part

    # What a change concerns

    def _segments(self, changed: Changed, weights: Indexes) -> tuple[Segments, Segments]:
        """The stretches concerned, in places before and after the change."""
        low, high = changed.at.copy(), changed.at + changed.gone
        part = changed.part
        for function in self._functions:
            reach = self._reach(function, changed, weights)
            low, high = np.minimum(low, reach[0]), np.maximum(high, reach[1])
        reach_high = np.maximum.accumulate(high)
        reach_low = np.minimum.accumulate(low[::-1])[::-1]  # a later row may reach back over many
        apart = (reach_low[1:] > reach_high[:-1]) | (part[1:] != part[:-1])
        begins = np.concatenate([[0], np.flatnonzero(apart) + 1])
        ends = np.append(begins[1:], len(low))
        start = np.minimum.reduceat(low, begins)
        stop = np.maximum.reduceat(high, begins)
        moved = np.concatenate([[0], np.cumsum(weights)])
        first, last = changed.first[begins], changed.last[begins]
        outer = part.searchsorted(part[begins]), part.searchsorted(part[begins], "right")
        old = Segments(first, last, start, stop)
        new = Segments(
            first + moved[outer[0]],
            last + moved[outer[1]],
            start + moved[begins],
            stop + moved[ends],
        )
        return old, new

    def _reach(self, function: WindowFunction, changed: Changed, weights: Indexes) -> Pair:
        nothing = changed.at, changed.at + changed.gone
        if function.settled:
            moved = self._unsettled(function, changed, weights)
            return _chosen(moved, (changed.first, changed.last), nothing)
        given = self._before, self._order, self._range_key
        reach = function.reached(changed, *given)
        if function.edge == "first":
            return _chosen(changed.at == changed.first, reach, nothing)
        if function.edge == "last":
            return _chosen(changed.at + changed.gone == changed.last, reach, nothing)
        return reach

    def _unsettled(self, function: WindowFunction, changed: Changed, weights: Indexes) -> Mask:
        """Rows of the delta whose partition's one value changes."""
        part = changed.part
        begins = _firsts(part)
        moved = np.concatenate([[0], np.cumsum(weights)])
        ends = np.append(begins[1:], len(part))
        first, last = changed.first[begins], changed.last[begins]
        now_first, now_last = first + moved[begins], last + moved[ends]
        both = np.flatnonzero((first < last) & (now_first < now_last))
        result = np.zeros(len(begins), np.bool_)
        if len(both):
            was = Segments(first[both], last[both], first[both], first[both] + 1)
            now_first, now_last = now_first[both], now_last[both]
            now = Segments(now_first, now_last, now_first, now_first + 1)
            old = function.evaluate(self._stretch(self._before, was))
            new = function.evaluate(self._stretch(self._after, now))
            every = np.arange(len(both))
            result[both] = ~same_row([old], every, [new], every, [function.type])
        return result[part]

    # Output

    def _stretch(self, rows: SortedRows, segments: Segments) -> Stretch:
        return Stretch(rows, self._order, segments, self._range_key)

    def _difference(self, changed: Changed, weights: Indexes, old: Segments, new: Segments) -> ZSet:
        was, now = self._stretch(self._before, old), self._stretch(self._after, new)
        before, after = self._values(was), self._values(now)
        moved = np.cumsum(weights)
        come = np.maximum(weights, 0)
        stayed = np.flatnonzero(~_held(was.places, changed.at, changed.gone))
        still = np.flatnonzero(~_held(now.places, changed.at + moved - weights, come))
        a, b = self._in_pairs(old, was.places[stayed], new, now.places[still])
        stayed, still = stayed[a], still[b]
        types = [f.type for f in self._functions]
        same = np.ones(len(stayed), np.bool_)
        if len(stayed):
            same = same_row(before, stayed, after, still, types)
        gone = _all_but(len(was), stayed[same])
        fresh = _all_but(len(now), still[same])
        return self._emitted(was, before, gone, now, after, fresh)

    def _in_pairs(self, old: Segments, was: Indexes, new: Segments, now: Indexes) -> Pair:
        """Which of the rows that stay, given by their places, are put out before and after."""
        every = np.arange(len(was))
        return every, every

    def _emitted(
        self,
        was: Stretch,
        before: list[Column],
        gone: Indexes,
        now: Stretch,
        after: list[Column],
        fresh: Indexes,
    ) -> ZSet:
        old = AtPlaces(was.rows, was.places[gone])
        new = AtPlaces(now.rows, now.places[fresh])
        columns = [concat([old[i], new[i]]) for i in range(len(self._inputs))]
        pairs = zip(before, after, strict=True)
        columns += [concat([a.take(gone), b.take(fresh)]) for a, b in pairs]
        weights = np.ones(len(gone) + len(fresh), np.int64)
        weights[: len(gone)] = -1
        return ZSet(tuple(columns), weights)

    def _values(self, stretch: Stretch) -> list[Column]:
        if len(stretch) == 0:
            return [empty_column(function.type) for function in self._functions]
        return [function.evaluate(stretch) for function in self._functions]

    def commit(self) -> None:
        self._before = self._after

    def rollback(self) -> None:
        self._after = self._before

    # Hydrating

    def hydrate(self, inputs: Fetch) -> None:
        self._before = self._after = self._of(list(inputs(0)))

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        rows = self._before
        if not len(rows):
            return
        first = self._first_places(rows)
        last = np.append(first[1:], len(rows))
        begin = 0
        while begin < len(first):
            end = int(np.searchsorted(last, first[begin] + _CHUNK, "right"))
            end = max(end, begin + 1)
            part = slice(begin, end)
            segments = Segments(first[part], last[part], first[part], last[part])
            stretch = self._stretch(rows, self._shown(rows, segments))
            columns = [stretch.own[i] for i in range(len(self._inputs))]
            values = self._values(stretch)
            yield ZSet((*columns, *values), np.ones(len(stretch), np.int64))
            begin = end

    def _first_places(self, rows: SortedRows) -> Indexes:
        """The first place of every partition."""
        groups = PeerGroups(rows, self._order.partition)
        return groups.starts(np.arange(len(groups)))

    def describe(self) -> str:
        return f"Window(per {list(self._order.partition_columns)})"

    def state_rows(self) -> int:
        return len(self._before)

    def state_bytes(self) -> int:
        return self._before.nbytes


class RecomputedWindow(Window):
    """A `Window` with functions that only DuckDB knows."""

    strategy: ClassVar[Strategy] = "group recompute"
    why: ClassVar[str] = "DuckDB's own over the rows whose frames meet the change"


def _firsts(part: Indexes) -> Indexes:
    """The first row of each partition, of rows in order."""
    return np.flatnonzero(np.diff(part, prepend=-1))


def _chosen(mask: Mask, pair: Pair, other: Pair) -> Pair:
    low, high = [np.where(mask, a, b) for a, b in zip(pair, other, strict=True)]
    return low, high


def _held(places: Indexes, starts: Indexes, counts: Indexes) -> Mask:
    """Which places lie in one of the ranges (ascending, apart)."""
    some = np.flatnonzero(counts)
    if not len(some):
        return np.zeros(len(places), np.bool_)
    starts, stops = starts[some], (starts + counts)[some]
    number = starts.searchsorted(places, "right") - 1
    held: Mask = (number >= 0) & (places < stops[number])
    return held


def _all_but(count: int, rows: Indexes) -> Indexes:
    mask = np.ones(count, np.bool_)
    mask[rows] = False
    return np.flatnonzero(mask)
