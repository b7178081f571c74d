"""Window functions without a kernel: DuckDB's own over the rows that the frames need.

Law: the answer for a row depends on the rows of its frame and on their order alone, so the rows of
a segment and of its frames, given to DuckDB as a partition of their own, have the same answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ivm.delta_ops.linear.duck_eval import BIGINT, column_names, row_numbers, run_sql
from ivm.delta_ops.operator import CursorFactory
from ivm.delta_ops.ordered.frame import WHOLE, Frame
from ivm.delta_ops.ordered.frame_bounds import FrameRows, Pair
from ivm.delta_ops.ordered.function import WindowFunction
from ivm.storage.ordered.gather import RowSlice
from ivm.storage.values.column import Column, FixedColumn
from ivm.storage.values.ordering.ranges import expand, offsets
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet

DELTA = "delta"
PART = "part__"
ROW = "row__"


class DuckWindow(WindowFunction):
    """A window function evaluated by DuckDB.

    Args:
        sql: the call over columns c0, c1, … with PARTITION BY part__.
        source: the SQL of its FROM clause, over the relation `DELTA`.
        columns: the input positions it reads.
        type: of the result.
        frame: the rows it depends on, None for the whole partition.
        cursor_factory: see `CursorFactory`.
    """

    def __init__(
        self,
        sql: str,
        source: str,
        columns: Sequence[int],
        type: ColumnType,
        frame: Frame | None,
        cursor_factory: CursorFactory,
    ) -> None:
        super().__init__(type, WHOLE if frame is None else frame)
        self._sql = f"SELECT {ROW}, {sql} AS answer__ FROM {source} AS t"
        self._columns = tuple(columns)
        self._cursor_factory = cursor_factory

    def evaluate(self, frame_rows: FrameRows) -> Column:
        starts, stops = self._needed(frame_rows)
        part = expand(starts, stops)[0]
        registered = RowSlice.ranges(frame_rows.rows, starts, stops)
        columns = [registered[i] for i in self._columns]
        names = [column_names(frame_rows.order.types)[i] for i in self._columns]
        schema = (*names, (PART, BIGINT), (ROW, BIGINT))
        extra = FixedColumn(part), FixedColumn(np.arange(len(part)))
        rows = ZSet((*columns, *extra), np.ones(len(part), np.int64))
        output = ((ROW, BIGINT), ("answer__", self.type))
        found = run_sql(self._cursor_factory, self._sql, {DELTA: (rows, schema)}, output)
        order = np.empty(len(part), np.int64)
        order[row_numbers(found.columns[0])] = np.arange(len(part))
        wanted = frame_rows.ranks + (offsets(stops - starts) - starts)[frame_rows.segment]
        return found.columns[1].take(order[wanted])

    def _needed(self, frame_rows: FrameRows) -> Pair:
        """The range of ranks of each segment whose rows DuckDB needs."""
        first, last, start, stop = frame_rows.segments
        if self.reach.whole:
            return first, last
        low, high = frame_rows.bounds(self.reach)
        begins = offsets(stop - start)
        low = np.minimum(np.minimum.reduceat(low, begins), start)
        high = np.maximum(np.maximum.reduceat(high, begins), stop)
        if self.reach.kind != "rows" or self.reach.exclude:
            peers = frame_rows.peers()
            low = np.minimum(low, np.minimum.reduceat(peers[0], begins))
            high = np.maximum(high, np.maximum.reduceat(peers[1], begins))
        return low, high
