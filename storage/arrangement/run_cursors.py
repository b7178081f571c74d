"""Run cursors: the first rows of several runs for some keys, gathered column by column on request.

Invariant: row i of the cursors is a row of the one origin (run or write buffer) whose piece holds
i; `goes_on` marks the last row read of a range that its run continues. Read backwards, a cursor
begins at the end of a range, and first, next and last are meant in that direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ivm.storage.arrangement.bound import Bound
from ivm.storage.arrangement.cancelled import NO_STRETCHES, Stretches
from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.run import Run
from ivm.storage.arrangement.write_buffer import WriteBuffer
from ivm.storage.values.column import Column, Indexes, Mask, concat
from ivm.storage.values.ordering.order import OrderTerm
from ivm.storage.values.ordering.ranges import expand, offsets
from ivm.storage.values.radix_sort import order_of
from ivm.storage.values.zset import Weights, ZSet

Ranges = tuple[Indexes, Indexes]
"""Starts of ranges of rows, and their stops."""


class RunSource(NamedTuple):
    """Runs of one layout, the first `seen` rows of a write buffer, and the direction of reading.

    The entries in the cancelled stretches of the runs, the oldest ones' first, are not read, nor
    those before the bound. Of the rows found some columns are wanted, None for all.
    """

    layout: Layout
    runs: Sequence[Run]
    buffer: WriteBuffer
    seen: int
    backwards: bool = False
    cancelled: Sequence[Stretches] = ()
    bound: Bound | None = None
    wanted: Sequence[int] | None = None

    @property
    def columns(self) -> Sequence[int]:
        """The positions of the columns wanted."""
        return range(len(self.layout.types)) if self.wanted is None else self.wanted

    @property
    def zero(self) -> ZSet:
        """No rows."""
        zero = self.layout.zero
        return zero if self.wanted is None else zero.project(self.wanted)

    def cancelled_of(self, run: int) -> Stretches:
        """The cancelled stretches of the run with a number."""
        return self.cancelled[run] if run < len(self.cancelled) else NO_STRETCHES

    @property
    def terms(self) -> tuple[OrderTerm, ...]:
        """The order in which rows are read."""
        return self.layout.terms_backwards if self.backwards else self.layout.terms

    def narrowed(self, run: int, ranges: Ranges, probes: Indexes) -> Ranges:
        """The parts of ranges of a run's rows, for the probes, that are not before the bound."""
        if self.bound is None or not len(probes):
            return ranges
        held, backwards = self.runs[run], self.backwards
        return self.bound.narrowed(held, self.layout, ranges, probes, backwards=backwards)

    def buffered(self, rows: Indexes, probes: Indexes) -> tuple[Indexes, Indexes]:
        """The rows of the write buffer, and their probes, that are not before the bound."""
        if self.bound is None or not len(rows):
            return rows, probes
        backwards = self.backwards
        kept = self.bound.holds(self.buffer, self.layout, rows, probes, backwards=backwards)
        return rows[kept], probes[kept]


class _Piece(NamedTuple):
    """Rows of one run, by its number, or of the write buffer (-1)."""

    number: int
    origin: Run | WriteBuffer
    probe: Indexes
    rows: Indexes
    goes_on: Mask


class RunCursors:
    """Rows read from several origins.

    Attributes:
        probe: int64[n], the number of the probe each row was read for.
        goes_on: bool[n], see above.
        weights: int64[n].
    """

    def __init__(self, pieces: Sequence[_Piece]) -> None:
        self._pieces = pieces
        self._columns: dict[int, Column] = {}
        self.probe = np.concatenate([piece.probe for piece in pieces])
        self.goes_on = np.concatenate([piece.goes_on for piece in pieces])
        self.weights: Weights = np.concatenate([p.origin.weights_of(p.rows) for p in pieces])

    def __getitem__(self, column: int) -> Column:
        """All rows' values of one column."""
        if column not in self._columns:
            parts = [p.origin.columns[column].take(p.rows) for p in self._pieces]
            self._columns[column] = concat(parts)
        return self._columns[column]

    def take(self, numbers: Indexes, weights: Weights, wanted: Sequence[int]) -> ZSet:
        """Some columns of the rows with the given numbers, with other weights."""
        picked, order = self._by_piece(numbers)
        columns = [
            concat([origin.columns[i].take(rows) for origin, rows in picked]) for i in wanted
        ]
        if len(picked) > 1:
            back = np.empty(len(order), np.int64)
            back[order] = np.arange(len(order))
            columns = [column.take(back) for column in columns]
        return ZSet(tuple(columns), weights)

    @property
    def origins(self) -> Indexes:
        """The number of the run that each row is of; -1 for the write buffer."""
        return np.array([p.number for p in self._pieces]).repeat(
            [len(p.rows) for p in self._pieces]
        )

    def entries(self, mask: Mask, runs: int) -> list[Indexes]:
        """The positions in each of the oldest runs of those marked rows that they hold."""
        found = [np.zeros(0, np.int64)] * runs
        start = 0
        for piece in self._pieces:
            stop = start + len(piece.rows)
            if 0 <= piece.number < runs:
                found[piece.number] = piece.rows[mask[start:stop]]
            start = stop
        return found

    def _by_piece(
        self, numbers: Indexes
    ) -> tuple[list[tuple[Run | WriteBuffer, Indexes]], Indexes]:
        """Origins with the rows taken from each (at least one), and their order in `numbers`."""
        ends = np.cumsum([len(piece.rows) for piece in self._pieces])
        owner = ends.searchsorted(numbers, "right")
        order = order_of(owner)
        bounds = owner[order].searchsorted(np.arange(len(ends) + 1))
        picked: list[tuple[Run | WriteBuffer, Indexes]] = []
        for i, piece in enumerate(self._pieces):
            chosen = numbers[order[bounds[i] : bounds[i + 1]]]
            if len(chosen):
                picked.append((piece.origin, piece.rows[chosen - (ends[i] - len(piece.rows))]))
        return picked or [(self._pieces[0].origin, numbers)], order


def read_cursors(
    source: RunSource, probes: npt.NDArray[Any], numbers: Indexes, depth: int
) -> RunCursors | None:
    """Reads at most `depth` rows of every run, and all of the write buffer, for each probe.

    Args:
        source: where to read.
        probes: ascending codes.
        numbers: the number of each probe.
        depth: rows per run and probe, at least 1.

    Returns:
        None if there is no row.
    """
    pieces = [_head(source, i, probes, numbers, depth) for i in range(len(source.runs))]
    found, rows = source.buffer.find(probes, source.seen)
    rows, mine = source.buffered(rows, numbers[found])
    pieces.append(_Piece(-1, source.buffer, mine, rows, np.zeros(len(rows), np.bool_)))
    pieces = [piece for piece in pieces if len(piece.rows)]
    return RunCursors(pieces) if pieces else None


def _head(
    source: RunSource, number: int, probes: npt.NDArray[Any], numbers: Indexes, depth: int
) -> _Piece:
    run, cancelled = source.runs[number], source.cancelled_of(number)
    hits, *found = run.find_ranges(probes)
    starts, stops = source.narrowed(number, (found[0], found[1]), numbers[hits])
    ahead, total = np.zeros(len(hits), np.int64), stops - starts
    if len(cancelled.starts):
        which, starts, stops = cancelled.left(starts, stops)
        hits, (ahead, total) = hits[which], _places(which, stops - starts, source.backwards)
    taken = np.clip(depth - ahead, 0, stops - starts)
    begins, ends = (stops - taken, stops) if source.backwards else (starts, starts + taken)
    which, rows = expand(begins, ends)
    last = rows == (begins if source.backwards else ends - 1)[which]
    goes_on = last & ((ahead + taken == depth) & (total > depth))[which]
    return _Piece(number, run, numbers[hits[which]], rows, goes_on)


def _places(which: Indexes, counts: Indexes, backwards: bool) -> tuple[Indexes, Indexes]:
    """The entries of a range that are read before those of each piece, and all of the range's."""
    totals = np.bincount(which, counts).astype(np.int64)
    before = offsets(counts) - offsets(totals)[which]
    total = totals[which]
    return (total - before - counts if backwards else before), total
