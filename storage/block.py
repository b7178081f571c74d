"""A stretch of sorted rows, and how its rows are found."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ivm.storage.cells import Cell, cells, narrowed, stands_before
from ivm.storage.column import Column
from ivm.storage.ordering import Term

BLOCK = 1024  # rows of a block when it is made
MOST = 2 * BLOCK
LEAST = BLOCK // 8


class Block:
    """Sorted rows, every row of weight 1; never changed."""

    __slots__ = ("_cells", "columns", "size")

    def __init__(self, columns: tuple[Column, ...], size: int) -> None:
        self.columns = columns
        self.size = size
        self._cells: dict[int, Cell] = {}

    def cell(self, terms: Sequence[Term], number: int) -> Cell:
        """The reader of the column of one term."""
        found = self._cells.get(number)
        if found is None:
            term = terms[number]
            found = self._cells[number] = cells(self.columns[term.column], term)
        return found

    def key(self, terms: Sequence[Term], row: int, count: int) -> tuple[Any, ...]:
        """The cells of one row for the first terms."""
        return tuple([self.cell(terms, i)(row) for i in range(count)])

    def find(self, terms: Sequence[Term], key: Sequence[Any], right: bool) -> int:
        """The first row at or after the key (`right`: after), which may be of fewer terms."""
        low, high = 0, self.size
        for number, wanted in enumerate(key):
            low, high = narrowed(self.cell(terms, number), low, high, wanted, terms[number])
            if low == high:
                return low
        return high if right else low

    def begins_before(self, terms: Sequence[Term], key: Sequence[Any], right: bool) -> bool:
        """Whether the first row stands before the key; `right`: also if it has that key."""
        for number, wanted in enumerate(key):
            value = self.cell(terms, number)(0)
            if value != wanted:
                return stands_before(value, wanted, terms[number])
        return right


def cut(columns: tuple[Column, ...], size: int) -> list[Block]:
    """Blocks of sorted rows, which share their memory."""
    count = max(size // BLOCK, 1) if size else 0
    edges = [size * i // count for i in range(count + 1)] if count else []
    return [
        Block(tuple([c.slice(a, b) for c in columns]), b - a) for a, b in itertools.pairwise(edges)
    ]
