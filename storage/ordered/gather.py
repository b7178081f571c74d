"""The columns of sorted rows of some ranks, gathered at first use.

Contract: a column is gathered block by block, so its cost follows the number of ranks and the
blocks that they lie in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ivm.storage.ordered.blocks import Block
from ivm.storage.values import thresholds
from ivm.storage.values.column import Column, Indexes, concat_ranges, empty_column
from ivm.storage.values.ordering.ranges import begins_of, expand
from ivm.storage.values.types import ColumnType


class Rows(Protocol):
    """Rows in blocks (see `SortedRows`)."""

    @property
    def types(self) -> Sequence[ColumnType]: ...

    @property
    def blocks(self) -> Sequence[Block]: ...

    @property
    def starts(self) -> Indexes: ...


class RowSlice:
    """The columns of the rows of some ranks, each gathered at first use.

    Args:
        rows: all rows.
        ranks: the ranks, in any order, also several times.
    """

    def __init__(self, rows: Rows, ranks: Indexes) -> None:
        self._types = rows.types
        self._count = len(ranks)
        self._back: Indexes | None = None
        self._columns: dict[int, Column] = {}
        if self._count < 2:
            self._pieces = [piece for p in ranks.tolist() for piece in _range(rows, p, p + 1)]
            return
        least = int((ranks[1:] - ranks[:-1]).min())
        if least < 0:  # gathered in ascending order, and put back into the given one
            order = np.argsort(ranks, kind="stable")
            self._back = np.empty(len(order), np.int64)
            self._back[order] = np.arange(len(order))
            ranks = ranks[order]
        elif least == 1 and ranks[-1] - ranks[0] == self._count - 1:
            self._pieces = _range(rows, int(ranks[0]), int(ranks[-1]) + 1)
            return
        self._pieces = _pieces(rows, ranks)

    @staticmethod
    def ranges(rows: Rows, starts: Indexes, stops: Indexes) -> RowSlice:
        """The rows of ranges of ranks, one range after the other."""
        if len(starts) > thresholds.CUT_RANGES:
            return RowSlice(rows, expand(starts, stops)[1])
        pairs = list(zip(starts.tolist(), stops.tolist(), strict=True))
        pieces = [piece for start, stop in pairs for piece in _range(rows, start, stop)]
        return RowSlice._of(rows.types, pieces, sum([max(b - a, 0) for a, b in pairs]))

    @staticmethod
    def _of(types: Sequence[ColumnType], pieces: list[_Piece], count: int) -> RowSlice:
        made = RowSlice.__new__(RowSlice)
        made._types, made._pieces, made._count = types, pieces, count
        made._back, made._columns = None, {}
        return made

    def followed(self, others: RowSlice) -> RowSlice:
        """Appends other rows; the ranks of both ascend."""
        assert self._back is None
        assert others._back is None
        return self._of(self._types, self._pieces + others._pieces, len(self) + len(others))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Column:
        found = self._columns.get(number)
        if found is None:
            found = self._columns[number] = self._gathered(number)
        return found

    def _gathered(self, number: int) -> Column:
        if not self._pieces:
            return empty_column(self._types[number])
        ranges: list[tuple[Column, int, int]] = []
        for block, low, high, inside in self._pieces:
            column = block.columns[number]
            if inside is not None:
                column, low, high = column.take(inside), 0, len(inside)
            ranges.append((column, low, high))
        whole = concat_ranges(ranges)
        return whole if self._back is None else whole.take(self._back)


_Piece = tuple[Block, int, int, Indexes | None]  # rows of a block: a range, or some


def _range(rows: Rows, start: int, stop: int) -> list[_Piece]:
    """The pieces of a range of ranks."""
    pieces: list[_Piece] = []
    if start >= stop:
        return pieces
    number = int(rows.starts.searchsorted(start, "right")) - 1
    at = int(rows.starts[number])
    while at < stop:
        block = rows.blocks[number]
        pieces.append((block, max(start - at, 0), min(stop - at, block.size), None))
        at += block.size
        number += 1
    return pieces


def _pieces(rows: Rows, ranks: Indexes) -> list[_Piece]:
    """The pieces of ascending ranks."""
    if not len(ranks):
        return []
    # The number of gaps before each rank: a block's ranks without a gap among them are a slice.
    uneven = np.zeros(len(ranks), np.int64)
    (ranks[1:] != ranks[:-1] + 1).cumsum(out=uneven[1:])
    owners = rows.starts.searchsorted(ranks, "right") - 1
    first = begins_of(owners)
    last = np.append(first[1:], len(ranks))
    whole = uneven[first] == uneven[last - 1]
    pieces: list[_Piece] = []
    given = zip(*[a.tolist() for a in (owners[first], first, last, whole)], strict=True)
    for number, a, b, even in given:
        start = int(rows.starts[number])
        low = int(ranks[a]) - start
        inside = None if even else ranks[a:b] - start
        pieces.append((rows.blocks[number], low, low + b - a, inside))
    return pieces
