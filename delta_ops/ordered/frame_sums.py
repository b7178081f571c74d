"""Aggregates over frames that are sums of their rows' contributions: COUNT, SUM, AVG, VAR, …

Law: let G(p) be the sum of the contributions of a partition's rows before rank p. A frame from a to
b has G(b) − G(a), exactly, because lanes are integers (floating point too: see `float_sum`). Only
differences of G are needed, so it starts at the first rank of a bounded frame; the rows that an
unbounded frame has before that are summed up block by block, and blocks keep their sums.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from ivm.delta_ops.aggregates.lanes.call import AggregateSpec, Argument
from ivm.delta_ops.aggregates.lanes.finish import AccumulatorTable, finisher
from ivm.delta_ops.ordered.frame import Frame
from ivm.delta_ops.ordered.frame_bounds import FrameRows
from ivm.delta_ops.ordered.function import WindowFunction
from ivm.storage.ordered.blocks import Block
from ivm.storage.ordered.gather import RowSlice
from ivm.storage.ordered.sorted_rows import SortedRows
from ivm.storage.values.column import Column, Indexes
from ivm.storage.values.ordering.order import Columns
from ivm.storage.values.ordering.ranges import clipped, offsets
from ivm.storage.values.zset import ZSet

_EXACT = ("count", "count_star", "count_if", "bool_and", "bool_or", "sum")


class FrameSum(WindowFunction):
    """A linear aggregate over a frame.

    Attributes:
        rounds: DuckDB may round on the way.

    Args:
        call: `is_linear`, without DISTINCT.
        frame: its rows.
    """

    def __init__(self, call: AggregateSpec, frame: Frame) -> None:
        super().__init__(call.output, frame)
        self.is_partition_constant = frame.whole
        of = call.argument_type
        self.rounds = call.function not in _EXACT or (of is not None and of.is_float)
        self._frame = frame
        self._width = 0
        terms = AccumulatorTable(self._add_lane)
        terms.count(Argument.of(call))
        self._finish = finisher(call, terms)
        self._terms = terms.items()

    def _add_lane(self) -> int:
        self._width += 1
        return self._width - 1

    def evaluate(self, frame_rows: FrameRows) -> Column:
        pieces = frame_rows.pieces(self._frame)
        starts, stops, rows = frame_rows.around(self._frame)
        sums = self._running(rows)
        outside = self._outside(frame_rows, starts, stops)
        before, after = [None if part is None else self._widened(part) for part in outside]
        sums = self._widened(sums)
        shift = (offsets(stops - starts) - starts)[frame_rows.segment]
        if before is None and after is None:  # the pieces are among the gathered rows
            parts = [sums[stop + shift] - sums[start + shift] for start, stop in pieces]
            return self._finish(functools.reduce(np.add, parts))
        total = np.zeros((len(frame_rows), self._width), np.int64)
        low, high = starts[frame_rows.segment], stops[frame_rows.segment]
        for start, stop in pieces:
            a, b = clipped(start, low, high), clipped(stop, low, high)
            total += sums[b + shift] - sums[a + shift]
            if before is not None:
                total += np.where(
                    ((start < stop) & (start < low))[:, None], before[frame_rows.segment], 0
                )
            if after is not None:
                total += np.where(
                    ((start < stop) & (stop > high))[:, None], after[frame_rows.segment], 0
                )
        return self._finish(total)

    def _outside(
        self, frame_rows: FrameRows, starts: Indexes, stops: Indexes
    ) -> tuple[Indexes | None, Indexes | None]:
        """Sums of each segment's partition before and after the gathered rows."""
        before = after = None
        first, last, _, _ = frame_rows.segments
        if self._frame.start is None and (first < starts).any():
            before = self._totals(frame_rows.rows, first, starts)
        if self._frame.end is None and (stops < last).any():
            after = self._totals(frame_rows.rows, stops, last)
        return before, after

    def _totals(self, rows: SortedRows, starts: Indexes, stops: Indexes) -> Indexes:
        """The lanes' sums over ranges of ranks: of whole blocks, and of rows at both ends."""
        edges = np.concatenate([starts, stops])
        owners = clipped(rows.starts.searchsorted(edges, "right") - 1, 0, len(rows.blocks) - 1)
        begins = rows.starts[owners]
        parts = self._running(RowSlice.ranges(rows, begins, edges))
        ends = np.cumsum(edges - begins)
        blocks = rows.summary(self)
        sums = np.zeros((len(blocks) + 1, blocks.shape[1]), np.int64)
        np.cumsum(blocks, axis=0, out=sums[1:])
        inside = parts[ends] - parts[ends - (edges - begins)]
        up_to = self._widened(inside) + self._widened(sums[owners])
        total: Indexes = up_to[len(starts) :] - up_to[: len(starts)]
        return total

    def _running(self, rows: RowSlice) -> Indexes:
        """Running sums of the lanes, from none of the rows to all of them."""
        lanes = self._lanes(rows, len(rows))
        sums = np.zeros((len(lanes) + 1, lanes.shape[1]), np.int64)
        lanes.cumsum(axis=0, out=sums[1:])
        return sums

    # Summaries of blocks: the sums of their lanes

    def of(self, before: Block | None, block: Block) -> Indexes:
        """See `Summary`."""
        total: Indexes = self._lanes(block.columns, block.size).sum(axis=0)
        return total

    def joined(self, known: Indexes | None, entries: Sequence[Indexes]) -> Indexes:
        """See `Summary`."""
        parts = [self._widened(entry)[None, :] for entry in entries]
        old = np.zeros((0, self._width), np.int64) if known is None else self._widened(known)
        return np.concatenate([old, *parts])

    def taken(self, known: Indexes, numbers: Indexes) -> Indexes:
        """See `Summary`."""
        return known[numbers]

    def _widened(self, lanes: Indexes) -> Indexes:
        """The lanes, with zeros for those made since."""
        missing = self._width - lanes.shape[-1]
        if missing == 0:
            return lanes
        return np.concatenate([lanes, np.zeros((*lanes.shape[:-1], missing), np.int64)], axis=-1)

    def _lanes(self, columns: Columns, count: int) -> Indexes:
        """int64[count, lanes], the contribution of every row."""
        batch = batch_of(columns, count)
        every = np.arange(count)
        found = []
        for argument, terms in self._terms:
            rows = argument.rows(batch, every)
            found += [part for term in terms for part in term.contributions(rows)]
        lanes = np.zeros((count, self._width), np.int64)
        for ranks, groups, values in found:
            if groups is every and isinstance(ranks, int):
                lanes[:, ranks] += values
            else:
                lanes[groups, ranks] += values
        return lanes


def batch_of(columns: Columns, count: int) -> ZSet:
    """Rows of weight 1."""
    return ZSet(columns, np.ones(count, np.int64))  # type: ignore[arg-type]
