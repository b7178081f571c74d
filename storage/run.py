"""A run: an immutable batch of rows sorted by key code.

Invariant: codes ascend. In an ordered layout the rows under one code are sorted by the order keys,
then by all columns ascending with NULLS LAST, then by their bits, and no row stands twice; in any
other their order is not defined and equal rows may repeat. Weights are None when all are 1; codes
that are the key column itself share its memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.column import Column, Indexes
from ivm.storage.zset import Weights, ZSet

_FEW_PROBES = 4  # times a run's rows: above it the run is searched in the probes


class Run:
    """Sorted rows.

    Attributes:
        codes: the rows' search codes, ascending.
        columns: all columns of the layout.
        weights: int64[n], or None for all ones.
    """

    __slots__ = ("_unique", "codes", "columns", "weights")

    def __init__(
        self, codes: npt.NDArray[Any], columns: tuple[Column, ...], weights: Weights | None
    ) -> None:
        self.codes = codes
        self.columns = columns
        self.weights = weights
        self._unique: bool | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def unique(self) -> bool:
        """Whether no code stands twice."""
        if self._unique is None:
            self._unique = not bool((self.codes[1:] == self.codes[:-1]).any())
        return self._unique

    @property
    def nbytes(self) -> int:
        """Bytes held; codes shared with a key column count once."""
        total = sum(c.nbytes for c in self.columns)
        if not any(getattr(c, "values", None) is self.codes for c in self.columns):
            total += self.codes.nbytes
        return total + (0 if self.weights is None else self.weights.nbytes)

    def take(self, rows: Indexes) -> ZSet:
        """The rows at the given positions."""
        weights = np.ones(len(rows), np.int64) if self.weights is None else self.weights[rows]
        return ZSet(tuple([c.take(rows) for c in self.columns]), weights)

    def slice(self, start: int, stop: int) -> ZSet:
        """The rows of a range, sharing the run's memory."""
        weights = self.weights
        weights = np.ones(stop - start, np.int64) if weights is None else weights[start:stop]
        return ZSet(tuple([c.slice(start, stop) for c in self.columns]), weights)

    def find_one(self, code: Any) -> tuple[int, int]:
        """The range of rows with the code, a scalar of the codes' type."""
        codes = self.codes
        start = int(codes.searchsorted(code))
        if start == len(codes) or codes[start] != code:
            return start, start
        if start + 1 == len(codes) or codes[start + 1] != code:
            return start, start + 1
        return start, int(codes.searchsorted(code, "right"))

    def find_ranges(self, probes: npt.NDArray[Any]) -> tuple[Indexes, Indexes, Indexes]:
        """Ranges of the rows with the probes' codes.

        Args:
            probes: codes, fastest when ascending.

        Returns:
            Positions of the probes that hit, and the first and past-the-last row of each.
        """
        codes = self.codes
        starts = codes.searchsorted(probes)
        hits = np.flatnonzero(codes.take(starts, mode="clip") == probes)
        hits = hits[starts[hits] < len(codes)]
        starts = starts[hits]
        stops = starts + 1 if self.unique else codes.searchsorted(probes[hits], "right")
        return hits, starts, stops

    def find(self, probes: npt.NDArray[Any]) -> tuple[Indexes, Indexes]:
        """All pairs (position of a probe, row) with equal codes; `probes` ascending."""
        if len(probes) > _FEW_PROBES * len(self.codes):
            starts = probes.searchsorted(self.codes)
            stops = probes.searchsorted(self.codes, "right")
            rows, found = expand(starts, stops)
            return found, rows
        hits, starts, stops = self.find_ranges(probes)
        if self.unique:
            return hits, starts
        which, rows = expand(starts, stops)
        return hits[which], rows


def expand(starts: Indexes, stops: Indexes) -> tuple[Indexes, Indexes]:
    """The members of ranges: the number of the range each belongs to, and the members."""
    counts = stops - starts
    which = np.repeat(np.arange(len(counts)), counts)
    begins = np.cumsum(counts) - counts
    return which, np.arange(len(which)) + (starts - begins)[which]
