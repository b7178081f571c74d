"""Blocks of sorted rows: searching in one, and adding a sorted delta to a list of them.

Law: only blocks that the delta falls into are written anew; blocks that have grown are cut, and one
that has become small joins the one before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ivm.storage.values import thresholds
from ivm.storage.values.column import Column, Indexes, concat, concat_ranges
from ivm.storage.values.ordering.order import OrderTerm
from ivm.storage.values.ordering.sort_keys import cells, narrowed, ordered, words_of

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

    def head(self, terms: Sequence[OrderTerm]) -> tuple[Any, ...]:
        """The first row, as Python compares it with other first rows and `ordered` keys."""
        if self._head is None:
            columns = self.columns
            self._head = tuple([ordered(cells(columns[t.column], t)(0), t) for t in terms])
        return self._head

    def find(self, terms: Sequence[OrderTerm], key: Sequence[Any], right: bool) -> int:
        """The first row at or after the key (`right`: after), which may be of fewer terms."""
        low, high = 0, self.size
        for number, wanted in enumerate(key):
            low, high = self._narrowed(number, terms[number], low, high, wanted)
            if low == high:
                return low
        return high if right else low

    def _narrowed(
        self, number: int, term: OrderTerm, low: int, high: int, cell: Any
    ) -> tuple[int, int]:
        """The rows with the sort key in a range of rows that agree in the terms before this one."""
        if number not in self._words:
            self._words[number] = words_of(self.columns[term.column], term)
        words = self._words[number]
        if words is None or cell is None:
            return narrowed(cells(self.columns[term.column], term), low, high, cell, term)
        # Words descend as −1 − word ascends; most ranges begin or end with the wanted value, and
        # reading one word costs less than searching.
        wanted, read = -1 - cell if term.descending else cell, words.item
        if read(low) != wanted:
            low += int(words[low:high].searchsorted(wanted))
            if low == high or read(low) != wanted:
                return low, low
        if read(high - 1) != wanted:
            high = low + int(words[low:high].searchsorted(wanted, "right"))
        return low, high


def cut(columns: tuple[Column, ...], size: int) -> list[Block]:
    """Blocks of sorted rows; few of them share memory, many have their own.

    A block that outlives the others would else keep the rows of all in memory.
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


class Edited(NamedTuple):
    """Blocks after a delta.

    Attributes:
        blocks: all of them.
        kept: of each range of old blocks the number of the first one now, its number before, and
            the number before of the first one after the range. The last block of a range may have
            been joined to a new one, which then has its number (see `fresh`).
        fresh: the numbers of the new blocks.
    """

    blocks: list[Block]
    kept: list[tuple[int, int, int]]
    fresh: list[int]

    def sizes(self, starts: Indexes) -> Indexes:
        """The sizes of all blocks, given the first ranks of the old ones."""
        sizes = np.empty(len(self.blocks), np.int64)
        for number, first, stop in self.kept:
            before = starts[first : stop + 1]
            np.subtract(before[1:], before[:-1], out=sizes[number : number + stop - first])
        for number in self.fresh:
            sizes[number] = self.blocks[number].size
        return sizes

    def origin(self) -> Indexes:
        """The number each block had before, −1 for a new one."""
        origin = np.empty(len(self.blocks), np.int64)
        for number, first, stop in self.kept:
            origin[number : number + stop - first] = np.arange(first, stop)
        origin[self.fresh] = -1
        return origin


def edited(
    blocks: list[Block],
    starts: Indexes,
    rows: Sequence[Column],
    at: Indexes,
    end: Indexes,
    weights: Indexes,
) -> Edited:
    """The blocks after a sorted delta.

    Args:
        blocks: at least one.
        starts: their first ranks, and the end.
        rows: the delta's distinct rows.
        at: the rank before which each is inserted, or the first rank that is removed.
        end: the rank after the last one that is removed.
        weights: of the rows, not 0.
    """
    result: list[Block] = []
    kept: list[tuple[int, int, int]] = []
    fresh: list[int] = []
    done = 0
    for first, last, begin, stop in _edited_ranges(starts, at, end):
        kept.append((len(result), done, first))
        result += blocks[done:first]
        shifted = at[begin:stop] - starts[first]
        some = blocks[first : last + 1]
        columns, size = _rewritten(some, rows, shifted, weights[begin:stop], begin)
        # A small rest joins the block before it, so that blocks do not shrink one by one.
        if 0 < size < LEAST and result and size + result[-1].size <= MOST:
            pairs = zip(result[-1].columns, columns, strict=True)
            columns = tuple([concat(pair) for pair in pairs])
            size += result.pop().size
        new = [Block(columns, size)] if 0 < size <= MOST else cut(columns, size)
        fresh += range(len(result), len(result) + len(new))
        result += new
        done = last + 1
    kept.append((len(result), done, len(blocks)))
    result += blocks[done:]
    return Edited(result, kept, fresh)


def _rewritten(
    blocks: list[Block],
    rows: Sequence[Column],
    at: Indexes,
    weights: Indexes,
    first: int,
) -> tuple[tuple[Column, ...], int]:
    """The blocks' rows with a part of the delta, that from row `first` on, added."""
    size = sum([block.size for block in blocks])
    columns = []
    new = size + int(weights.sum())
    # Few changes leave long ranges, which are copied as slices; many are one gather by index.
    if len(at) <= thresholds.BLOCK_EDITS:
        pieces = _pieces(size, first, at.tolist(), weights.tolist())
        for number, column in enumerate(rows):
            sources = concat([block.columns[number] for block in blocks]), column
            columns.append(concat_ranges([(sources[i], a, b) for i, a, b in pieces]))
        return tuple(columns), new
    order = _order(size, at, weights)
    for number, column in enumerate(rows):
        parts = [block.columns[number] for block in blocks]
        columns.append(concat([*parts, column.slice(first, first + len(at))]).take(order))
    return tuple(columns), new


def _pieces(size: int, row: int, at: list[int], weights: list[int]) -> list[tuple[int, int, int]]:
    """Ranges of `size` rows (0) and of a delta's (1), from `row` on, that make up the new rows."""
    pieces, done = [], 0
    for rank, weight in zip(at, weights, strict=True):
        if rank > done:
            pieces.append((0, done, rank))
        done = rank - min(weight, 0)
        pieces += [(1, row, row + 1)] * weight
        row += 1
    if size > done or not pieces:
        pieces.append((0, done, size))
    return pieces


def _order(size: int, at: Indexes, weights: Indexes) -> Indexes:
    """The order 0 … size−1 less the removed rows, with the delta's rows size + i inserted."""
    # +1 where a removed range begins and −1 after its end: the running sum is positive inside.
    kept = np.ones(size, np.bool_)
    gone = np.flatnonzero(weights < 0)
    edges = np.zeros(size + 1, np.int64)
    np.add.at(edges, at[gone], 1)
    np.add.at(edges, at[gone] - weights[gone], -1)
    kept[np.cumsum(edges[:-1]) > 0] = False
    come = np.flatnonzero(weights > 0)
    new = np.repeat(come, weights[come])
    # A new row comes after the kept rows before its position and after the new rows before it.
    before = np.concatenate([[0], np.cumsum(kept)])
    ranks = before[at[new]] + np.arange(len(new))
    order = np.empty(int(before[-1]) + len(new), np.int64)
    fresh = np.zeros(len(order), np.bool_)
    fresh[ranks] = True
    order[fresh] = new + size
    order[~fresh] = np.flatnonzero(kept)
    return order


def _edited_ranges(starts: Indexes, at: Indexes, end: Indexes) -> list[tuple[int, int, int, int]]:
    """The blocks to be rewritten together, first and last, and the delta's rows for them."""
    owners = starts[:-1].searchsorted(at, "right") - 1
    ends = np.maximum(starts.searchsorted(end) - 1, owners)
    if len(owners) == 1:
        return [(int(owners[0]), int(ends[0]), 0, 1)]
    # A group ends before a row whose block lies after all that the rows before it touch.
    reach = np.maximum.accumulate(ends)
    # Many changes: rewrite the blocks between them too.
    gap = 0 if len(owners) <= thresholds.REWRITTEN_ROWS else 4
    begins = (owners[1:] > reach[:-1] + gap).nonzero()[0] + 1
    first = [0, *begins.tolist()]
    stops = [*begins.tolist(), len(owners)]
    return [(int(owners[a]), int(reach[b - 1]), a, b) for a, b in zip(first, stops, strict=True)]
