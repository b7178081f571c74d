"""ORDER BY … LIMIT and ROW_NUMBER() ≤ k: the first live entries of each partition.

Law: the output is a function of the first offset + limit rows of a partition (duplicates counted)
in the order of the ORDER BY, then of all columns; a step compares them before and after for the
partitions touched. So ties are broken the same way after any history.

Law of the cached top-k (of the one partition of an ORDER BY … LIMIT): while it is full, a change
all of whose rows come after its last row by the first order key alone leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ivm.delta_ops.operator import Fetch, Operator, Strategy
from ivm.delta_ops.ordered.topk_merge import RankRange, TopKMerge, merge_heads
from ivm.delta_ops.state.partitions import Partitions
from ivm.delta_ops.state.representatives import has_representatives
from ivm.storage.arrangement.arrangement import Matches
from ivm.storage.arrangement.layout import Layout
from ivm.storage.values import thresholds
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask, concat
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.ordering.order import OrderKey, term_codes
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet, add, empty


class CachedTopK:
    """The first rows of the one partition, as the last step left them.

    Args:
        layout: of their arrangement.
        found: at most `size` live rows, in order.
        size: the number of rows when it is full.
    """

    def __init__(self, layout: Layout, found: Matches, size: int) -> None:
        self.found = found
        rows = found.rows
        self._term = layout.terms[0]
        self._full = size > 0 and int(rows.weights.sum()) == size
        self._last = rows.columns[self._term.column].slice(max(len(rows) - 1, 0), len(rows))

    def stands(self, delta: ZSet) -> bool:
        """Returns whether the delta's rows certainly come after the last cached one."""
        if not self._full:
            return False
        codes = term_codes(concat([self._last, delta.columns[self._term.column]]), self._term)
        return bool((codes[1:] > codes[0]).all())


_NO_LIMIT = 1 << 60


class TopK(Operator):
    """The first rows of each partition.

    Args:
        inputs: the input's types.
        partition: positions of the PARTITION BY columns; none for LIMIT.
        order: the ORDER BY.
        limit: rows to keep after the offset; None for all.
        offset: rows to pass over.
        rank_column: the last output column is ROW_NUMBER() (BIGINT, from 1, before the offset).
    """

    strategy: ClassVar[Strategy] = "indexed"
    why: ClassVar[str] = "the first live rows of the touched partitions, before and after"
    stateful: ClassVar[bool] = True
    consolidated = True

    def __init__(
        self,
        inputs: Sequence[ColumnType],
        partition: Sequence[int],
        order: Sequence[OrderKey],
        limit: int | None,
        offset: int = 0,
        *,
        rank_column: bool = False,
    ) -> None:
        super().__init__([*inputs, type_of("BIGINT")] if rank_column else inputs)
        # An empty order still is one: that of all columns.
        self._state = Partitions(inputs, partition, order or [OrderKey(0, False, False)])
        self.parts = (self._state,)
        self._partition = tuple(partition)
        self._offset = offset
        self._end = offset + (_NO_LIMIT if limit is None else limit)
        self._rank_column = rank_column
        self._keeps_head = not partition and limit is not None
        self._head: CachedTopK | None = None
        self._next_head: CachedTopK | None = None
        self.reproducible = not has_representatives(inputs)

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        (delta,) = inputs
        state = self._state
        state.stage(delta)
        if self._end == self._offset or (self._head is not None and self._head.stands(delta)):
            return empty(self.types)
        keys, partition = state.changed(delta)
        before = state.before.first(keys, self._end) if self._head is None else self._head.found
        if len(keys[0]) <= thresholds.TOPK_PARTITIONS:
            after = state.after.first(keys, self._end)
            if self._keeps_head:
                self._next_head = CachedTopK(state.layout, after, self._end)
            if self._rank_column or self._offset:
                return self._difference(stretched(before), stretched(after))
            parts = [state.plain(before.rows).negate(), state.plain(after.rows)]
            return consolidate(add(parts), self.types)
        return self._from_heads(before, delta, keys, partition)

    def _from_heads(
        self, before: Matches, delta: ZSet, keys: Sequence[Column], partition: Indexes
    ) -> ZSet:
        """The output delta, computed without reading the state again where that is possible."""
        state, count = self._state, len(keys[0])
        keyed = state.keyed(delta)
        merged = merge_heads(state.layout, before, keyed, partition, count, self._end)
        sure = (self._moved(merged) & ~merged.unsure[merged.partition]).nonzero()[0]
        rows = merged.rows.take(sure)
        old, new = [RankRange(s.start[sure], s.weights[sure]) for s in (merged.old, merged.new)]
        change = self._difference_of_places(rows, old, new)
        again = merged.unsure.nonzero()[0]
        if not len(again):
            return change
        after = state.after.first([c.take(again) for c in keys], self._end)
        rest = merged.unsure[before.probe].nonzero()[0]
        gone = stretched(Matches(before.probe[rest], before.rows.take(rest)))
        return add([change, self._difference(gone, stretched(after))])

    def _moved(self, merged: TopKMerge) -> Mask:
        """A mask of the rows whose output may change."""
        moved: Mask = merged.old.weights != merged.new.weights
        if self._rank_column or self._offset:
            moved |= merged.old.start != merged.new.start
        return moved

    def _difference(self, old: tuple[ZSet, RankRange], new: tuple[ZSet, RankRange]) -> ZSet:
        parts = [self._shown(*old).negate(), self._shown(*new)]
        return consolidate(add(parts), self.types)

    def _difference_of_places(self, rows: ZSet, old: RankRange, new: RankRange) -> ZSet:
        """The output delta of distinct rows that move from old to new ranks."""
        if self._rank_column:
            return self._difference((rows, old), (rows, new))
        was, now = self._window(old), self._window(new)
        change = np.maximum(now[1] - now[0], 0) - np.maximum(was[1] - was[0], 0)
        kept = change.nonzero()[0]
        return ZSet(self._state.plain(rows.take(kept)).columns, change[kept])

    def _window(self, frame_rows: RankRange) -> tuple[Indexes, Indexes]:
        """The ranks within the limit: from, and up to."""
        low = np.maximum(frame_rows.start, self._offset)
        return low, np.minimum(frame_rows.start + frame_rows.weights, self._end)

    def _shown(self, rows: ZSet, frame_rows: RankRange) -> ZSet:
        """The output's rows for rows of the given ranks in their partitions."""
        low, high = self._window(frame_rows)
        kept = (high > low).nonzero()[0]
        found = self._state.plain(rows.take(kept))
        if self._rank_column:
            return _ranked(found, low[kept], high[kept])
        return ZSet(found.columns, high[kept] - low[kept])

    def commit(self) -> None:
        super().commit()
        self._head = self._next_head

    def rollback(self) -> None:
        super().rollback()
        self._next_head = self._head

    def hydration_key(self, number: int) -> tuple[int, ...]:
        return self._partition

    def hydrate(self, inputs: Fetch) -> None:
        self._state.build(inputs(0))
        self._head = self._next_head = None

    def restore(self, saved: Any) -> None:
        super().restore(saved)
        self._head = self._next_head = None

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        chunks = [c for c in inputs(0) if len(c)]
        if chunks and self._end > self._offset:
            keys, _ = self._state.changed(add(chunks))
            yield self._shown(*stretched(self._state.before.first(keys, self._end)))

    def describe(self) -> str:
        return f"TopK({self._offset}…{self._end} per {list(self._partition)})"

    def state_rows(self) -> int:
        return self._state.row_count


def stretched(matches: Matches) -> tuple[ZSet, RankRange]:
    """The rows, and the ranks (as many as its weight) of each in its partition."""
    weights, probe = matches.rows.weights, matches.probe
    # The weight before a row, less that before the first row of its probe (probes ascend).
    before = np.cumsum(weights) - weights
    start = before - before[np.searchsorted(probe, probe)]
    return matches.rows, RankRange(start, weights)


def _ranked(rows: ZSet, low: Indexes, high: Indexes) -> ZSet:
    """The rows, once per rank, with the ROW_NUMBER (from 1) as the last column."""
    counts = high - low
    which = np.repeat(np.arange(len(rows)), counts)
    nth = np.arange(len(which)) - (np.cumsum(counts) - counts)[which]
    columns = [c.take(which) for c in rows.columns]
    return ZSet((*columns, FixedColumn(low[which] + nth + 1)), np.ones(len(which), np.int64))
