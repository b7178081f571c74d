"""The set of values of each group, for COUNT(DISTINCT), SUM(DISTINCT) and their like.

Law: a value is in a group's set while the net weight of (group, value) is positive; a step's output
is the set's change, ±1 per value. Values get dense numbers of their own, so that (group, value)
is one exact 64-bit code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ivm.delta_ops.aggregates.lanes.call import ArgumentRows
from ivm.delta_ops.state.group_table import GroupTable
from ivm.storage.values.column import Column, FixedColumn, Indexes
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import Weights

_NUMBER = (1 << 32) - 1


class DistinctValues:
    """Weights per (group slot, value) of one argument."""

    def __init__(self, type: ColumnType) -> None:
        self._values = GroupTable((type,))
        self._pairs = GroupTable((type_of("BIGINT"),))

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._pairs.nbytes

    def step(self, column: Column, slots: Indexes, weights: Weights) -> tuple[Indexes, Weights]:
        """Stages a change.

        Args:
            column: the values, no NULL.
            slots: each row's group.
            weights: of the rows.

        Returns:
            Rows whose value enters or leaves its group's set, and ±1 for each.
        """
        rows, old, new = self.count(column, slots, weights)
        change = (new > 0).astype(np.int64) - (old > 0)
        moved = change.nonzero()[0]
        return rows[moved], change[moved]

    def count(
        self, column: Column, slots: Indexes, weights: Weights
    ) -> tuple[Indexes, Weights, Weights]:
        """Stages a change.

        Returns:
            A row of each (group, value) touched, and how often it was there and is there now.
        """
        count = len(slots)
        values, inverse = self._values.locate([column], count)
        _stage_sum(self._values, values, inverse, weights)
        pairs = FixedColumn((slots << 32) | values[inverse])
        touched, inverse = self._pairs.locate([pairs], count)
        old, new = _stage_sum(self._pairs, touched, inverse, weights)
        rows = np.empty(len(touched), np.int64)
        rows[inverse] = np.arange(count)
        return rows, old, new

    def contents(self) -> tuple[Indexes, Column, Weights]:
        """The group, value and count of every pair, as committed."""
        live = self._pairs.live()
        (pairs,) = self._pairs.keys(live)
        assert isinstance(pairs, FixedColumn)
        (values,) = self._values.keys(pairs.values & _NUMBER)
        return pairs.values >> 32, values, self._pairs.read(live)[:, 0]

    def saved(self) -> tuple[object, ...]:
        """The sets, as committed."""
        return self._values.saved(), self._pairs.saved()

    def restore(self, saved: tuple[Any, Any]) -> None:
        """Takes what `saved` gave."""
        self._values.restore(saved[0])
        self._pairs.restore(saved[1])

    def commit(self) -> None:
        self._values.commit()
        self._pairs.commit()

    def rollback(self) -> None:
        self._values.rollback()
        self._pairs.rollback()


def _stage_sum(
    table: GroupTable, touched: Indexes, groups: Indexes, weights: Weights
) -> tuple[Indexes, Indexes]:
    """Stages the touched slots' net weights; returns those before and after."""
    lanes = table.read(touched)
    old = lanes[:, 0].copy()
    if len(weights) == 1:
        lanes[0, 0] += weights[0]
    else:
        np.add.at(lanes[:, 0], groups, weights)
    table.stage(touched, lanes)
    return old, lanes[:, 0]


def changes_of_set(values: DistinctValues, rows: ArgumentRows, slots: Indexes) -> ArgumentRows:
    """Stages rows (their groups are positions in `slots`); returns the sets' changes as ±1 rows."""
    column, weights, groups = rows.values, rows.weights, rows.groups
    assert column is not None
    if np.count_nonzero(weights) < len(weights):
        kept = weights.nonzero()[0]
        column, weights, groups = column.take(kept), weights[kept], groups[kept]
    moved, change = values.step(column, slots[groups], weights)
    return ArgumentRows(column.take(moved), change, groups[moved])
