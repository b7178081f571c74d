"""The bucket index of a run: the positions where codes with the same leading bits begin.

Law: for ascending codes c, starts[b] is the number of codes whose bucket (c − c₀) >> shift is less
than b. So the rows of a code lie in the range of its bucket, which is short, or holds just that
code if shift is 0; a code of an empty bucket, or of none, is not in the run. Short runs have more
buckets than rows, since most probes of a short run miss it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from ivm.storage.values.column import AnyCodes, Indexes

_SHORT = 1 << 16  # rows up to which a run gets several buckets a row
_CHUNK = 1 << 16  # rows counted at a time
_LARGE = 255  # rows of a bucket above which it is searched by itself


class BucketIndex:
    """Buckets over ascending codes (at least one)."""

    __slots__ = ("_codes", "_depth", "_last", "_low", "_shift", "_starts")

    def __init__(self, codes: AnyCodes) -> None:
        count = len(codes)
        self._codes = codes
        self._low = words(codes[:1])[0]
        span = int((words(codes[-1:]) - self._low)[0])
        buckets = 2 * count if count <= _SHORT else count
        self._shift = np.uint64(max(span.bit_length() - buckets.bit_length(), 0))
        self._last = np.uint64((span >> int(self._shift)) + 1)
        counts = self._counts(int(self._last))
        self._depth = min(int(counts.max()), _LARGE).bit_length()
        self._starts = np.empty(len(counts) + 2, np.int32)
        self._starts[0] = 0
        np.cumsum(counts, out=self._starts[1:-1])
        self._starts[-1] = count  # the bucket of all codes out of range is empty

    def _counts(self, buckets: int) -> npt.NDArray[np.int32]:
        """Counts the codes of each bucket."""
        counts = np.zeros(buckets, np.int32)
        # A chunk of ascending codes covers a range of buckets, so its counts are short and local.
        for start in range(0, len(self._codes), _CHUNK):
            mine = (words(self._codes[start : start + _CHUNK]) - self._low) >> self._shift
            first, last = int(mine[0]), int(mine[-1])
            counts[first : last + 1] += np.bincount((mine - mine[0]).view(np.int64))
        return counts

    def find(self, probes: AnyCodes, *, unique: bool) -> tuple[Indexes, Indexes, Indexes]:
        """The positions of the probes that the run holds, and the bounds of the rows of each.

        Args:
            probes: in any order.
            unique: no code stands twice.
        """
        hits, starts, stops = self._buckets(probes)
        if not self._shift:
            return hits, starts, stops
        probes = probes[hits]
        rows = self._search(probes, starts, stops, np.less)
        found = (self._codes.take(rows, mode="clip") == probes).nonzero()[0]
        hits, rows = hits[found], rows[found]
        if unique:
            return hits, rows, rows + 1
        stops = stops[found]
        ends = self._search(probes[found], rows, stops, np.less_equal)
        return hits, rows, np.minimum(ends, stops)

    def find_last(self, probes: AnyCodes) -> tuple[Indexes, Indexes]:
        """The positions of the probes that the run holds, and the last row of each."""
        hits, starts, stops = self._buckets(probes)
        if not self._shift:
            return hits, stops - 1
        probes = probes[hits]
        ends = self._search(probes, starts, stops, np.less_equal)
        rows = np.minimum(ends, stops) - 1
        found = (self._codes.take(rows, mode="clip") == probes).nonzero()[0]
        return hits[found], rows[found]

    def _buckets(self, probes: AnyCodes) -> tuple[Indexes, Indexes, Indexes]:
        """The positions of the probes whose bucket is not empty, and its bounds."""
        bucket = np.minimum((words(probes) - self._low) >> self._shift, self._last)
        buckets = bucket.view(np.int64)
        starts, stops = self._starts[buckets], self._starts[1:][buckets]
        hits = (starts != stops).nonzero()[0]
        return hits, starts[hits].astype(np.int64), stops[hits].astype(np.int64)

    def _search(
        self, probes: AnyCodes, starts: Indexes, stops: Indexes, before: np.ufunc
    ) -> Indexes:
        """The first row from each start on whose code does not stand before the probe.

        That is no row behind the probe's bucket, unless the last codes of the run stand before it.
        """
        codes, rows, width = self._codes, starts.copy(), 1 << self._depth >> 1
        large = (stops - starts > _LARGE).nonzero()[0]
        # All probes take the same number of halving steps, so each step is one pass over arrays.
        while width:
            rows += before(codes.take(rows + (width - 1), mode="clip"), probes) * width
            width >>= 1
        if len(large):
            rows[large] = codes.searchsorted(probes[large], _SIDES[before])
        return rows


_SIDES: dict[np.ufunc, Literal["left", "right"]] = {np.less: "left", np.less_equal: "right"}


def words(codes: AnyCodes) -> npt.NDArray[np.uint64]:
    """Codes as words whose differences are those of the codes, modulo 2⁶⁴."""
    return codes.view(np.uint64) if codes.dtype.itemsize == 8 else codes.astype(np.uint64)
