"""MIN and MAX per group: the first entry of the group's values in order.

Law: the values of a group are arranged by (group slot, value), so the extreme after a retraction is
the first live entry. Values of at most 64 bits are mapped to integers whose order is the wanted one
(MAX: reversed), and each group's extreme is kept at hand: an insertion needs no look at the others,
a retraction only if it may have been the extreme. −0.0 counts as less than 0.0 here, so that the
representation shown does not depend on the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.delta_ops.aggregate_call import ArgumentRows
from ivm.storage.arrangement import Arrangement
from ivm.storage.column import Column, FixedColumn, Indexes, concat, null_column
from ivm.storage.errors import InternalError
from ivm.storage.keys import orderable
from ivm.storage.layout import Layout
from ivm.storage.ordering import OrderKey
from ivm.storage.types import ColumnType, type_of
from ivm.storage.zset import ZSet

_BIGINT = type_of("BIGINT")
_LAST = np.iinfo(np.int64).max
_SIGN = np.uint64(1 << 63)


def has_extreme(type: ColumnType) -> bool:
    """Whether MIN and MAX of the type can be kept in order here."""
    return orderable(type)


class Extreme:
    """One MIN or MAX over all groups.

    Args:
        type: the argument's type.
        greatest: MAX instead of MIN.
    """

    def __init__(self, type: ColumnType, greatest: bool) -> None:
        self._type = type
        self._greatest = greatest
        self._layout = self._make_layout()
        self._before = self._after = Arrangement.empty(self._layout)

    def _make_layout(self) -> Layout:
        order = OrderKey(1, self._greatest, False)
        return Layout((_BIGINT, self._type), (0,), (order,))

    @property
    def nbytes(self) -> int:
        return self._before.nbytes

    def step(self, rows: ArgumentRows, slots: Indexes, old: Indexes, new: Indexes) -> Column:
        """Stage a change.

        Args:
            rows: the argument's rows; their groups are positions in `slots`.
            slots: the touched groups.
            old: how many values each touched group had.
            new: how many it has now.

        Returns:
            The extremes of all touched groups before, then of all after; NULL without values.
        """
        self._after = self._before.append(_entries(rows, slots, rows.values))
        return concat([self._first(self._before, slots), self._first(self._after, slots)])

    def _first(self, state: Arrangement, slots: Indexes) -> Column:
        matches = state.first([FixedColumn(slots)], 1)
        where = np.zeros(len(slots), np.int64)
        where[matches.probe] = np.arange(1, len(matches.probe) + 1)
        found = matches.rows.columns[1]
        return concat([null_column(self._type, 1), found]).take(where)

    def current(self, slots: Indexes, counts: Indexes) -> Column:
        """The committed extremes of the groups."""
        return self._first(self._before, slots)

    def hydrate(self, batches: Iterable[ArgumentRows]) -> None:
        """Build the state of rows whose groups are slots."""
        entries = self._hydrated(batches)
        self._before = self._after = Arrangement.build(self._layout, entries)

    def _hydrated(self, batches: Iterable[ArgumentRows]) -> Iterator[ZSet]:
        for rows in batches:
            yield _entries(rows, None, rows.values)

    def commit(self) -> None:
        self._before = self._after

    def rollback(self) -> None:
        self._after = self._before


def _entries(rows: ArgumentRows, slots: Indexes | None, values: Column | None) -> ZSet:
    """Rows (group slot, value) that count."""
    assert values is not None
    groups = rows.groups if slots is None else slots[rows.groups]
    entries = ZSet((FixedColumn(groups), values), rows.weights)
    if np.count_nonzero(rows.weights) == len(rows.weights):
        return entries
    return entries.filter(rows.weights != 0)


class WordExtreme(Extreme):
    """An `Extreme` of values of at most 64 bits, with every group's current one at hand."""

    def __init__(self, type: ColumnType, greatest: bool) -> None:
        super().__init__(type, greatest)
        assert type.dtype is not None
        self._dtype = type.dtype
        self._best = np.full(32, _LAST, np.int64)
        self._taken_back = False
        self._staged: tuple[Indexes, Indexes] | None = None

    def _make_layout(self) -> Layout:
        return Layout((_BIGINT, _BIGINT), (0,), (OrderKey(1, False, False),))

    @property
    def nbytes(self) -> int:
        return self._before.nbytes + self._best.nbytes

    def step(self, rows: ArgumentRows, slots: Indexes, old: Indexes, new: Indexes) -> Column:
        self._grow(int(slots.max()) + 1 if len(slots) > 1 else slots.item() + 1)
        ranks = self._ranks(rows.values)
        before = self._best[slots]
        after = before.copy()
        lost = self._compare(rows, ranks, after)
        self._after = self._before.append(_entries(rows, slots, FixedColumn(ranks)))
        if len(lost):
            self._look_up(slots, lost, after, new)
        self._staged = (slots, after)
        return self._column(np.concatenate([before, after]), np.concatenate([old, new]))

    @staticmethod
    def _compare(rows: ArgumentRows, ranks: Indexes, best: Indexes) -> Indexes:
        """Bring the groups' best up to the added values; groups that may have lost theirs."""
        weights, groups = rows.weights, rows.groups
        if len(weights) == 1:
            weight, rank = weights.item(), ranks.item()
            if weight > 0 and rank < best[0]:
                best[0] = rank
            return groups if weight < 0 and rank <= best[0] else groups[:0]
        plus = weights > 0
        np.minimum.at(best, groups[plus], ranks[plus])
        return groups[(weights < 0) & (ranks <= best[groups])]

    def _look_up(self, slots: Indexes, lost: Indexes, after: Indexes, new: Indexes) -> None:
        """Write the extremes of groups that may have lost theirs."""
        mask = np.zeros(len(slots), np.bool_)
        mask[lost] = True
        after[mask] = _LAST
        groups = np.flatnonzero(mask & (new > 0))
        if not len(groups):
            return
        matches = self._after.first([FixedColumn(slots[groups])], 1)
        if len(matches.probe) != len(groups):
            raise InternalError("a group lost values it never had; please report this")
        found = matches.rows.columns[1]
        assert isinstance(found, FixedColumn)
        after[groups[matches.probe]] = found.values

    def current(self, slots: Indexes, counts: Indexes) -> Column:
        if len(slots):
            self._grow(int(slots.max()) + 1)  # the last groups may have no value at all
        return self._column(self._best[slots], counts)

    def hydrate(self, batches: Iterable[ArgumentRows]) -> None:
        self._best.fill(_LAST)
        self._taken_back = False
        super().hydrate(batches)
        if self._taken_back:  # a value that other rows cancel was never the best
            slots = np.arange(len(self._best))
            matches = self._before.first([FixedColumn(slots)], 1)
            found = matches.rows.columns[1]
            assert isinstance(found, FixedColumn)
            self._best.fill(_LAST)
            self._best[matches.probe] = found.values

    def _hydrated(self, batches: Iterable[ArgumentRows]) -> Iterator[ZSet]:
        for rows in batches:
            ranks = self._ranks(rows.values)
            entries = _entries(rows, None, FixedColumn(ranks))
            slots, values = entries.columns
            assert isinstance(slots, FixedColumn)
            assert isinstance(values, FixedColumn)
            self._grow(int(slots.values.max(initial=0)) + 1)
            np.minimum.at(self._best, slots.values, values.values)
            self._taken_back |= bool((entries.weights < 0).any())
            yield entries

    def _grow(self, needed: int) -> None:
        if needed > len(self._best):
            grown = np.full(max(needed, 2 * len(self._best)), _LAST, np.int64)
            grown[: len(self._best)] = self._best
            self._best = grown

    def _ranks(self, values: Column | None) -> Indexes:
        assert isinstance(values, FixedColumn)
        ranks = _to_ranks(values.values)
        return ~ranks if self._greatest else ranks

    def _column(self, ranks: Indexes, counts: Indexes) -> FixedColumn:
        values = _from_ranks(~ranks if self._greatest else ranks, self._dtype)
        valid = counts > 0
        if np.count_nonzero(valid) == len(valid):
            return FixedColumn(values)
        return FixedColumn(np.where(valid, values, np.zeros(1, values.dtype)), valid)

    def commit(self) -> None:
        super().commit()
        if self._staged is not None:
            slots, best = self._staged
            self._best[slots] = best
            self._staged = None

    def rollback(self) -> None:
        super().rollback()
        self._staged = None


def _to_ranks(values: npt.NDArray[Any]) -> Indexes:
    """Values as int64 that sort as they do; NaN last, −0.0 before 0.0."""
    if values.dtype.kind == "f":
        doubles = values.astype(np.float64)
        nans = np.isnan(doubles)
        if np.count_nonzero(nans):
            doubles[nans] = np.nan
        bits = doubles.view(np.int64)
        return bits ^ ((bits >> 63) & _LAST)
    if values.dtype == np.uint64:
        return (values ^ _SIGN).view(np.int64)
    return values.astype(np.int64)


def _from_ranks(ranks: Indexes, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        bits = ranks ^ ((ranks >> 63) & _LAST)
        if dtype.itemsize == 8:
            return bits.view(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            return bits.view(np.float64).astype(dtype)
    if dtype == np.uint64:
        return ranks.view(np.uint64) ^ _SIGN
    if dtype == np.int64:
        return ranks
    with np.errstate(invalid="ignore"):
        return ranks.astype(dtype)


def make_extreme(type: ColumnType, greatest: bool) -> Extreme:
    """The fitting keeper of a MIN or MAX (TIMETZ does not sort by its bits)."""
    word = type.is_word and type.base != "TIME WITH TIME ZONE"
    make: Callable[[ColumnType, bool], Extreme] = WordExtreme if word else Extreme
    return make(type, greatest)
