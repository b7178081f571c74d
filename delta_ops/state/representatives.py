"""Representatives: the key shown for a group whose equal keys differ in representation.

Law: 0.0 = −0.0, all NaNs are equal, and so are '1 month' and '30 days'; the representative is the
key of the live rows whose exact hash is least. So a live row has it, and it depends on the live
rows alone. Keys of a single form (all but zeros, NaNs, intervals and values that contain them) are
not tracked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ivm.delta_ops.state.group_table import GroupTable
from ivm.delta_ops.state.versions import Versions
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.arrangement.layout import Layout
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask, concat
from ivm.storage.values.key_codes import row_codes
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import Weights, ZSet

_BIGINT = type_of("BIGINT")
_LAYOUT = Layout((_BIGINT, _BIGINT, _BIGINT), (0,), (OrderKey(1, False, False),))
_NO_NUMBERS = ("FLOAT", "DOUBLE", "INTERVAL")


def has_representatives(types: Sequence[ColumnType]) -> bool:
    """Returns whether equal keys of these types can differ in representation."""
    return any(name in t.sql for t in types for name in _NO_NUMBERS)


def _in_doubt(columns: Sequence[Column], types: Sequence[ColumnType]) -> Mask:
    """A mask of the rows whose key may have another representation."""
    doubt = np.zeros(len(columns[0]), np.bool_)
    for column, type in zip(columns, types, strict=True):
        if type.is_float:
            assert isinstance(column, FixedColumn)
            doubt |= (column.values == 0) | np.isnan(column.values)
        elif has_representatives([type]):
            doubt[:] = True
    return doubt


class Representatives(Versions[Arrangement]):
    """The live keys per group slot, by representation; staged.

    Args:
        types: of the key columns; `has_representatives`.
        table: the groups, in whose store a form of each key is found.
    """

    def __init__(self, types: Sequence[ColumnType], table: GroupTable) -> None:
        self._types = tuple(types)
        self._table = table
        self._representatives = GroupTable(types, exact_rows=True)
        super().__init__(Arrangement.empty(_LAYOUT))

    @property
    def nbytes(self) -> int:
        return self._representatives.nbytes + super().nbytes

    def step(
        self, columns: Sequence[Column], weights: Weights, touched: Indexes, groups: Indexes
    ) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
        """Stages rows of keys (`groups`: positions in the slots `touched`).

        Returns:
            The key columns to show for each touched slot before and after; a dead group's is any.
        """
        doubt = _in_doubt(columns, self._types).nonzero()[0]
        if not len(doubt):
            shown = self._table.keys(touched)
            return shown, shown
        self._stage([c.take(doubt) for c in columns], weights[doubt], touched[groups[doubt]])
        return self._shown(self.before, touched), self._shown(self.after, touched)

    def _stage(self, columns: Sequence[Column], weights: Weights, slots: Indexes) -> None:
        representatives, inverse = self._representatives.locate(columns, len(weights))
        lanes = self._representatives.read(representatives)
        np.add.at(lanes[:, 0], inverse, weights)
        self._representatives.stage(representatives, lanes)
        codes = row_codes(columns, self._types)
        rows = (FixedColumn(slots), FixedColumn(codes), FixedColumn(representatives[inverse]))
        self.append(ZSet(rows, weights))

    def _shown(self, state: Arrangement, slots: Indexes) -> tuple[Column, ...]:
        stored = self._table.keys(slots)
        matches = state.first([FixedColumn(slots)], 1)
        if not len(matches.probe):
            return stored
        representatives = matches.rows.columns[2]
        assert isinstance(representatives, FixedColumn)
        index = np.arange(len(slots))
        index[matches.probe] = np.arange(len(slots), len(slots) + len(matches.probe))
        live = self._representatives.keys(representatives.values)
        return tuple([concat(pair).take(index) for pair in zip(stored, live, strict=True)])

    def current(self, slots: Indexes) -> tuple[Column, ...]:
        """The key columns to show for the slots, as committed."""
        return self._shown(self.before, slots)

    def saved(self) -> tuple[object, ...]:
        return super().saved(), self._representatives.saved()

    def restore(self, saved: tuple[Any, Any]) -> None:
        super().restore(saved[0])
        self._representatives.restore(saved[1])

    def commit(self) -> None:
        super().commit()
        self._representatives.commit()

    def rollback(self) -> None:
        super().rollback()
        self._representatives.rollback()
