"""fill(): NULLs interpolated between the values around them, in a total order.

Law: a NULL depends on the nearest value on either side or, where a side has none, on the two
nearest of the other one. So a value affects rows up to the second value from it, a NULL only
itself, and DuckDB's answer over the rows up to there is its answer over the whole partition.
Infinite values and NaN count as NULLs; rows with such keys are at the ends of the order and are
skipped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ivm.delta_ops.operator import CursorFactory
from ivm.delta_ops.ordered.affected_rows import ChangedRows
from ivm.delta_ops.ordered.duck_window import DELTA, DuckWindow
from ivm.delta_ops.ordered.frame import Frame, RangeKey
from ivm.delta_ops.ordered.frame_bounds import FrameRows, Pair, WindowOrder
from ivm.storage.ordered.rank_select import Finite, RankSelect, finite
from ivm.storage.ordered.sorted_rows import SortedRows
from ivm.storage.values.column import Indexes
from ivm.storage.values.types import ColumnType


class Fill(DuckWindow):
    """fill(x).

    Args:
        sql: see `DuckWindow`.
        columns: the input positions it reads.
        argument: that of x.
        type: of x.
        cursor_factory: see `CursorFactory`.
    """

    def __init__(
        self,
        sql: str,
        columns: Sequence[int],
        argument: int,
        type: ColumnType,
        cursor_factory: CursorFactory,
    ) -> None:
        super().__init__(sql, DELTA, columns, type, Frame("rows", -2, 2), cursor_factory)
        self._argument = argument

    def reached(
        self, changed: ChangedRows, before: SortedRows, order: WindowOrder, key: RangeKey | None
    ) -> Pair:
        """See `WindowFunction`."""
        at, end = changed.at, changed.end
        low, high = self._around(before, at, end, changed.first, changed.last)
        counts = finite(changed.rows[self._argument], self.type)
        return np.where(counts, low, at), np.where(counts, high, end)

    def _needed(self, frame_rows: FrameRows) -> Pair:
        first, last, start, stop = frame_rows.segments
        return self._around(frame_rows.rows, start, stop, first, last)

    def _around(
        self, rows: SortedRows, start: Indexes, stop: Indexes, first: Indexes, last: Indexes
    ) -> Pair:
        """Ranges of ranks, widened up to the second value on either side."""
        values = RankSelect(rows, Finite(self._argument, self.type))
        number = values.rank(start) - 2
        low = np.maximum(values.select(np.maximum(number, 0)), first)
        high = np.minimum(values.select(values.rank(stop) + 1) + 1, last)
        return np.where(number < 0, first, low), high
