"""A max tree: a static tree of a column's greatest values, which finds rows that reach a bound.

Law: node j of level l stands for rows j·16ˡ … (j + 1)·16ˡ − 1 and holds the greatest code among
them; a search descends only where a node reaches the bound and meets the range, so it costs the
rows found, times the height. (A priority search tree, McCreight 1985, over immutable rows.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.values import thresholds
from ivm.storage.values.column import FixedColumn, Indexes
from ivm.storage.values.key_codes import word_codes
from ivm.storage.values.ordering.ranges import expand
from ivm.storage.values.types import ColumnType

_SHIFT = 4
_LIMITS = np.iinfo(np.int64)


class MaxTree:
    """The tree over one column of a run.

    Args:
        column: of a type of at most 64 bits.
        type: its type.
        greatest: search values above a bound; False: below it.
        open: NULL reaches every bound; else it reaches none.
    """

    __slots__ = ("_column", "_greatest", "_levels", "_open", "_type")

    def __init__(
        self, column: FixedColumn, type: ColumnType, *, greatest: bool, open: bool = False
    ) -> None:
        self._column, self._type, self._greatest, self._open = column, type, greatest, open
        codes = self._codes(column.values)
        if column.valid is not None:
            # NULL gets the code that reaches every bound (open) or none; `find` tests the rows.
            codes = np.where(column.valid, codes, _LIMITS.max if open else _LIMITS.min)
        self._levels: list[npt.NDArray[np.int64]] = []
        while len(codes) > 1 << _SHIFT:
            codes = np.maximum.reduceat(codes, np.arange(0, len(codes), 1 << _SHIFT))
            self._levels.append(codes)

    def find(
        self, starts: Indexes, stops: Indexes, bounds: FixedColumn, *, strict: bool
    ) -> tuple[Indexes, Indexes]:
        """The rows of each range that reach its bound.

        Args:
            starts: of ranges, none of them empty.
            bounds: one a range, of the column's type, not NULL.
            strict: equal values do not count.

        Returns:
            The number of the range and the row, for every row found; in this order.
        """
        wanted = self._codes(bounds.values)
        which, rows = self._candidates(starts, stops, wanted)
        reach = np.greater if strict else np.greater_equal
        values, valid = self._column.values, self._column.valid
        found = reach(self._codes(values[rows]), wanted[which])
        if valid is not None:
            found = found | ~valid[rows] if self._open else found & valid[rows]
        return which[found], rows[found]

    def _candidates(
        self, starts: Indexes, stops: Indexes, wanted: Indexes
    ) -> tuple[Indexes, Indexes]:
        level = len(self._levels)
        if level == 0 or (stops - starts).max() <= thresholds.RANGE_ROWS:
            return expand(starts, stops)
        lasts = stops - 1
        shift = _SHIFT * level
        which, nodes = expand(starts >> shift, (lasts >> shift) + 1)
        # One pass a level for all ranges: drop nodes below the bound, replace the others by their
        # children, cut to the range.
        while level:
            found = self._levels[level - 1][nodes] >= wanted[which]
            which, nodes = which[found], nodes[found] << _SHIFT
            level -= 1
            shift -= _SHIFT
            low = np.maximum(nodes, starts[which] >> shift)
            high = np.minimum(nodes + (1 << _SHIFT), (lasts[which] >> shift) + 1)
            below, nodes = expand(low, high)
            which = which[below]
        return which, nodes

    def _codes(self, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        codes = word_codes(values, self._type)
        return codes if self._greatest else ~codes
