"""Each group's MIN or MAX in an array, as a 64-bit integer (here: rank) that sorts as the value.

Law: an added value is the new extreme if it is better; a retracted one that is worse changes
nothing, and after any other the arrangement of all values is searched. Inside, the best is the
least: ranks of a MAX are kept inverted.

Law of ranks: from_ranks(to_ranks(v)) = v, bit for bit except that all NaNs are one; ranks ascend as
DuckDB sorts the values, NaN last, and −0.0 before 0.0, so results do not depend on the history.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.delta_ops.aggregates.lanes.call import ArgumentRows
from ivm.storage.arrangement.arrangement import Arrangement, Matches
from ivm.storage.errors import InternalError
from ivm.storage.values.column import FixedColumn, Indexes
from ivm.storage.values.zset import ZSet

_MASK = np.iinfo(np.int64).max
_SIGN = np.uint64(1 << 63)


def to_ranks(values: npt.NDArray[Any]) -> Indexes:
    """The ranks of values of a type that is an ordered word."""
    if values.dtype.kind == "f":
        doubles = values.astype(np.float64)
        nans = np.isnan(doubles)
        if np.count_nonzero(nans):
            doubles[nans] = np.nan
        return _flipped(doubles.view(np.int64))
    if values.dtype == np.uint64:
        return (values ^ _SIGN).view(np.int64)
    return values.astype(np.int64)


def from_ranks(ranks: Indexes, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The values of that type which have the ranks."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        doubles = _flipped(ranks).view(np.float64)
        if dtype.itemsize == 8:
            return doubles
        with np.errstate(over="ignore", invalid="ignore"):
            return doubles.astype(dtype)
    if dtype == np.uint64:
        return ranks.view(np.uint64) ^ _SIGN
    if dtype == np.int64:
        return ranks
    with np.errstate(invalid="ignore"):
        return ranks.astype(dtype)


def _flipped(bits: Indexes) -> Indexes:
    """The bits with those below the sign inverted if it is negative; its own inverse."""
    if len(bits) == 1:
        one: int = bits.item()
        return np.array([one ^ ((one >> 63) & _MASK)], np.int64)
    return bits ^ ((bits >> 63) & _MASK)


_LAST = np.iinfo(np.int64).max


def ends(state: Arrangement, slots: Indexes, greatest: bool) -> Matches:
    """The last or first live entry of each group."""
    return state.first([FixedColumn(slots)], 1, backwards=greatest)


class MinMaxCache:
    """The extremes at one end; staged.

    Args:
        greatest: MAX instead of MIN.
    """

    def __init__(self, greatest: bool) -> None:
        self._greatest = greatest
        self._best = np.full(32, _LAST, np.int64)
        self._staged: tuple[Indexes, Indexes] | None = None

    @property
    def nbytes(self) -> int:
        return self._best.nbytes

    def saved(self) -> Indexes:
        """The extremes, as committed."""
        return self._best

    def restore(self, saved: Indexes) -> None:
        """Takes what `saved` gave."""
        self._best = saved

    def _turned(self, ranks: Indexes) -> Indexes:
        return ~ranks if self._greatest else ranks

    def step(
        self,
        rows: ArgumentRows,
        ranks: Indexes,
        slots: Indexes,
        state: Arrangement,
        counts: Indexes,
    ) -> Indexes:
        """Stages a change that `state` includes; `counts` are the groups' numbers of values now.

        Returns:
            The ranks of the groups' extremes before, then after.
        """
        before = self._of(slots)
        after = before.copy()
        lost = self._compare(rows, self._turned(ranks), after)
        if len(lost):
            self._look_up(slots, lost, after, state, counts)
        self._staged = (slots, after)
        return self._turned(np.concatenate([before, after]))

    @staticmethod
    def _compare(rows: ArgumentRows, ranks: Indexes, best: Indexes) -> Indexes:
        """Updates extremes by added values; returns the groups that may have lost theirs."""
        weights, groups = rows.weights, rows.groups
        if len(weights) == 1:
            weight, rank = weights.item(), ranks.item()
            if weight > 0 and rank < best[0]:
                best[0] = rank
            return groups if weight < 0 and rank <= best[0] else groups[:0]
        plus = (weights > 0).nonzero()[0]  # by numbers numpy takes rows faster than by a mask
        np.minimum.at(best, groups[plus], ranks[plus])
        return groups[((weights < 0) & (ranks <= best[groups])).nonzero()[0]]

    def _look_up(
        self, slots: Indexes, lost: Indexes, after: Indexes, state: Arrangement, counts: Indexes
    ) -> None:
        """Writes the extremes of groups that may have lost theirs."""
        mask = np.zeros(len(slots), np.bool_)
        mask[lost] = True
        after[mask] = _LAST
        groups = np.flatnonzero(mask & (counts > 0))
        if not len(groups):
            return
        probe, ranks = self._found(state, slots[groups])
        if len(probe) != len(groups):
            raise InternalError("a group lost values it never had; please report this")
        after[groups[probe]] = ranks

    def _found(self, state: Arrangement, slots: Indexes) -> tuple[Indexes, Indexes]:
        """The groups that have values, and the extreme of each."""
        matches = ends(state, slots, self._greatest)
        found = matches.rows.columns[1]
        assert isinstance(found, FixedColumn)
        return matches.probe, self._turned(found.values)

    def current(self, slots: Indexes) -> Indexes:
        """The ranks of the groups' committed extremes; any for groups without values."""
        return self._turned(self._of(slots))

    def improve(self, entries: ZSet) -> None:
        """Adds rows (group slot, rank) at once."""
        slots, ranks = entries.columns
        assert isinstance(slots, FixedColumn)
        assert isinstance(ranks, FixedColumn)
        self._grow(int(slots.values.max(initial=0)) + 1)
        np.minimum.at(self._best, slots.values, self._turned(ranks.values))

    def read(self, state: Arrangement) -> None:
        """Reads the extremes from the state."""
        slots, ranks = self._found(state, np.arange(len(self._best)))
        self._best.fill(_LAST)
        self._best[slots] = ranks

    def _of(self, slots: Indexes) -> Indexes:
        self._grow(int(slots.max(initial=0)) + 1 if len(slots) != 1 else slots.item() + 1)
        return self._best[slots]

    def _grow(self, needed: int) -> None:
        if needed > len(self._best):
            grown = np.full(max(needed, 2 * len(self._best)), _LAST, np.int64)
            grown[: len(self._best)] = self._best
            self._best = grown

    def commit(self) -> None:
        if self._staged is not None:
            slots, best = self._staged
            self._best[slots] = best
            self._staged = None

    def rollback(self) -> None:
        self._staged = None
