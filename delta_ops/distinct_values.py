"""The set of values of each group, for COUNT(DISTINCT), SUM(DISTINCT) and their like.

Law: a value is in a group's set while the net weight of (group, value) is positive; a step's output
is the set's change, ±1 per value. Values get dense numbers of their own, so that (group, value)
is one exact 64-bit code.
"""

from __future__ import annotations

import numpy as np

from ivm.delta_ops.group_table import GroupTable
from ivm.storage.column import Column, FixedColumn, Indexes
from ivm.storage.types import ColumnType, type_of
from ivm.storage.zset import Weights


class DistinctValues:
    """Weights per (group slot, value) of one argument."""

    def __init__(self, type: ColumnType) -> None:
        self._values = GroupTable((type,))
        self._pairs = GroupTable((type_of("BIGINT"),))

    @property
    def nbytes(self) -> int:
        return self._values.nbytes + self._pairs.nbytes

    def step(
        self, column: Column, slots: Indexes, weights: Weights
    ) -> tuple[Indexes, Weights]:
        """Stage a change.

        Args:
            column: the values, no NULL.
            slots: each row's group.
            weights: of the rows.

        Returns:
            Rows whose value enters or leaves its group's set, and ±1 for each.
        """
        numbers = self._values.slots([column], len(slots))
        self._stage_sum(self._values, numbers, weights)
        pairs = self._pairs.slots([FixedColumn((slots << 32) | numbers)], len(slots))
        touched, inverse, old, new = self._stage_sum(self._pairs, pairs, weights)
        change = (new > 0).astype(np.int64) - (old > 0)
        rows = np.empty(len(touched), np.int64)
        rows[inverse] = np.arange(len(inverse))
        moved = np.flatnonzero(change)
        return rows[moved], change[moved]

    @staticmethod
    def _stage_sum(
        table: GroupTable, slots: Indexes, weights: Weights
    ) -> tuple[Indexes, Indexes, Indexes, Indexes]:
        touched, inverse = table.distinct(slots)
        lanes = table.read(touched)
        old = lanes[:, 0].copy()
        np.add.at(lanes[:, 0], inverse, weights)
        table.stage(touched, lanes)
        return touched, inverse, old, lanes[:, 0]

    def commit(self) -> None:
        self._values.commit()
        self._pairs.commit()

    def rollback(self) -> None:
        self._values.rollback()
        self._pairs.rollback()
