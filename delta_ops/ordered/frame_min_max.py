"""MIN and MAX over frames.

Law: let each value of a segment have its number in the order of values. The extreme of a frame is
the least number in two overlapping ranges of its rows, whose lengths are a power of two. The rows
that an unbounded frame has outside of the segment count as one value per segment, found block by
block; blocks keep their extremes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ivm.delta_ops.ordered.frame import Frame
from ivm.delta_ops.ordered.frame_bounds import FrameRows
from ivm.delta_ops.ordered.function import WindowFunction
from ivm.storage.ordered.blocks import Block
from ivm.storage.ordered.gather import RowSlice
from ivm.storage.ordered.sorted_rows import SortedRows
from ivm.storage.values.column import (
    Column,
    FixedColumn,
    Indexes,
    Mask,
    concat,
    not_null,
    null_column,
)
from ivm.storage.values.ordering.order import Columns, OrderTerm
from ivm.storage.values.ordering.ranges import clipped, offsets
from ivm.storage.values.ordering.sort import sort_rows
from ivm.storage.values.types import ColumnType

_NONE = np.iinfo(np.int64).max


class FrameMinMax(WindowFunction):
    """MIN or MAX.

    Args:
        argument: input position of the value, of an orderable type.
        type: of the value.
        frame: its rows.
        greatest: MAX.
        filter: input position of a BOOLEAN; rows where it is not true do not count.
    """

    def __init__(
        self, argument: int, type: ColumnType, frame: Frame, greatest: bool, filter: int | None
    ) -> None:
        super().__init__(type, frame)
        self.is_partition_constant = frame.whole
        self._argument = argument
        self._frame = frame
        self._filter = filter
        bits = (
            [OrderTerm(0, type, greatest, bits=True)] if type.is_float or type.is_interval else []
        )
        self._terms = [OrderTerm(0, type, greatest), *bits]

    def evaluate(self, frame_rows: FrameRows) -> Column:
        pieces = frame_rows.pieces(self._frame)
        starts, stops, inside = frame_rows.around(self._frame)
        values = [inside[self._argument]]
        masks = [self._counted(inside)]
        count, segments = len(values[0]), len(starts)
        first, last, _, _ = frame_rows.segments
        opening = first if self._frame.start is None else starts
        ending = last if self._frame.end is None else stops
        for low, high in ((opening, starts), (stops, ending)):
            part = self._outside(frame_rows.rows, low, high)
            values.append(part)
            masks.append(not_null(part))
        ranks, column = self._ranked(concat(values), np.concatenate(masks))
        before, after = ranks[count : count + segments], ranks[count + segments :]
        shift = (offsets(stops - starts) - starts)[frame_rows.segment]
        low, high = starts[frame_rows.segment], stops[frame_rows.segment]
        best = np.full(len(frame_rows), _NONE)
        for start, stop in pieces:
            some = start < stop
            a, b = clipped(start, low, high) + shift, clipped(stop, low, high) + shift
            best = np.minimum(best, least(ranks[:count], a, b))
            best = np.where(
                some & (start < low), np.minimum(best, before[frame_rows.segment]), best
            )
            best = np.where(some & (stop > high), np.minimum(best, after[frame_rows.segment]), best)
        return column.take(np.minimum(best, len(column) - 1))

    def _counted(self, rows: Columns) -> Mask:
        mask = not_null(rows[self._argument])
        return mask if self._filter is None else mask & _true(rows[self._filter])

    def _ranked(self, values: Column, counted: Mask) -> tuple[Indexes, Column]:
        """The values' numbers in order, none if not counted; the values by number, NULL last."""
        rows = np.flatnonzero(counted)
        kept = values.take(rows)
        order, _ = sort_rows(np.zeros(len(rows), np.int64), [kept], self._terms)
        ranks = np.full(len(values), _NONE)
        ranks[rows[order]] = np.arange(len(rows))
        return ranks, concat([kept.take(order), null_column(self.type, 1)])

    def _outside(self, rows: SortedRows, starts: Indexes, stops: Indexes) -> Column:
        """The extreme of each range of ranks, NULL if empty: of whole blocks and both ends."""
        some = np.flatnonzero(starts < stops)
        if not len(some):
            return null_column(self.type, len(starts))
        low, high = starts[some], stops[some]
        first = rows.starts.searchsorted(low)  # the first block that begins in the range
        last = np.maximum(rows.starts.searchsorted(high, "right") - 1, first)
        short = rows.starts[first] > high
        head = np.where(short, high, rows.starts[first])
        tail = np.where(short, high, rows.starts[last])
        ends = np.stack([low, tail], axis=1).ravel(), np.stack([head, high], axis=1).ravel()
        rest = RowSlice.ranges(rows, *ends)
        blocks = rows.summary(self)
        known = concat([blocks, rest[self._argument]])
        ranks, column = self._ranked(known, np.append(not_null(blocks), self._counted(rest)))
        counts = (ends[1] - ends[0]).reshape(-1, 2).sum(axis=1)
        until = len(blocks) + np.cumsum(counts)
        best = np.full(len(starts), len(column) - 1)
        of_blocks = least(ranks[: len(blocks)], first, np.where(short, first, last))
        best[some] = np.minimum(of_blocks, least(ranks, until - counts, until))
        return column.take(np.minimum(best, len(column) - 1))

    # Summaries of blocks: their extremes

    def of(self, before: Block | None, block: Block) -> Column:
        """See `Summary`."""
        values = block.columns[self._argument]
        return self._ranked(values, self._counted(block.columns))[1].slice(0, 1)

    def joined(self, known: Column | None, entries: Sequence[Column]) -> Column:
        """See `Summary`."""
        parts = [*([] if known is None else [known]), *entries]
        return concat(parts) if parts else null_column(self.type, 0)

    def taken(self, known: Column, numbers: Indexes) -> Column:
        """See `Summary`."""
        return known.take(numbers)


def _true(column: Column) -> Mask:
    assert isinstance(column, FixedColumn)
    return column.values if column.valid is None else column.values & column.valid


def least(values: Indexes, starts: Indexes, stops: Indexes) -> Indexes:
    """The least of values[starts[i] … stops[i]]; of none, the greatest integer."""
    result = np.full(len(starts), _NONE)
    lengths = np.maximum(stops - starts, 0)
    levels = np.frexp(lengths.astype(np.float64))[1] - 1
    table, width = values, 1
    for level in range(int(levels.max(initial=-1)) + 1):
        if level:
            table = np.minimum(table[:-width], table[width:])
            width *= 2
        rows = np.flatnonzero((levels == level) & (lengths > 0))
        if len(rows):
            ends = stops[rows] - width
            result[rows] = np.minimum(table[starts[rows]], table[ends])
    return result
