"""A rank/select index: the number of marked rows before a rank, and the n-th marked row.

Law: rank(p) is the number of marked rows of ranks < p, and select(n) the rank of the n-th marked
row, so rank(select(n)) = n. Blocks keep the number of their marked rows; rows are read only in
blocks that hold a rank in question. A predicate marks a row as the first of its peers
(`FirstOfPeers`: neighbouring rows that agree in the first terms) or as one with a value (`NotNull`,
`Finite`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from ivm.storage.ordered.blocks import Block
from ivm.storage.ordered.sorted_rows import SortedRows, Summary
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask, not_null
from ivm.storage.values.key_codes import same_key
from ivm.storage.values.types import ColumnType


class RowPredicate(Summary, Protocol):
    """A predicate of rows, summed up per block as the number of rows it holds for."""

    def within(self, before: Block | None, block: Block) -> Indexes:
        """The marked rows of a block behind another one."""


class RankSelect:
    """The marked rows of one version of the rows.

    Args:
        rows: all of them.
        marking: the predicate that marks rows.
    """

    def __init__(self, rows: SortedRows, marking: RowPredicate) -> None:
        self._rows = rows
        self._marking = marking
        counts: Indexes = rows.summary(marking)
        self._before = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=self._before[1:])
        self._found: dict[int, Indexes] = {}

    def __len__(self) -> int:
        return int(self._before[-1])

    def rank(self, at: Indexes) -> Indexes:
        """The number of marked rows before each rank."""
        starts = self._rows.starts
        counts = np.full(len(at), len(self))
        owners = starts.searchsorted(at, "right") - 1
        for block, a, b in self._block_ranges(owners):
            inside = self._within(block).searchsorted(at[a:b] - starts[block])
            counts[a:b] = self._before[block] + inside
        return counts

    def select(self, numbers: Indexes) -> Indexes:
        """The ranks of the marked rows of some numbers (from 0); past the last one, the end."""
        ranks = np.full(len(numbers), len(self._rows))
        owners = self._before[1:].searchsorted(numbers, "right")
        for block, a, b in self._block_ranges(owners):
            inside = self._within(block)[numbers[a:b] - self._before[block]]
            ranks[a:b] = self._rows.starts[block] + inside
        return ranks

    def _within(self, number: int) -> Indexes:
        found = self._found.get(number)
        if found is None:
            blocks = self._rows.blocks
            before = blocks[number - 1] if number else None
            found = self._found[number] = self._marking.within(before, blocks[number])
        return found

    def _block_ranges(self, owners: Indexes) -> Iterator[tuple[int, int, int]]:
        """The ranges of `owners` in one block: the block, their begins and their ends."""
        edges = np.flatnonzero(np.diff(owners, prepend=-1, append=-1)).tolist()
        for a, b in itertools.pairwise(edges):
            block = int(owners[a])
            if block < len(self._rows.blocks):
                yield block, a, b


class PeerGroups:
    """Groups of rows that agree in the first terms, by number from 0.

    Args:
        rows: all rows.
        terms: how many terms the rows of a group agree in.
    """

    def __init__(self, rows: SortedRows, terms: int) -> None:
        self._firsts = RankSelect(rows, FirstOfPeers(rows, terms))

    def __len__(self) -> int:
        return len(self._firsts)

    def of(self, ranks: Indexes) -> Indexes:
        """The numbers of the groups at some ranks."""
        return self._firsts.rank(ranks + 1) - 1

    def starts(self, numbers: Indexes) -> Indexes:
        """The first rank of each group; of those past the last one, the end."""
        return self._firsts.select(numbers)


class _Counted:
    """The number of marked rows of every block.

    Args:
        columns: two predicates of a class that read the same ones mark the same rows.
    """

    def __init__(self, columns: Sequence[int]) -> None:
        self._columns = tuple(columns)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._columns == other._columns

    def __hash__(self) -> int:
        return hash((type(self), self._columns))

    def within(self, before: Block | None, block: Block) -> Indexes:
        """The marked rows of a block behind another one."""
        raise NotImplementedError

    def of(self, before: Block | None, block: Block) -> int:
        """See `Summary`."""
        return len(self.within(before, block))

    def joined(self, known: Indexes | None, entries: Sequence[int]) -> Indexes:
        """See `Summary`."""
        fresh = np.array(entries, np.int64)
        return fresh if known is None else np.concatenate([known, fresh])

    def taken(self, known: Indexes, numbers: Indexes) -> Indexes:
        """See `Summary`."""
        return known[numbers]


class FirstOfPeers(_Counted):
    """Rows that differ from the one before them in the first terms."""

    def __init__(self, rows: SortedRows, terms: int) -> None:
        super().__init__([term.column for term in rows.terms[:terms]])
        self._types = [rows.types[i] for i in self._columns]

    def within(self, before: Block | None, block: Block) -> Indexes:
        steps = np.zeros(block.size, np.bool_)
        steps[0] = before is None
        if self._columns:
            columns = [block.columns[i] for i in self._columns]
            rows = np.arange(block.size - 1)
            steps[1:] = ~same_key(columns, rows, columns, rows + 1, self._types)
            steps[0] |= before is not None and self._differ(before, block)
        return np.flatnonzero(steps)

    def _differ(self, before: Block, block: Block) -> bool:
        row = np.zeros(1, np.int64)
        old, new = [[b.columns[i] for i in self._columns] for b in (before, block)]
        return not same_key(old, row + before.size - 1, new, row, self._types)[0]


class NotNull(_Counted):
    """Rows with a value in a column."""

    def __init__(self, column: int) -> None:
        super().__init__([column])

    def within(self, before: Block | None, block: Block) -> Indexes:
        valid = block.columns[self._columns[0]].valid
        return np.arange(block.size) if valid is None else np.flatnonzero(valid)


class Finite(_Counted):
    """Rows with a value in a column that is no infinity and no NaN (see `finite`)."""

    def __init__(self, column: int, type: ColumnType) -> None:
        super().__init__([column])
        self._type = type

    def within(self, before: Block | None, block: Block) -> Indexes:
        return np.flatnonzero(finite(block.columns[self._columns[0]], self._type))


def finite(column: Column, type: ColumnType) -> Mask:
    """A mask of the values that are neither NULL nor infinite nor NaN."""
    mask = not_null(column)
    if not isinstance(column, FixedColumn):
        return mask
    values = column.values
    if type.is_float:
        mask = mask & np.isfinite(values)
    elif type.is_date_or_timestamp:
        mask = mask & (np.abs(values) != np.iinfo(values.dtype).max)
    return mask
