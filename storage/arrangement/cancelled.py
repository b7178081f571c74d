"""Cancelled stretches: entries of runs that add up to nothing, which a search for live rows omits.

Law: the entries in the stretches found in some runs sum to zero for each row; so they add nothing
to any arrangement that begins with these runs, whatever else it holds. A search for the first live
row passes each cancelled entry once, not at every change behind a million deletes from the front.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ivm.storage.values.column import Indexes, Mask
from ivm.storage.values.ordering.ranges import expand

if TYPE_CHECKING:
    from ivm.storage.arrangement.run import Run


class Stretches(NamedTuple):
    """Ranges of one run's entries, disjoint and ascending.

    Attributes:
        starts: int64[n], the first entry of each.
        stops: int64[n], the entry past its last.
    """

    starts: Indexes
    stops: Indexes

    @staticmethod
    def of(entries: Indexes) -> Stretches:
        """The stretches of single entries, in any order; an entry may come twice."""
        entries = np.sort(entries)  # numpy's unique takes fifty times as long
        first = np.ones(len(entries), np.bool_)
        first[1:] = entries[1:] != entries[:-1]
        return Stretches(entries[first], entries[first] + 1).joined()

    def joined(self) -> Stretches:
        """The same entries with stretches that touch made one; these may overlap no other."""
        gaps = self.starts[1:] != self.stops[:-1]
        first = np.ones(len(self.starts), np.bool_)
        first[1:] = gaps
        last = np.ones(len(self.starts), np.bool_)
        last[:-1] = gaps
        return Stretches(self.starts[first], self.stops[last])

    def with_entries(self, entries: Indexes) -> Stretches:
        """These and other entries, some of which may be among these."""
        new = Stretches.of(entries[~self._hold(entries)])
        if not len(new.starts):
            return self
        at = self.starts.searchsorted(new.starts)
        starts, stops = np.insert(self.starts, at, new.starts), np.insert(self.stops, at, new.stops)
        return Stretches(starts, stops).joined()

    def _hold(self, entries: Indexes) -> Mask:
        place = self.starts.searchsorted(entries, "right") - 1
        held: Mask = place >= 0
        held[held] = entries[held] < self.stops[place[held]]
        return held

    def left(self, starts: Indexes, stops: Indexes) -> tuple[Indexes, Indexes, Indexes]:
        """The pieces of ranges that lie outside of the stretches.

        Args:
            starts: int64[m], the first entries of the ranges.
            stops: int64[m], the entries past their last ones.

        Returns:
            The range that each piece is of, its first entry, and the one past its last.
        """
        begin, end = self.stops.searchsorted(starts, "right"), self.starts.searchsorted(stops)
        within, inner = expand(begin, end)
        # Before each stretch lies a piece, and one behind the last; `some` has those with entries.
        owner = np.concatenate([np.arange(len(starts)), within])
        order = np.argsort(owner, kind="stable")
        first = np.concatenate([starts, self.stops[inner]])[order]
        owner = np.concatenate([within, np.arange(len(starts))])
        order = np.argsort(owner, kind="stable")
        last = np.concatenate([self.starts[inner], stops])[order]
        some = first < last
        return owner[order][some], first[some], last[some]


NO_STRETCHES = Stretches(np.zeros(0, np.int64), np.zeros(0, np.int64))


class Cancelled:
    """The cancelled stretches found so far in the oldest runs of an arrangement.

    Args:
        runs: these runs; they are not kept alive.
        stretches: of each.
    """

    __slots__ = ("_runs", "stretches")

    def __init__(self, runs: Sequence[Run], stretches: Sequence[Stretches]) -> None:
        self._runs = tuple([weakref.ref(run) for run in runs])
        self.stretches = tuple(stretches)

    def is_of(self, runs: Sequence[Run]) -> bool:
        """Returns whether it was found in these runs."""
        return len(runs) == len(self._runs) and all(
            known() is run for known, run in zip(self._runs, runs, strict=True)
        )


def known_in(runs: Sequence[Run]) -> Sequence[Stretches]:
    """The stretches known of the oldest ones of some runs; of the others there are none."""
    for count in range(len(runs), 0, -1):
        found = runs[count - 1].cancelled
        if found is not None and found.is_of(runs[:count]):
            return found.stretches
    return ()


def record(runs: Sequence[Run], entries: Sequence[Indexes]) -> Sequence[Stretches]:
    """Records cancelled entries with the newest of some runs, for all later searches.

    Args:
        runs: the oldest ones of an arrangement.
        entries: of each run; over all these runs, they sum to zero for each row.

    Returns:
        All stretches that are known of the runs now.
    """
    known = known_in(runs)
    known = [*known, *[NO_STRETCHES] * (len(runs) - len(known))]
    found = [old.with_entries(new) for old, new in zip(known, entries, strict=True)]
    if any(new is not old for old, new in zip(known, found, strict=True)):
        runs[-1].cancelled = Cancelled(runs, found)
    return found
