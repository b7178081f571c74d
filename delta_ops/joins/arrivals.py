"""Arrivals: the rows that come to a relation, and what is made of each of them once.

Law: what is made of a row, as the tables are in the step in which it comes, stays until the row
goes, and goes with it. A row that is replaced by an equal one stays; one that is changed goes, and
comes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ivm.delta_ops.operator import Fetch, Operator, Strategy
from ivm.delta_ops.state.partitions import Partitions
from ivm.storage.values.column import Indexes
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.key_codes import same_row
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import Weights, ZSet, add


class Arrivals(Operator):
    """The rows that a step brings; those that go are left out."""

    why: ClassVar[str] = "the rows that come, not those that go"
    consolidated = True

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        rows = consolidate(inputs[0], self.types)
        return rows.filter(rows.weights > 0)


class Arrived(Operator):
    """The rows made of those of a relation as they arrived.

    Args:
        types: of the rows that are made, the first input, and of the output.
        key: positions in them of a key of the relation.
        origin: types of the relation, whose changes are the second input.
        origin_key: positions of that key in it.
        counted: rows may have equal keys, and one at most is made of each: as many go as theirs.
    """

    strategy: ClassVar[Strategy] = "indexed"
    why: ClassVar[str] = "made when a row comes, removed when it goes"
    stateful: ClassVar[bool] = True
    kept: ClassVar[bool] = True
    consolidated = True

    def __init__(
        self,
        types: Sequence[ColumnType],
        key: Sequence[int],
        origin: Sequence[ColumnType],
        origin_key: Sequence[int],
        *,
        counted: bool,
    ) -> None:
        super().__init__(types)
        self._counted = counted
        self._origin, self._origin_key = tuple(origin), tuple(origin_key)
        self._rows = Partitions(self.types, key)
        self.parts = (self._rows,)

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        made, origin = inputs
        changed = consolidate(origin, self._origin)
        gone = changed.filter(changed.weights < 0)
        delta = consolidate(add([made, self._made_of(gone).negate()]), self.types)
        self._rows.stage(delta)
        return delta

    def _made_of(self, gone: ZSet) -> ZSet:
        """The rows that were made of rows which go."""
        keys = [gone.columns[i] for i in self._origin_key]
        probe, rows = self._rows.before.lookup_live(keys)
        rows = self._rows.plain(rows)
        if not self._counted:
            return rows
        held = [rows.columns[i] for i in self._rows.layout.key]  # with the same bits, too
        same = same_row(keys, probe, held, np.arange(len(probe)), self._rows.layout.key_types)
        return _as_many(probe[same], rows.filter(same), -gone.weights)

    def hydrate(self, inputs: Fetch) -> None:
        self._rows.build(inputs(2))

    def describe(self) -> str:
        return "Arrived"

    def state_rows(self) -> int:
        return self._rows.row_count


def _as_many(probe: Indexes, rows: ZSet, wanted: Weights) -> ZSet:
    """The first of the rows that were found for each key, as many as are wanted of it."""
    order = np.argsort(probe, kind="stable")
    probe, rows = probe[order], rows.take(order)
    before = np.cumsum(rows.weights) - rows.weights
    first = np.searchsorted(probe, probe)
    taken = np.clip(wanted[probe] - (before - before[first]), 0, rows.weights)
    return ZSet(rows.columns, taken).filter(taken > 0)
