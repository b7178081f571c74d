"""Window functions: every input row with the values of some functions over one window.

Law: the rows are held in the order of the window, so a row's value is a function of its rank and of
the rows of its frame. A step finds the ranks of the changed rows by binary search, takes the
segments of rows whose frames meet a change (`affected_rows`), evaluates the functions over them
before and after, and emits the rows whose values differ, besides the changed rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from ivm.delta_ops.operator import Fetch, Operator, Strategy
from ivm.delta_ops.ordered.affected_rows import ChangedRows
from ivm.delta_ops.ordered.duck_window import DuckWindow
from ivm.delta_ops.ordered.frame import RangeKey
from ivm.delta_ops.ordered.frame_bounds import FrameRows, Pair, Segments, WindowOrder
from ivm.delta_ops.ordered.function import WindowFunction
from ivm.delta_ops.state.representatives import has_representatives
from ivm.storage.ordered.gather import RowSlice
from ivm.storage.ordered.rank_select import PeerGroups
from ivm.storage.ordered.sorted_rows import SortedRows, demand_present, sorted_sum
from ivm.storage.values.column import Column, Indexes, Mask, concat, empty_column
from ivm.storage.values.key_codes import same_key, same_row
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.ordering.ranges import begins_of, total
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, empty

_CHUNK = 1 << 17


class Window(Operator):
    """Functions over one window; the output has their columns after the input's.

    Args:
        inputs: the input's types, all orderable.
        partition: positions of the PARTITION BY columns; none for one partition of all rows.
        order: the ORDER BY; where the functions depend on ranks, ties are broken by all columns.
        functions: see `WindowFunction`.
        range_key: the key to which distances of RANGE frames are added, if there are any.
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
        self.reproducible = reproducible and not has_representatives(inputs)
        self._before = self._after = self._of([])

    @property
    def whole(self) -> bool:
        """Returns whether DuckDB computes all rows again at every change."""
        alone = not self._order.partition
        return alone and any(isinstance(f, DuckWindow) and f.reach.whole for f in self._functions)

    def _of(self, chunks: Sequence[ZSet]) -> SortedRows:
        return SortedRows.build(self._inputs, self._order.terms, chunks)

    # Stepping

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        (delta,) = inputs
        before = self._before
        rows, weights = sorted_sum(delta, self._order.terms)
        if len(weights) == 0:
            return empty(self.types)
        changed = self._changed(rows, weights)
        self._after = before.changed(rows, changed.at, changed.end, weights)
        return self._difference(changed, *self._segments(changed))

    def _shown(self, rows: SortedRows, segments: Segments) -> Segments:
        """The part of each segment that is emitted, from its beginning."""
        return segments

    def _changed(self, rows: Sequence[Column], weights: Indexes) -> ChangedRows:
        """The ranks of the delta's rows: rows are added and removed at the end of equal ones."""
        end = self._before.find_all(rows, len(weights), True)
        come = np.maximum(weights, 0)
        gone = (weights < 0).nonzero()[0]
        if len(gone):
            taken = [c.take(gone) for c in rows]
            demand_present(self._before, taken, end[gone], weights[gone])
        # A removal begins |weight| ranks before the end; an addition is inserted at the end.
        at = end + (weights - come)
        # moved[i] is the shift of later rows by the delta's first i rows.
        moved = np.zeros(len(at) + 1, np.int64)
        weights.cumsum(out=moved[1:])
        return ChangedRows(rows, at, end, come, *self._partitions(rows, len(at)), moved, {})

    def _partitions(self, rows: Sequence[Column], count: int) -> tuple[Indexes, Indexes, Indexes]:
        """The range of ranks of each row's partition, and the partition's number."""
        own, before = self._order.partition_columns, self._before
        part = np.zeros(count, np.int64)
        if not own:
            return part, np.full(count, len(before)), part
        ones = {i: rows[i] for i in own}
        if count == 1:
            return *before.find_ranges(ones, 1, self._order.partition), part
        # The rows are sorted, so a partition begins where a row differs from the one before it;
        # only the first row of each is searched.
        columns, every = [rows[i] for i in own], np.arange(count - 1)
        types = [self._inputs[i] for i in own]
        (~same_key(columns, every, columns, every + 1, types)).cumsum(out=part[1:])
        chosen = begins_of(part)
        ones = {i: column.take(chosen) for i, column in ones.items()}
        first, last = before.find_ranges(ones, len(chosen), self._order.partition)
        return first[part], last[part], part

    # Affected rows

    def _segments(self, changed: ChangedRows) -> tuple[Segments, Segments]:
        """The affected segments, in ranks before and after the change."""
        low, high, part = changed.at, changed.end, changed.part
        for function in self._functions:
            reach = self._reach(function, changed)
            low, high = np.minimum(low, reach[0]), np.maximum(high, reach[1])
        moved, first, last = changed.moved, changed.first, changed.last
        if len(part) == 1:
            by = moved[1:]
            return Segments(first, last, low, high), Segments(first, last + by, low, high + by)
        # Changed rows whose ranges overlap share a segment, from the lowest to the highest rank.
        begins = _apart(low, high, part)
        ends = np.empty_like(begins)
        ends[:-1], ends[-1] = begins[1:], len(low)
        start = np.minimum.reduceat(low, begins)
        stop = np.maximum.reduceat(high, begins)
        first, last = first[begins], last[begins]
        # A partition shifts by the delta's rows before it, and ends after those in it.
        outer = part.searchsorted(part[begins]), part.searchsorted(part[begins], "right")
        old = Segments(first, last, start, stop)
        new = Segments(
            first + moved[outer[0]],
            last + moved[outer[1]],
            start + moved[begins],
            stop + moved[ends],
        )
        return old, new

    def _reach(self, function: WindowFunction, changed: ChangedRows) -> Pair:
        nothing = changed.at, changed.end
        if function.is_partition_constant:
            moved = self._unsettled(function, changed)
            return _chosen(moved, (changed.first, changed.last), nothing)
        given = self._before, self._order, self._range_key
        reach = function.reached(changed, *given)
        if function.edge == "first":
            return _chosen(changed.at == changed.first, reach, nothing)
        if function.edge == "last":
            return _chosen(changed.end == changed.last, reach, nothing)
        return reach

    def _unsettled(self, function: WindowFunction, changed: ChangedRows) -> Mask:
        """A mask of the delta's rows whose partition's one value changes."""
        part, moved = changed.part, changed.moved
        begins = begins_of(part)
        ends = np.append(begins[1:], len(part))
        first, last = changed.first[begins], changed.last[begins]
        now_first, now_last = first + moved[begins], last + moved[ends]
        # Only a partition with rows before and after has a value to compare, that of its first row.
        both = ((first < last) & (now_first < now_last)).nonzero()[0]
        result = np.zeros(len(begins), np.bool_)
        if len(both):
            was = Segments(first[both], last[both], first[both], first[both] + 1)
            now_first, now_last = now_first[both], now_last[both]
            now = Segments(now_first, now_last, now_first, now_first + 1)
            old = function.evaluate(self._frame_rows(self._before, was))
            new = function.evaluate(self._frame_rows(self._after, now))
            every = np.arange(len(both))
            result[both] = ~same_row([old], every, [new], every, [function.type])
        return result[part]

    # Output

    def _frame_rows(self, rows: SortedRows, segments: Segments) -> FrameRows:
        return FrameRows(rows, self._order, segments, self._range_key)

    def _difference(self, changed: ChangedRows, old: Segments, new: Segments) -> ZSet:
        at, end, come = changed.at, changed.end, changed.come
        taken, given = total(end - at), total(come)
        # If the segments hold nothing but the changed rows, no other row needs comparing.
        alone = taken == total(old.stop - old.start) and given == total(new.stop - new.start)
        old, new = self._shown(self._before, old), self._shown(self._after, new)
        was, now = self._frame_rows(self._before, old), self._frame_rows(self._after, new)
        before, after = self._values(was), self._values(now)
        if alone and len(was) == taken and len(now) == given:
            return self._emitted_alone(changed, before, after)
        fresh_at = at + changed.moved[:-1]
        gone = _held(was.ranks, at, end)
        fresh = _held(now.ranks, fresh_at, fresh_at + come)
        stayed, still = (~gone).nonzero()[0], (~fresh).nonzero()[0]
        both = self._in_pairs(old, was.ranks[stayed], new, now.ranks[still])
        if both is not None:
            stayed, still = stayed[both[0]], still[both[1]]
        # Rows that stayed pair up in order; removed and added ones are emitted in any case.
        gone[:] = fresh[:] = True
        if len(stayed):
            types = [f.type for f in self._functions]
            gone[stayed] = fresh[still] = ~same_row(before, stayed, after, still, types)
        changes = gone.nonzero()[0], fresh.nonzero()[0]
        return self._emitted(was, before, changes[0], now, after, changes[1])

    def _in_pairs(self, old: Segments, was: Indexes, new: Segments, now: Indexes) -> Pair | None:
        """The rows that stay, given by rank, to compare in pairs before and after; None for all."""
        return None

    def _emitted_alone(
        self, changed: ChangedRows, before: list[Column], after: list[Column]
    ) -> ZSet:
        """The output delta of changed rows that affect no others."""
        rows = np.arange(len(changed.at))
        gone = rows.repeat(changed.end - changed.at)
        order = np.concatenate([gone, rows.repeat(changed.come)])
        columns = [column.take(order) for column in changed.rows]
        columns += [concat(pair) for pair in zip(before, after, strict=True)]
        weights = np.ones(len(order), np.int64)
        weights[: len(gone)] = -1
        return ZSet(tuple(columns), weights)

    def _emitted(
        self,
        was: FrameRows,
        before: list[Column],
        gone: Indexes,
        now: FrameRows,
        after: list[Column],
        fresh: Indexes,
    ) -> ZSet:
        rows = RowSlice(was.rows, was.ranks[gone]).followed(RowSlice(now.rows, now.ranks[fresh]))
        columns = [rows[i] for i in range(len(self._inputs))]
        pairs = zip(before, after, strict=True)
        columns += [concat([a.take(gone), b.take(fresh)]) for a, b in pairs]
        weights = np.ones(len(gone) + len(fresh), np.int64)
        weights[: len(gone)] = -1
        return ZSet(tuple(columns), weights)

    def _values(self, frame_rows: FrameRows) -> list[Column]:
        if len(frame_rows) == 0:
            return [empty_column(function.type) for function in self._functions]
        return [function.evaluate(frame_rows) for function in self._functions]

    def commit(self) -> None:
        self._before = self._after

    def rollback(self) -> None:
        self._after = self._before

    # Hydrating

    def hydrate(self, inputs: Fetch) -> None:
        self._before = self._after = self._of(list(inputs(0)))

    def saved(self) -> tuple[Column, ...]:
        return self._before.columns

    def restore(self, saved: tuple[Column, ...]) -> None:
        self._before = self._after = SortedRows.of(self._inputs, self._order.terms, saved)

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
            frame_rows = self._frame_rows(rows, self._shown(rows, segments))
            columns = [frame_rows.own[i] for i in range(len(self._inputs))]
            values = self._values(frame_rows)
            yield ZSet((*columns, *values), np.ones(len(frame_rows), np.int64))
            begin = end

    def _first_places(self, rows: SortedRows) -> Indexes:
        """The first rank of every partition."""
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


def _apart(low: Indexes, high: Indexes, part: Indexes) -> Indexes:
    """The changed rows, in order, whose affected range meets none of an earlier row."""
    # A row begins a segment if no range from it on begins before all earlier ranges have ended.
    reach_high = np.maximum.accumulate(high)
    reach_low = np.minimum.accumulate(low[::-1])[::-1]  # a later row may reach back over many
    apart = np.ones(len(part), np.bool_)
    apart[1:] = (reach_low[1:] > reach_high[:-1]) | (part[1:] != part[:-1])
    return apart.nonzero()[0]


def _chosen(mask: Mask, pair: Pair, other: Pair) -> Pair:
    low, high = [np.where(mask, a, b) for a, b in zip(pair, other, strict=True)]
    return low, high


def _held(ranks: Indexes, starts: Indexes, stops: Indexes) -> Mask:
    """A mask of the ranks in one of the ranges (ascending, apart; some may be empty)."""
    # The ranges before a rank are the first `number` ones; it is held if the latest end is past it.
    number = starts.searchsorted(ranks, "right")
    ends = np.zeros(len(stops) + 1, np.int64)
    np.maximum.accumulate(stops, out=ends[1:])
    held: Mask = ranks < ends[number]
    return held
