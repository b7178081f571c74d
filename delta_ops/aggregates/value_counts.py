"""The distinct values of every group by their counts, the most frequent first.

Law: the entries of a group are (value, n), one for each value that occurs n > 0 times; a row that
is added or removed replaces the one entry of its value. So the mode of a group is its first entry,
whatever the group's size.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ivm.delta_ops.aggregates.distinct_values import DistinctValues
from ivm.delta_ops.aggregates.group_rows import GroupRows, RowsSpec
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.values.column import Column, FixedColumn, Indexes
from ivm.storage.values.zset import ZSet, add


class ValueCounts(GroupRows):
    """`GroupRows` of one column, followed by the count of each value."""

    def __init__(self, spec: RowsSpec) -> None:
        super().__init__(spec)
        self._values = DistinctValues(spec.types[0])

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._values.nbytes

    def stage(self, delta: ZSet, slots: Indexes) -> None:
        entries = self.entries(delta, slots)
        rows, old, new = self._counted(entries)
        groups, column = [c.take(rows) for c in entries.columns]
        gone = _weighed(groups, column, old, (old > 0) & (old != new))
        come = _weighed(groups, column, new, (new > 0) & (old != new))
        self.stage_entries(add([gone.negate(), come]))

    def _counted(self, entries: ZSet) -> tuple[Indexes, Indexes, Indexes]:
        slots, column = entries.columns
        assert isinstance(slots, FixedColumn)
        return self._values.count(column, slots.values, entries.weights)

    def collect(self, entries: ZSet) -> None:
        self._counted(entries)
        self._values.commit()

    def collected(self) -> None:
        slots, column, counts = self._values.contents()
        every = np.ones(len(counts), np.bool_)
        entries = _weighed(FixedColumn(slots), column, counts, every)
        self.reset(Arrangement.build(self.layout, [entries]))

    def saved(self) -> tuple[object, ...]:
        return super().saved(), self._values.saved()

    def restore(self, saved: tuple[Any, Any]) -> None:
        super().restore(saved[0])
        self._values.restore(saved[1])

    def commit(self) -> None:
        super().commit()
        self._values.commit()

    def rollback(self) -> None:
        super().rollback()
        self._values.rollback()


def _weighed(slots: Column, column: Column, counts: Indexes, kept: np.ndarray) -> ZSet:
    """Entries (slot, value, count), each once."""
    rows = ZSet((slots, column, FixedColumn(counts)), np.ones(len(counts), np.int64))
    return rows.filter(kept)


def make_rows(spec: RowsSpec) -> GroupRows:
    """The state of a spec."""
    return (ValueCounts if spec.counted else GroupRows)(spec)
