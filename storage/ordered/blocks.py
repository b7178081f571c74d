"""A stretch of sorted rows, and how its rows are found."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ivm.storage.values.column import Column, Indexes
from ivm.storage.values.order import Term
from ivm.storage.values.sort_keys import cells, narrowed, ordered, words_of

BLOCK = 1024  # rows of a block when it is made
MOST = 2 * BLOCK
LEAST = BLOCK // 8
_SHARING = 8  # blocks made at once, up to which they share their memory


class Block:
    """Sorted rows, every row of weight 1; never changed."""

    __slots__ = ("_head", "_words", "columns", "size")

    def __init__(self, columns: tuple[Column, ...], size: int) -> None:
        self.columns = columns
        self.size = size
        self._head: tuple[Any, ...] | None = None
        self._words: dict[int, Indexes | None] = {}

    def head(self, terms: Sequence[Term]) -> tuple[Any, ...]:
        """The first row, as Python compares it with other heads and `ordered` keys."""
        if self._head is None:
            columns = self.columns
            self._head = tuple([ordered(cells(columns[t.column], t)(0), t) for t in terms])
        return self._head

    def find(self, terms: Sequence[Term], key: Sequence[Any], right: bool) -> int:
        """The first row at or after the key (`right`: after), which may be of fewer terms."""
        low, high = 0, self.size
        for number, wanted in enumerate(key):
            low, high = self._narrowed(number, terms[number], low, high, wanted)
            if low == high:
                return low
        return high if right else low

    def _narrowed(self, number: int, term: Term, low: int, high: int, cell: Any) -> tuple[int, int]:
        """The rows of a range, which agree in the terms before this one, that have the cell."""
        if number not in self._words:
            self._words[number] = words_of(self.columns[term.column], term)
        words = self._words[number]
        if words is None or cell is None:
            return narrowed(cells(self.columns[term.column], term), low, high, cell, term)
        wanted, read = -1 - cell if term.descending else cell, words.item
        if read(low) != wanted:
            low += int(words[low:high].searchsorted(wanted))
            if low == high or read(low) != wanted:
                return low, low
        if read(high - 1) != wanted:
            high = low + int(words[low:high].searchsorted(wanted, "right"))
        return low, high


def cut(columns: tuple[Column, ...], size: int) -> list[Block]:
    """Blocks of sorted rows; many have memory of their own, few share it.

    A block that stays would else hold on to the rows of all that were made with it.
    """
    count = max(size // BLOCK, 1) if size else 0
    edges = [size * i // count for i in range(count + 1)] if count else []
    part = _copied if count > _SHARING else _sliced
    return [Block(part(columns, a, b), b - a) for a, b in itertools.pairwise(edges)]


def _sliced(columns: tuple[Column, ...], start: int, stop: int) -> tuple[Column, ...]:
    return tuple([c.slice(start, stop) for c in columns])


def _copied(columns: tuple[Column, ...], start: int, stop: int) -> tuple[Column, ...]:
    rows = np.arange(start, stop)
    return tuple([c.take(rows) for c in columns])
