"""MIN and MAX per group: the first and the last entry of the group's values in order.

Law: the values of a group are arranged by (group slot, value), once for both ends, so the extreme
after a retraction is the first or last live entry. Values of at most 64 bits are arranged by their
ranks, and each group's extremes are cached: an insertion reads no other values, a retraction only
if it may have removed the extreme.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ivm.delta_ops.aggregates.lanes.call import ArgumentRows
from ivm.delta_ops.aggregates.min_max_cache import MinMaxCache, ends, from_ranks, to_ranks
from ivm.delta_ops.state.versions import Versions
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.arrangement.builder import RunBuilder
from ivm.storage.arrangement.layout import Layout
from ivm.storage.values.column import Column, FixedColumn, Indexes, concat, null_column
from ivm.storage.values.ordering.order import OrderKey, orderable
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet

_BIGINT = type_of("BIGINT")


def has_extremes(type: ColumnType) -> bool:
    """Returns whether MIN and MAX of the type can be kept in order here."""
    return orderable(type)


class MinMax(Versions[Arrangement]):
    """MIN, MAX or both of one argument over all groups.

    Args:
        type: the argument's type.
    """

    def __init__(self, type: ColumnType) -> None:
        self._type = type
        self._layout = Layout((_BIGINT, self._arranged), (0,), (OrderKey(1, False, False),))
        super().__init__(Arrangement.empty(self._layout))
        self._wanted: set[bool] = set()
        self._builder = RunBuilder(self._layout)

    @property
    def _arranged(self) -> ColumnType:
        """The type in which values are arranged."""
        return self._type

    def want(self, greatest: bool) -> None:
        """Keeps the MAX or the MIN too; called before there are rows."""
        self._wanted.add(greatest)

    def step(
        self, rows: ArgumentRows, slots: Indexes, old: Indexes, new: Indexes
    ) -> dict[bool, Column]:
        """Stages a change.

        Args:
            rows: the argument's rows; their groups are positions in `slots`.
            slots: the touched groups.
            old: how many values each touched group had.
            new: how many it has now.

        Returns:
            MAX under True and MIN under False, those that are wanted: of all touched groups
            before, then of all after; NULL without values.
        """
        self.append(_entries(rows, slots, rows.values))
        parts = (self.before, self.after)
        return {g: concat([self._shown(p, slots, g) for p in parts]) for g in self._wanted}

    def _shown(self, state: Arrangement, slots: Indexes, greatest: bool) -> Column:
        matches = ends(state, slots, greatest)
        where = np.zeros(len(slots), np.int64)
        where[matches.probe] = np.arange(1, len(matches.probe) + 1)
        found = matches.rows.columns[1]
        return concat([null_column(self._type, 1), found]).take(where)

    def current(self, slots: Indexes, counts: Indexes) -> dict[bool, Column]:
        """The committed extremes of the groups, which have so many values."""
        return {g: self._shown(self.before, slots, g) for g in self._wanted}

    def collect(self, rows: ArgumentRows) -> None:
        """Takes rows, whose groups are slots, for the state that `collected` builds."""
        self._builder.add(_entries(rows, None, rows.values))

    def collected(self) -> None:
        """Builds the state from what was collected, in place of any earlier state."""
        self.reset(Arrangement.of(self._layout, self._builder.run()))
        self._builder = RunBuilder(self._layout)


def _entries(rows: ArgumentRows, slots: Indexes | None, values: Column | None) -> ZSet:
    """Rows (group slot, value) that count."""
    assert values is not None
    groups = rows.groups if slots is None else slots[rows.groups]
    entries = ZSet((FixedColumn(groups), values), rows.weights)
    if np.count_nonzero(rows.weights) == len(rows.weights):
        return entries
    return entries.filter(rows.weights != 0)


class RankedMinMax(MinMax):
    """`MinMax` of values that have ranks, with a cache of every group's current ones."""

    def __init__(self, type: ColumnType) -> None:
        super().__init__(type)
        self._bests: dict[bool, MinMaxCache] = {}
        self._taken_back = False

    @property
    def _arranged(self) -> ColumnType:
        return _BIGINT

    def want(self, greatest: bool) -> None:
        self._bests.setdefault(greatest, MinMaxCache(greatest))

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(best.nbytes for best in self._bests.values())

    def step(
        self, rows: ArgumentRows, slots: Indexes, old: Indexes, new: Indexes
    ) -> dict[bool, Column]:
        ranks = _ranks(rows)
        self.append(_entries(rows, slots, FixedColumn(ranks)))
        counts = np.concatenate([old, new])
        return {
            greatest: self._column(best.step(rows, ranks, slots, self.after, new), counts)
            for greatest, best in self._bests.items()
        }

    def current(self, slots: Indexes, counts: Indexes) -> dict[bool, Column]:
        return {g: self._column(b.current(slots), counts) for g, b in self._bests.items()}

    def _column(self, ranks: Indexes, counts: Indexes) -> FixedColumn:
        assert self._type.dtype is not None
        values = from_ranks(ranks, self._type.dtype)
        if len(counts) == 1 and counts.item() > 0:
            return FixedColumn(values)
        valid = counts > 0
        if np.count_nonzero(valid) == len(valid):
            return FixedColumn(values)
        return FixedColumn(np.where(valid, values, np.zeros(1, values.dtype)), valid)

    def collect(self, rows: ArgumentRows) -> None:
        entries = _entries(rows, None, FixedColumn(_ranks(rows)))
        for best in self._bests.values():
            best.improve(entries)
        self._taken_back |= bool((entries.weights < 0).any())
        self._builder.add(entries)

    def collected(self) -> None:
        super().collected()
        if self._taken_back:  # a value that other rows cancel was never the best
            for best in self._bests.values():
                best.read(self.before)

    def saved(self) -> tuple[object, ...]:
        return super().saved(), {g: best.saved() for g, best in self._bests.items()}

    def restore(self, saved: tuple[Any, dict[bool, Indexes]]) -> None:
        super().restore(saved[0])
        for greatest, best in self._bests.items():
            best.restore(saved[1][greatest])

    def commit(self) -> None:
        super().commit()
        for best in self._bests.values():
            best.commit()

    def rollback(self) -> None:
        super().rollback()
        for best in self._bests.values():
            best.rollback()


def _ranks(rows: ArgumentRows) -> Indexes:
    assert isinstance(rows.values, FixedColumn)
    return to_ranks(rows.values.values)


def make_extremes(type: ColumnType) -> MinMax:
    """The fitting keeper of a MIN and MAX."""
    return (RankedMinMax if type.is_ordered_word else MinMax)(type)
