"""Groups of rows that agree in the first terms of their order, by number.

Law: the rows of a group stand side by side, so the number of a place's group is how many rows up to
it differ from the row before them, less one. Blocks keep how many of theirs do; a block's own are
looked at only where a place or a group lies in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ivm.storage.block import Block
from ivm.storage.codes import same_key
from ivm.storage.column import Indexes
from ivm.storage.sorted_rows import SortedRows


class PeerGroups:
    """The groups of one version of the rows.

    Args:
        rows: all of them.
        terms: how many terms the rows of a group agree in.
    """

    def __init__(self, rows: SortedRows, terms: int) -> None:
        self._rows = rows
        self._own = _Steps(rows, terms)
        steps: Indexes = rows.summary(self._own)
        self._steps = steps
        self._before = np.zeros(len(steps) + 1, np.int64)
        np.cumsum(steps, out=self._before[1:])
        self._within: dict[int, Indexes] = {}

    def __len__(self) -> int:
        return int(self._before[-1])

    def of(self, places: Indexes) -> Indexes:
        """The numbers of the groups at some places, from 0."""
        starts = self._rows.starts
        numbers = np.empty(len(places), np.int64)
        owners = starts.searchsorted(places, "right") - 1
        for block, a, b in _stretches(owners):
            steps, first = self._steps_of(block)
            inside = steps.searchsorted(places[a:b] - starts[block], "right")
            numbers[a:b] = self._before[block] + first - 1 + inside
        return numbers

    def starts(self, numbers: Indexes) -> Indexes:
        """The first place of each group; of those past the last one, the end."""
        starts = self._rows.starts
        places = np.full(len(numbers), len(self._rows))
        owners = self._before[1:].searchsorted(numbers, "right")
        for block, a, b in _stretches(owners):
            if block == len(self._steps):
                continue
            steps, first = self._steps_of(block)
            number = numbers[a:b] - self._before[block] - first
            inside = np.where(number < 0, 0, np.append(steps, 0)[number])
            places[a:b] = starts[block] + inside
        return places

    def _steps_of(self, number: int) -> tuple[Indexes, int]:
        """The rows of a block that differ from the one before within it; whether its first does."""
        steps = self._within.get(number)
        if steps is None:
            steps = self._within[number] = self._own.within(self._rows.blocks[number])
        return steps, int(self._steps[number]) - len(steps)


class _Steps:
    """How many rows of a block differ from the row before them."""

    def __init__(self, rows: SortedRows, terms: int) -> None:
        self._rows_terms = rows.terms[:terms]
        self._columns = [term.column for term in self._rows_terms]
        self._types = [rows.types[i] for i in self._columns]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Steps) and self._columns == other._columns

    def __hash__(self) -> int:
        return hash((_Steps, *self._columns))

    def of(self, before: Block | None, block: Block) -> int:
        return len(self.within(block)) + self._differs(before, block)

    def _differs(self, before: Block | None, block: Block) -> bool:
        if before is None or not self._columns:
            return before is None
        row = np.zeros(1, np.int64)
        old, new = [[b.columns[i] for i in self._columns] for b in (before, block)]
        return not same_key(old, row + before.size - 1, new, row, self._types)[0]

    def within(self, block: Block) -> Indexes:
        """The rows that differ from the one before, in the block."""
        if not self._columns:
            return np.zeros(0, np.int64)
        columns = [block.columns[i] for i in self._columns]
        rows = np.arange(block.size - 1)
        return np.flatnonzero(~same_key(columns, rows, columns, rows + 1, self._types)) + 1

    def joined(self, known: Indexes | None, entries: Sequence[int]) -> Indexes:
        fresh = np.array(entries, np.int64)
        return fresh if known is None else np.concatenate([known, fresh])

    def taken(self, known: Indexes, numbers: Indexes) -> Indexes:
        return known[numbers]


def _stretches(owners: Indexes) -> Iterator[tuple[int, int, int]]:
    """Stretches of equal owners: the owner, where they begin and where they end."""
    if len(owners) == 1:
        return iter([(int(owners[0]), 0, 1)])
    begins = np.flatnonzero(np.diff(owners, prepend=-1))
    ends = np.append(begins[1:], len(owners))
    return zip(owners[begins].tolist(), begins.tolist(), ends.tolist(), strict=True)
