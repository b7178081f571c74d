"""ORDER BY … LIMIT and ROW_NUMBER() ≤ k: the first live entries of each partition.

Law: the output is a function of the first offset + limit rows of a partition (duplicates counted)
in the order of the ORDER BY, then of all columns; a step compares them before and after for the
partitions touched. So ties are broken the same way after any history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from ivm.delta_ops.key_forms import has_forms
from ivm.delta_ops.operator import Fetch, Operator, Strategy
from ivm.delta_ops.partitions import Partitions
from ivm.storage.arrangement import Arrangement, Matches
from ivm.storage.column import Column, FixedColumn, Indexes
from ivm.storage.keys import consolidate
from ivm.storage.ordering import OrderKey
from ivm.storage.types import ColumnType, type_of
from ivm.storage.zset import ZSet, add, empty

_NO_LIMIT = 1 << 60


class TopK(Operator):
    """The first rows of each partition.

    Args:
        inputs: the input's types.
        partition: positions of the PARTITION BY columns; none for LIMIT.
        order: the ORDER BY.
        limit: rows to keep after the offset; None for all.
        offset: rows to pass over.
        rank_column: put ROW_NUMBER() (BIGINT, counted from 1 before the offset) out as the last
            column.
    """

    strategy: ClassVar[Strategy] = "indexed"
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
        self._partition = tuple(partition)
        self._offset = offset
        self._end = offset + (_NO_LIMIT if limit is None else limit)
        self._rank_column = rank_column
        self.reproducible = not has_forms(inputs)

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        (delta,) = inputs
        state = self._state
        state.stage(delta)
        keys = state.changed(delta)
        old, new = self._first(state.before, keys), self._first(state.after, keys)
        return consolidate(add([old.negate(), new]), self.types)

    def _first(self, rows: Arrangement, keys: Sequence[Column]) -> ZSet:
        """The output's rows of the given partitions."""
        if self._end == self._offset or not len(keys[0]):
            return empty(self.types)
        matches = rows.first(keys, self._end)
        start = _starts(matches)
        weights = matches.rows.weights
        low, high = np.maximum(start, self._offset), np.minimum(start + weights, self._end)
        kept = np.flatnonzero(high > low)
        found = self._state.plain(matches.rows.take(kept))
        if self._rank_column:
            return _ranked(found, low[kept], high[kept])
        return ZSet(found.columns, high[kept] - low[kept])

    def commit(self) -> None:
        self._state.commit()

    def rollback(self) -> None:
        self._state.rollback()

    def hydrate(self, inputs: Fetch) -> None:
        self._state.build(inputs(0))

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        chunks = [c for c in inputs(0) if len(c)]
        if chunks:
            yield self._first(self._state.before, self._state.changed(add(chunks)))

    def describe(self) -> str:
        return f"TopK({self._offset}…{self._end} per {list(self._partition)})"

    def state_rows(self) -> int:
        return self._state.before.row_count

    def state_bytes(self) -> int:
        return self._state.before.nbytes


def _starts(matches: Matches) -> Indexes:
    """How many rows (by weight) stand before each in its partition."""
    weights, probe = matches.rows.weights, matches.probe
    before = np.cumsum(weights) - weights
    return before - before[np.searchsorted(probe, probe)]


def _ranked(rows: ZSet, low: Indexes, high: Indexes) -> ZSet:
    """Each row once per place it takes, with the place (from 1) as the last column."""
    counts = high - low
    which = np.repeat(np.arange(len(rows)), counts)
    nth = np.arange(len(which)) - (np.cumsum(counts) - counts)[which]
    columns = [c.take(which) for c in rows.columns]
    return ZSet((*columns, FixedColumn(low[which] + nth + 1)), np.ones(len(which), np.int64))
