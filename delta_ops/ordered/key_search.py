"""The keys of a window's order near some ranks, where most frames end.

Law: within a partition keys ascend (descending ones are negated), so all keys between two values
are among the gathered ones, if these hold a smaller and a greater key or reach the partition's
ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ivm.delta_ops.ordered.frame import RangeKey
from ivm.storage.ordered import blocks
from ivm.storage.ordered.gather import RowSlice
from ivm.storage.ordered.sorted_rows import SortedRows
from ivm.storage.values import thresholds
from ivm.storage.values.column import FixedColumn, Indexes
from ivm.storage.values.key_codes import word_codes
from ivm.storage.values.ordering.compare_rows import bounded_search
from ivm.storage.values.ordering.ranges import offsets

Ranges = tuple[Indexes, Indexes, Indexes, Indexes]
"""The first rank and the one past the end of a partition, and of some rows in it."""


class RangeKeys(NamedTuple):
    """The keys of ranges of ranks, one range after the other.

    Attributes:
        codes: ascending in each range.
        starts: the first rank of each range.
        stops: the rank past each.
    """

    codes: Indexes
    starts: Indexes
    stops: Indexes

    def find(self, wanted: Indexes, begins: Indexes, right: bool) -> Indexes:
        """The ranks of codes in their ranges: of the first not less (`right`: the first greater).

        Args:
            begins: the number of the first code wanted in each range.
        """
        if len(begins) == 1:
            return self.codes.searchsorted(wanted, "right" if right else "left") + self.starts
        part = np.arange(len(begins)).repeat(np.append(begins[1:], len(wanted)) - begins)
        low = offsets(self.stops - self.starts)[part]
        high = low + (self.stops - self.starts)[part]
        found = bounded_search(self.codes, wanted, low, high, right)
        ranks: Indexes = found - low + self.starts[part]
        return ranks

    def hold(self, least: Indexes, most: Indexes, first: Indexes, last: Indexes) -> bool:
        """Returns whether all of the partitions' keys from `least` to `most` are among them."""
        begin = 0
        lists = [a.tolist() for a in (self.starts, self.stops, least, most, first, last)]
        for start, stop, low, high, head, end in zip(*lists, strict=True):
            next_one = begin + stop - start
            if start > head and self.codes.item(begin) >= low:
                return False
            if stop < end and self.codes.item(next_one - 1) <= high:
                return False
            begin = next_one
        return True


def keys_of(rows: SortedRows, key: RangeKey, starts: Indexes, stops: Indexes) -> RangeKeys | None:
    """The keys in ranges of ranks of one partition each; None if one is NULL."""
    column = RowSlice.ranges(rows, starts, stops)[key.column]
    assert isinstance(column, FixedColumn)
    if column.valid is not None and not column.valid.all():
        return None
    codes = word_codes(column.values, key.type)
    return RangeKeys(~codes if key.descending else codes, starts, stops)


def keys_near(
    rows: SortedRows, key: RangeKey, ranges: Ranges, least: Indexes, most: Indexes
) -> RangeKeys | None:
    """The keys near some ranks; None if some from `least` to `most` may be missing."""
    first, last, start, stop = ranges
    if len(first) > thresholds.NEAR_RANGES:
        return None
    beside = blocks.BLOCK // 2
    found = keys_of(rows, key, np.maximum(start - beside, first), np.minimum(stop + beside, last))
    return found if found is not None and found.hold(least, most, first, last) else None
