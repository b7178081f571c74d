"""Rows in one total order, addressed by rank: an immutable list of sorted blocks.

Law: rank p (from 0) holds the p-th row of the multiset in the order of the terms; a row of weight
w has w ranks. Versions stand side by side and share every block that no change touched; a change of
few rows copies their blocks and the list of blocks, so it costs little whatever the number of rows.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ivm.storage.errors import InternalError
from ivm.storage.ordered.blocks import Block, cut, edited
from ivm.storage.ordered.gather import RowSlice
from ivm.storage.values import thresholds
from ivm.storage.values.column import Column, Indexes, Mask, concat, empty_column
from ivm.storage.values.key_codes import same_row
from ivm.storage.values.ordering.compare_rows import lower_bounds
from ivm.storage.values.ordering.order import Columns, OrderTerm
from ivm.storage.values.ordering.ranges import offsets
from ivm.storage.values.ordering.sort import sort_rows
from ivm.storage.values.ordering.sort_keys import LAST, all_cells, ordered
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add


class Summary(Protocol):
    """A summary of blocks: one entry a block, in some sequence of entries."""

    def of(self, before: Block | None, block: Block) -> Any:
        """The entry of a block behind another one."""

    def joined(self, known: Any, entries: Sequence[Any]) -> Any:
        """A sequence (or None) with entries behind it."""

    def taken(self, known: Any, numbers: Indexes) -> Any:
        """The entries of the given numbers."""


class SortedRows:
    """Rows by rank; every method leaves it as it is.

    Attributes:
        types: of the columns.
        terms: of the total order.
        blocks: the rows.
        starts: each block's first rank, and the end.
    """

    __slots__ = ("_known", "_near", "blocks", "starts", "terms", "types")

    def __init__(
        self,
        types: Sequence[ColumnType],
        terms: Sequence[OrderTerm],
        blocks: list[Block],
        sizes: Indexes | None = None,
    ) -> None:
        self.types = tuple(types)
        self.terms = tuple(terms)
        self.blocks = blocks
        self.starts = np.zeros(len(blocks) + 1, np.int64)
        given = [block.size for block in blocks] if sizes is None else sizes
        np.asarray(given, np.int64).cumsum(out=self.starts[1:])
        self._near = 0  # the block of the last search
        self._known: dict[Summary, tuple[Any, int, Indexes | None]] = {}

    @staticmethod
    def build(
        types: Sequence[ColumnType], terms: Sequence[OrderTerm], chunks: Sequence[ZSet]
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
        return SortedRows(types, terms, cut(rows, int(weights.sum())))

    @staticmethod
    def of(
        types: Sequence[ColumnType], terms: Sequence[OrderTerm], columns: tuple[Column, ...]
    ) -> SortedRows:
        """The rows of columns that are in order, each of weight 1."""
        return SortedRows(types, terms, cut(columns, len(columns[0])))

    @property
    def columns(self) -> tuple[Column, ...]:
        """All rows in order, in columns."""
        parts = zip(*[block.columns for block in self.blocks], strict=True)
        return tuple([concat(part) for part in parts] or [empty_column(t) for t in self.types])

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return sum(column.nbytes for block in self.blocks for column in block.columns)

    # Finding

    def find_all(
        self, columns: Columns, count: int, right: bool | Mask, terms: int | None = None
    ) -> Indexes:
        """The first rank at or after each of several rows (`right`: after it).

        Args:
            columns: by position; those of the terms are read.
            count: the number of rows.
            right: one for all, or one a row.
            terms: the number of first terms to compare; None for all, that is for whole rows.
        """
        own = self.terms[:terms]
        if not self.blocks:
            return np.zeros(count, np.int64)
        if count <= thresholds.BLOCK_CHOICES:
            sides = [right] * count if isinstance(right, bool) else right.tolist()
            return _Probe(columns, count, own).ranks(self, sides)
        every, none = np.arange(count), np.zeros(count, np.int64)
        heads = self.summary(_Heads(self.types))
        number = np.full(count, len(self.blocks))
        number = lower_bounds(heads, none, number, columns, every, own, right=right)
        owners = np.maximum(number - 1, 0)
        touched, which = np.unique(owners, return_inverse=True)
        sizes = (self.starts[1:] - self.starts[:-1])[touched]
        begins = offsets(sizes)
        rows = RowSlice.ranges(self, self.starts[touched], self.starts[touched + 1])
        low = begins[which]
        found = lower_bounds(rows, low, low + sizes[which], columns, every, own, right=right)
        ranks: Indexes = found - low + self.starts[owners]
        return ranks

    def find_ranges(self, columns: Columns, count: int, terms: int) -> tuple[Indexes, Indexes]:
        """The range of ranks that agree with each of several rows in the first terms."""
        if count > thresholds.BLOCK_CHOICES or not self.blocks:
            low, high = [self.find_all(columns, count, right, terms) for right in (False, True)]
            return low, high
        probe = _Probe(columns, count, self.terms[:terms])
        return probe.ranks(self, [False] * count), probe.ranks(self, [True] * count)

    def owner(self, key: tuple[Any, ...]) -> int:
        """The last block that begins before a key (of `ordered` sort keys), −1 if none does."""
        blocks, terms, near = self.blocks, self.terms, self._near
        if blocks[near].head(terms) < key:
            if near + 1 == len(blocks) or not blocks[near + 1].head(terms) < key:
                return near
            low, high = near + 2, len(blocks)
        else:
            low, high = 0, near
        number = bisect_left(blocks, key, low, high, key=lambda block: block.head(terms)) - 1
        self._near = max(number, 0)
        return number

    # Summaries

    def summary(self, of: Summary) -> Any:
        """The entries of all blocks; those of an earlier version are not made again.

        Args:
            of: an equal one asks for the same entries again.
        """
        blocks = self.blocks
        known, count, origin = self._known.get(of, (None, 0, np.full(len(blocks), -1)))
        if origin is not None:
            kept = origin >= 0
            kept[:1] &= origin[:1] == 0
            kept[1:] &= origin[1:] == origin[:-1] + 1  # after the same block as before
            fresh = np.flatnonzero(~kept)
            entries = [of.of(blocks[i - 1] if i else None, blocks[i]) for i in fresh.tolist()]
            numbers = origin.copy()
            numbers[fresh] = np.arange(count, count + len(fresh))
            known = of.taken(of.joined(known, entries), numbers)
            self._known[of] = known, len(blocks), None
        return known

    # Changing

    def changed(
        self, rows: Sequence[Column], at: Indexes, end: Indexes, weights: Indexes
    ) -> SortedRows:
        """The rows with a sorted delta added.

        Args:
            rows: its distinct rows.
            at: the rank before which each is inserted, or the first rank that is removed.
            end: the rank after the last one that is removed.
            weights: of the rows, not 0.
        """
        if not self.blocks:
            inserted = [c.take(np.repeat(np.arange(len(at)), weights)) for c in rows]
            return SortedRows(self.types, self.terms, cut(tuple(inserted), int(weights.sum())))
        edits = edited(self.blocks, self.starts, rows, at, end, weights)
        changed = SortedRows(self.types, self.terms, edits.blocks, edits.sizes(self.starts))
        changed._near = min(self._near, max(len(edits.blocks) - 1, 0))
        if self._known:
            origin = edits.origin()
            for of, (known, count, earlier) in self._known.items():
                numbers = origin if earlier is None else np.where(origin >= 0, earlier[origin], -1)
                changed._known[of] = known, count, numbers
        return changed


class _Probe:
    """A search for rows, one by one or block by block.

    Args:
        columns: of the rows.
        count: their number.
        terms: the terms that are compared.
    """

    def __init__(self, columns: Columns, count: int, terms: Sequence[OrderTerm]) -> None:
        self._columns, self._terms = columns, terms
        values = [all_cells(columns[term.column], term) for term in terms]
        pairs = zip(values, terms, strict=True)
        heads = [[ordered(cell, term) for cell in column] for column, term in pairs]
        self._keys = list(zip(*values, strict=True)) or [()] * count
        self._heads = list(zip(*heads, strict=True)) or [()] * count

    def ranks(self, rows: SortedRows, sides: list[bool]) -> Indexes:
        """The ranks where the rows belong; a side says whether after all equal rows."""
        pairs = zip(self._heads, sides, strict=True)
        owners = [rows.owner((*head, LAST) if side else head) for head, side in pairs]
        if len(owners) <= thresholds.BLOCK_SEARCHES:
            found = [self._found(rows, number, i, sides[i]) for i, number in enumerate(owners)]
            return np.array(found, np.int64)
        found = []
        for number, part in itertools.groupby(owners):
            which = range(len(found), len(found) + len(list(part)))
            if len(which) <= thresholds.BLOCK_SEARCHES or number < 0:
                found += [self._found(rows, number, i, sides[i]) for i in which]
            else:
                found += self._all_found(rows, number, which, sides)
        return np.array(found, np.int64)

    def _found(self, rows: SortedRows, number: int, row: int, right: bool) -> int:
        """The rank of a row that belongs into a block, or before all."""
        if number < 0:
            return 0
        inside = rows.blocks[number].find(self._terms, self._keys[row], right)
        return rows.starts.item(number) + inside

    def _all_found(
        self, rows: SortedRows, number: int, which: range, sides: list[bool]
    ) -> list[int]:
        every, block = np.arange(which.start, which.stop), rows.blocks[number]
        low, high = np.zeros(len(every), np.int64), np.full(len(every), block.size)
        given = block.columns, low, high, self._columns, every, self._terms
        inside = lower_bounds(*given, right=np.array(sides[which.start : which.stop]))
        ranks: list[int] = (inside + rows.starts[number]).tolist()
        return ranks


class _Heads:
    """The first row of every block."""

    def __init__(self, types: Sequence[ColumnType]) -> None:
        self._types = tuple(types)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Heads)

    def __hash__(self) -> int:
        return hash(_Heads)

    def of(self, before: Block | None, block: Block) -> Block:
        return block

    def joined(
        self, known: tuple[Column, ...] | None, entries: Sequence[Block]
    ) -> tuple[Column, ...]:
        columns = []
        for i, type in enumerate(self._types):
            old = [] if known is None else [known[i]]
            parts = [*old, *[block.columns[i].slice(0, 1) for block in entries]]
            columns.append(concat(parts) if parts else empty_column(type))
        return tuple(columns)

    def taken(self, known: tuple[Column, ...], numbers: Indexes) -> tuple[Column, ...]:
        return tuple([column.take(numbers) for column in known])


def sorted_sum(batch: ZSet, terms: Sequence[OrderTerm]) -> tuple[tuple[Column, ...], Indexes]:
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
        live = weights.nonzero()[0]
        order, weights = order[live], weights[live]
    return tuple([c.take(order) for c in batch.columns]), weights


def demand_present(
    rows: SortedRows, columns: Sequence[Column], stops: Indexes, weights: Indexes
) -> None:
    """Checks that the rows to be removed are there: those before the ranks `stops`.

    Raises:
        InternalError: it is not.
    """
    ranks = stops + weights
    missing = ranks < 0
    held = RowSlice(rows, np.maximum(ranks, 0)) if len(rows) else columns
    every = np.arange(len(stops))
    same = same_row([held[i] for i in range(len(columns))], every, columns, every, rows.types)
    missing |= ~same
    if missing.any():
        raise _absent(int(missing.sum()))


def _absent(count: int) -> InternalError:
    return InternalError(
        f"A change takes away {count} row(s) that an ordered state does not hold. "
        "Please report this with the statement that led to it."
    )
