"""Rows in one total order, addressed by their place: an immutable list of sorted blocks.

Law: place p (from 0) holds the p-th row of the multiset in the order of the terms; a row of weight
w takes w places. Versions stand side by side and share every block that no change touched; a change
of few rows copies their blocks and the list of blocks: it costs little whatever the number of rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from ivm.storage.cells import Cell, cells, narrowed, stands_before
from ivm.storage.codes import same_key
from ivm.storage.column import Column, Indexes, concat, empty_column
from ivm.storage.comparing import lower_bounds
from ivm.storage.errors import InternalError
from ivm.storage.ordering import Term, sort_rows
from ivm.storage.types import ColumnType
from ivm.storage.zset import ZSet, add

BLOCK = 1024  # rows of a block when it is made
_MOST = 2 * BLOCK
_LEAST = BLOCK // 8
MANY = 64  # changed rows from which on whole stretches are merged at once


class Block:
    """A stretch of sorted rows, every row of weight 1; never changed.

    Attributes:
        summaries: what readers worked out about the block, by their own keys.
    """

    __slots__ = ("_cells", "columns", "size", "summaries")

    def __init__(self, columns: tuple[Column, ...], size: int) -> None:
        self.columns = columns
        self.size = size
        self.summaries: dict[Hashable, Any] = {}
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


class SortedRows:
    """Rows by place; every method leaves it as it is.

    Attributes:
        types: of the columns.
        terms: of the total order.
    """

    __slots__ = ("_blocks", "_earlier", "_starts", "_sums", "terms", "types")

    def __init__(
        self, types: Sequence[ColumnType], terms: Sequence[Term], blocks: list[Block]
    ) -> None:
        self.types = tuple(types)
        self.terms = tuple(terms)
        self._blocks = blocks
        self._sums: dict[Hashable, Indexes] = {}
        self._earlier: tuple[dict[Hashable, Indexes], int, int] = ({}, 0, 0)
        self._starts = np.zeros(len(blocks) + 1, np.int64)
        np.cumsum([block.size for block in blocks], out=self._starts[1:])

    @staticmethod
    def build(
        types: Sequence[ColumnType], terms: Sequence[Term], chunks: Sequence[ZSet]
    ) -> SortedRows:
        """The rows of the chunks' sum."""
        kept = [chunk for chunk in chunks if len(chunk)]
        if not kept:
            return SortedRows(types, terms, [])
        rows, weights = sorted_sum(add(kept), terms)
        if not (weights == 1).all():
            if (weights < 0).any():
                raise _absent(1)
            rows = tuple([c.take(np.repeat(np.arange(len(weights)), weights)) for c in rows])
        return SortedRows(types, terms, _cut(rows, int(weights.sum())))

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return sum(column.nbytes for block in self._blocks for column in block.columns)

    # Reading

    def find(self, key: Sequence[Any], right: bool = False) -> int:
        """The first place at or after a key (`right`: after it).

        Args:
            key: cells of the first terms.
        """
        blocks, terms = self._blocks, self.terms
        low, high = 0, len(blocks)
        while low < high:
            middle = (low + high) >> 1
            if blocks[middle].begins_before(terms, key, right):
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return 0
        return int(self._starts[low - 1]) + blocks[low - 1].find(terms, key, right)

    def find_all(self, columns: Sequence[Column], right: bool) -> Indexes:
        """As `find` for whole rows, which are sorted."""
        count = len(columns[0])
        if count <= MANY:
            probe = Block(tuple(columns), count)
            keys = [probe.key(self.terms, i, len(self.terms)) for i in range(count)]
            return np.array([self.find(key, right) for key in keys], np.int64)
        whole = [self.column(i, 0, len(self)) for i in range(len(self.types))]
        starts, stops = np.zeros(count, np.int64), np.full(count, len(self))
        every = np.arange(count)
        return lower_bounds(whole, starts, stops, columns, every, self.terms, right=right)

    def key_at(self, place: int, count: int) -> tuple[Any, ...]:
        """The cells of the row at a place for the first `count` terms."""
        number = self._number(place)
        return self._blocks[number].key(self.terms, place - int(self._starts[number]), count)

    def pieces(self, start: int, stop: int) -> Iterator[tuple[Block, int, int]]:
        """The blocks that hold the places of a range, and which of their rows these are."""
        if start >= stop:
            return
        number = self._number(start)
        at = int(self._starts[number])
        while at < stop:
            block = self._blocks[number]
            yield block, max(start - at, 0), min(stop - at, block.size)
            at += block.size
            number += 1

    def column(self, number: int, start: int, stop: int) -> Column:
        """One column of the rows at a range of places."""
        parts = [block.columns[number].slice(a, b) for block, a, b in self.pieces(start, stop)]
        return concat(parts) if parts else empty_column(self.types[number])

    def take(self, number: int, places: Indexes) -> Column:
        """One column of the rows at the given places, in any order."""
        if len(places) == 0:
            return empty_column(self.types[number])
        low, high = int(places.min()), int(places.max()) + 1
        if high - low <= 4 * len(places) + BLOCK:
            return self.column(number, low, high).take(places - low)
        order = np.argsort(places, kind="stable")
        ordered = places[order]
        owners = self._starts.searchsorted(ordered, "right") - 1
        begins = np.flatnonzero(np.diff(owners, prepend=-1))
        parts = []
        for first, end in zip(begins.tolist(), [*begins[1:].tolist(), len(owners)], strict=True):
            block = self._blocks[owners[first]]
            inside = ordered[first:end] - self._starts[owners[first]]
            parts.append(block.columns[number].take(inside))
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return concat(parts).take(back)

    def changes(self, start: int, stop: int, outer: int, inner: int) -> int:
        """How many rows of a range differ from the row before in the terms up to `inner`.

        Args:
            start: where the row before counts as different.
            outer: the first terms, on which all rows of the range agree.
        """
        terms = self.terms[outer:inner]
        columns = [term.column for term in terms]
        count, previous = 0, None
        for block, low, high in self.pieces(start, stop):
            whole = low == 0 and high == block.size
            known = block.summaries.get(("changes", outer, inner)) if whole else None
            if known is None:
                known = _steps(block, columns, self.types, low, high)
                if whole:
                    block.summaries["changes", outer, inner] = known
            key = block.key(self.terms, low, inner)
            count += known + (key != previous)
            previous = block.key(self.terms, high - 1, inner)
        return count

    def sums(self, key: Hashable, of: Callable[[Block], Indexes]) -> tuple[Indexes, Indexes]:
        """Running sums over whole blocks; those of the version before are gone on with.

        Args:
            key: of the reader, who asks for the same sums again.
            of: a block's int64[lanes]; it may grow more lanes, which are zero where they miss.

        Returns:
            Each block's first place (and the end), and int64[blocks + 1, lanes], the sums before.
        """
        known = self._sums.get(key)
        if known is None:
            earlier, first, last = self._earlier
            old = earlier.get(key)
            head = np.zeros((1, 0), np.int64) if old is None else old[: first + 1]
            until = len(self._blocks) if old is None else len(self._blocks) - last
            parts = [of(block) for block in self._blocks[len(head) - 1 : until]]
            width = max([head.shape[1], *[len(part) for part in parts]])
            known = np.zeros((len(self._blocks) + 1, width), np.int64)
            known[: len(head), : head.shape[1]] = head
            for number, part in enumerate(parts, len(head)):
                known[number] = known[number - 1]
                known[number, : len(part)] += part
            if old is not None and last:
                tail = old[-last:] - old[-last - 1]
                known[until + 1 :] = known[until]
                known[until + 1 :, : tail.shape[1]] += tail
            self._sums[key] = known
        return self._starts, known

    def _number(self, place: int) -> int:
        """The block that holds a place."""
        return int(self._starts.searchsorted(place, "right")) - 1

    # Changing

    def changed(self, rows: Sequence[Column], at: Indexes, weights: Indexes) -> SortedRows:
        """The rows with a sorted delta added.

        Args:
            rows: its distinct rows.
            at: before which place each is inserted; the first place it is removed from.
            weights: how often, not 0.
        """
        count = len(self._blocks)
        if count == 0:
            inserted = [c.take(np.repeat(np.arange(len(at)), weights)) for c in rows]
            return SortedRows(self.types, self.terms, _cut(tuple(inserted), int(weights.sum())))
        owners = self._starts.searchsorted(at, "right") - 1
        ends = self._starts.searchsorted(at - np.minimum(weights, 0), "left") - 1
        owners = np.minimum(owners, count - 1)
        ends = np.minimum(np.maximum(ends, owners), count - 1)
        blocks = list(self._blocks)
        stretches = _stretches(owners, ends)
        head, tail = stretches[0][0], count - 1 - stretches[-1][1]
        for first, last, begin, end in reversed(stretches):
            start = int(self._starts[first])
            columns, size = self._edited(
                blocks[first : last + 1], rows, at[begin:end] - start, weights[begin:end], begin
            )
            if size < _LEAST and first > 0 and size + blocks[first - 1].size <= _MOST:
                first -= 1
                joined = zip(blocks[first].columns, columns, strict=True)
                columns = tuple([concat(pair) for pair in joined])
                size += blocks[first].size
            whole = size <= _MOST
            fresh = [Block(columns, size)] if whole and size else _cut(columns, size)
            blocks[first : last + 1] = fresh
            head = min(head, first)
        changed = SortedRows(self.types, self.terms, blocks)
        changed._earlier = (self._sums, head, tail)
        return changed

    def _edited(
        self,
        blocks: list[Block],
        rows: Sequence[Column],
        at: Indexes,
        weights: Indexes,
        first: int,
    ) -> tuple[tuple[Column, ...], int]:
        """The blocks' rows with a part of the delta, that from row `first` on, added."""
        size = sum([block.size for block in blocks])
        delta = slice(first, first + len(at))
        columns = []
        new = size + int(weights.sum())
        if len(at) <= _FEW:
            edits = list(zip(at.tolist(), weights.tolist(), strict=True))
            for number, column in enumerate(rows):
                old = concat([block.columns[number] for block in blocks])
                columns.append(_spliced(old, column, first, edits, size))
            return tuple(columns), new
        order = _order(size, at, weights)
        for number, column in enumerate(rows):
            parts = [block.columns[number] for block in blocks]
            columns.append(concat([*parts, column.slice(delta.start, delta.stop)]).take(order))
        return tuple(columns), new


_FEW = 8


def _steps(
    block: Block, columns: list[int], types: Sequence[ColumnType], low: int, high: int
) -> int:
    """Rows low + 1 … high − 1 of a block that differ in some column from the one before."""
    parts = [block.columns[i] for i in columns]
    rows = np.arange(low, high - 1)
    return int((~same_key(parts, rows, parts, rows + 1, [types[i] for i in columns])).sum())


def _spliced(
    old: Column, rows: Column, first: int, edits: list[tuple[int, int]], size: int
) -> Column:
    parts, done = [], 0
    for number, (at, weight) in enumerate(edits):
        if at > done:
            parts.append(old.slice(done, at))
        done = at - min(weight, 0)
        row = first + number
        if weight == 1:
            parts.append(rows.slice(row, row + 1))
        elif weight > 1:
            parts.append(rows.take(np.full(weight, row)))
    if size > done or not parts:
        parts.append(old.slice(done, size))
    return concat(parts)


def _order(size: int, at: Indexes, weights: Indexes) -> Indexes:
    """Places 0 … size−1 less the removed ones, with the delta's rows size + i between them."""
    kept = np.ones(size, np.bool_)
    gone = np.flatnonzero(weights < 0)
    edges = np.zeros(size + 1, np.int64)
    np.add.at(edges, at[gone], 1)
    np.add.at(edges, at[gone] - weights[gone], -1)
    kept[np.cumsum(edges[:-1]) > 0] = False
    come = np.flatnonzero(weights > 0)
    new = np.repeat(come, weights[come])
    before = np.concatenate([[0], np.cumsum(kept)])
    places = before[at[new]] + np.arange(len(new))
    order = np.empty(int(before[-1]) + len(new), np.int64)
    fresh = np.zeros(len(order), np.bool_)
    fresh[places] = True
    order[fresh] = new + size
    order[~fresh] = np.flatnonzero(kept)
    return order


def _stretches(owners: Indexes, ends: Indexes) -> list[tuple[int, int, int, int]]:
    """Neighbouring blocks to be rewritten together: first and last block, and the delta's rows."""
    if len(owners) == 1:
        return [(int(owners[0]), int(ends[0]), 0, 1)]
    reach = np.maximum.accumulate(ends)
    gap = 0 if len(owners) <= MANY else 4  # many changes: rewrite what lies between them too
    begins = np.flatnonzero(owners[1:] > reach[:-1] + gap) + 1
    starts = [0, *begins.tolist()]
    stops = [*begins.tolist(), len(owners)]
    return [(int(owners[a]), int(reach[b - 1]), a, b) for a, b in zip(starts, stops, strict=True)]


def _cut(columns: tuple[Column, ...], size: int) -> list[Block]:
    """Blocks of sorted rows, which share their memory."""
    count = max(size // BLOCK, 1) if size else 0
    edges = [size * i // count for i in range(count + 1)] if count else []
    return [
        Block(tuple([c.slice(a, b) for c in columns]), b - a) for a, b in itertools.pairwise(edges)
    ]


def sorted_sum(batch: ZSet, terms: Sequence[Term]) -> tuple[tuple[Column, ...], Indexes]:
    """A batch's distinct rows in order, with their net weights (none of them 0)."""
    weights = batch.weights
    if len(weights) == 1:
        return batch.columns, weights
    order, begins = sort_rows(np.zeros(len(weights), np.int64), batch.columns, terms)
    if len(begins) < len(order):
        weights = np.add.reduceat(weights[order], begins)
        order = order[begins]
    else:
        weights = weights[order]
    if not weights.all():
        live = np.flatnonzero(weights)
        order, weights = order[live], weights[live]
    return tuple([c.take(order) for c in batch.columns]), weights


def demand_present(rows: SortedRows, low: Indexes, high: Indexes, weights: Indexes) -> None:
    """Check that what is to be removed is there: places low … high hold each row.

    Raises:
        InternalError: it is not.
    """
    missing = np.flatnonzero(high - low + weights < 0)
    if len(missing):
        raise _absent(len(missing))


def _absent(count: int) -> InternalError:
    return InternalError(
        f"A change takes away {count} row(s) that an ordered state does not hold. "
        "Please report this with the statement that led to it."
    )
