"""A run: an immutable batch of rows sorted by key code.

Invariant: codes ascend. In an ordered layout the rows under one code are sorted by the order keys,
then by all columns ascending with NULLS LAST, then by their bits, and no row stands twice; in any
other their order is not defined and equal rows may repeat. Weights are None when all are 1; codes
that are the key column itself share its memory.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ivm.storage.arrangement.background import do_aside
from ivm.storage.arrangement.bucket_index import BucketIndex
from ivm.storage.arrangement.cancelled import Cancelled
from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.max_tree import MaxTree
from ivm.storage.values import thresholds
from ivm.storage.values.column import Column, FixedColumn, Indexes, concat_released, taken
from ivm.storage.values.ordering.ranges import expand
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import Weights, ZSet, ones

SHORT_ROWS = 1 << 16
STRETCH = 1 << 22
"""Rows of many: columns so long have memory of their own, given back to the system by itself."""
Order: TypeAlias = Indexes | npt.NDArray[np.uint32]
"""Positions of rows; those of very many rows are short numbers, half as long."""

ASIDE_ROWS = 1 << 20
"""Rows of a run whose bucket index is made in the background: of 10⁷ rows it takes 300 ms."""

_RARE = 16  # rows a probe from which a short run needs no bucket index, either
_PAID = 256  # rows of a long run per probe so far, from which its bucket index would not pay


class Run:
    """Sorted rows.

    Attributes:
        codes: the rows' search codes, ascending.
        columns: all columns of the layout.
        weights: int64[n], or None for all ones.
        short: it has few rows, and so has every run it was merged of.
        cancelled: what was found while it was the newest run of an arrangement; replaced whole.
    """

    __slots__ = (
        "__weakref__", "_asked", "_directory", "_max_trees", "_probed", "_sums", "_unique",
        "cancelled", "codes", "columns", "short", "weights",
    )  # fmt: skip

    def __init__(
        self, codes: npt.NDArray[Any], columns: tuple[Column, ...], weights: Weights | None
    ) -> None:
        self.codes = codes
        self.columns = columns
        self.weights = weights
        self._begin(len(codes))

    def _begin(self, count: int) -> None:
        """Sets what is not known of the rows yet."""
        self.short = count < SHORT_ROWS
        self._unique: bool | None = None
        self._directory: BucketIndex | None = None
        self._probed = 0
        self._asked = False  # for a bucket index, in the background
        self._sums: Weights | None = None
        self.cancelled: Cancelled | None = None
        self._max_trees: dict[tuple[int, ColumnType, bool, bool], MaxTree] = {}

    def __getstate__(self) -> tuple[Any, ...]:
        return self.codes, self.columns, self.weights, self.short, self._unique

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state[:3])  # type: ignore[misc]
        self.short, self._unique = state[3:]

    def with_columns(self, columns: Sequence[Column]) -> Run:
        """The same rows with further columns, which are not of the key."""
        run = Run(self.codes, (*self.columns, *columns), self.weights)
        run.short, run._unique, run._directory = self.short, self._unique, self._directory
        return run

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def unique(self) -> bool:
        """Returns whether no code occurs twice."""
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
        return ZSet(tuple([c.take(rows) for c in self.columns]), self.weights_of(rows))

    def slice(self, start: int, stop: int) -> ZSet:
        """The rows of a range, sharing the run's memory."""
        weights = self.weights
        weights = ones(stop - start) if weights is None else weights[start:stop]
        return ZSet(tuple([c.slice(start, stop) for c in self.columns]), weights)

    def weights_of(self, rows: Indexes) -> Weights:
        """The weights of the rows at the given positions."""
        return np.ones(len(rows), np.int64) if self.weights is None else self.weights[rows]

    def weight(self, row: int) -> int:
        """The weight of one row."""
        return 1 if self.weights is None else int(self.weights[row])

    @property
    def sums(self) -> Weights:
        """The sum of the weights before each row, and of all; made at the first need."""
        if self._sums is None:
            sums = np.zeros(len(self) + 1, np.int64)
            np.cumsum(self.weights_of(np.arange(len(self))), out=sums[1:])
            self._sums = sums
        return self._sums

    def find_one(self, code: Any) -> tuple[int, int]:
        """The range of rows with the code, a scalar of the codes' type."""
        codes = self.codes
        start = bisect_left(codes, code)  # as fast as numpy's, which lets other threads go first
        if start == len(codes) or codes[start] != code:
            return start, start
        if start + 1 == len(codes) or codes[start + 1] != code:
            return start, start + 1
        return start, int(codes.searchsorted(code, "right"))

    @property
    def searched(self) -> bool:
        """Returns whether many keys have been searched at once."""
        return self._directory is not None

    def prepare(self, earlier: Sequence[Run]) -> None:
        """Builds the indexes that searches in earlier runs needed, so that none waits for them."""
        if len(self.codes) and any(run.searched for run in earlier):
            self._index()
        wanted = {key for run in earlier for key in list(run._max_trees)}
        for column, type, greatest, open_ in wanted:
            self.max_tree(column, type, greatest=greatest, open=open_)

    def max_tree(self, column: int, type: ColumnType, *, greatest: bool, open: bool) -> MaxTree:
        """The tree over a column of that type; made at the first need."""
        key = (column, type, greatest, open)
        if key not in self._max_trees:
            held = self.columns[column]
            assert isinstance(held, FixedColumn)
            self._max_trees[key] = MaxTree(held, type, greatest=greatest, open=open)
        return self._max_trees[key]

    @property
    def directory(self) -> BucketIndex:
        """The bucket index, built at first use."""
        if self._directory is None:
            self._directory = BucketIndex(self.codes)
        return self._directory

    def _searches_by_directory(self, probes: int) -> bool:
        """Returns whether a bucket index pays: a long run's costs as much as many searches."""
        if self._directory is not None:
            return probes > thresholds.PROBES
        if self.short:
            return probes > max(thresholds.PROBES, len(self.codes) // _RARE)
        self._probed += probes if probes > thresholds.PROBES else 0
        if self._probed <= max(thresholds.PROBES, len(self.codes) // _PAID):
            return False
        if len(self.codes) < ASIDE_ROWS:
            return True
        if not self._asked:
            self._asked = True
            do_aside(self._try_to_index, len(self.codes), urgent=True)
        return False

    def _try_to_index(self) -> None:
        with contextlib.suppress(MemoryError):  # then every search is a binary one, as before
            self._index()

    def _index(self) -> None:
        """Makes the bucket index, and what it needs to know."""
        self._unique, self._directory = self.unique, self.directory

    def find_ranges(self, probes: npt.NDArray[Any]) -> tuple[Indexes, Indexes, Indexes]:
        """Ranges of the rows with the probes' codes.

        Args:
            probes: codes in any order.

        Returns:
            Positions of the probes that hit (ascending), and the first and past-the-last row of
            each.
        """
        if self._searches_by_directory(len(probes)):
            return self.directory.find(probes, unique=self.unique)
        codes = self.codes
        starts = codes.searchsorted(probes)
        hits = (codes.take(starts, mode="clip") == probes).nonzero()[0]
        if not len(hits):
            return hits, hits, hits
        probes, starts = probes[hits], starts[hits]
        stops = starts + 1
        on = ((codes.take(stops, mode="clip") == probes) & (stops < len(codes))).nonzero()[0]
        if len(on):
            stops[on] = codes.searchsorted(probes[on], "right")
        return hits, starts, stops

    def find_last(self, probes: npt.NDArray[Any]) -> tuple[Indexes, Indexes]:
        """The positions of the probes that hit (ascending), and the last row of each."""
        if self._searches_by_directory(len(probes)):
            return self.directory.find_last(probes)
        rows = self.codes.searchsorted(probes, "right") - 1
        hits = (self.codes.take(rows, mode="clip") == probes).nonzero()[0]
        return hits, rows[hits]

    def find(self, probes: npt.NDArray[Any]) -> tuple[Indexes, Indexes]:
        """All pairs (position of a probe, row) with equal codes; probes in any order."""
        hits, starts, stops = self.find_ranges(probes)
        if not len(hits) or int((stops - starts).sum()) == len(hits):
            return hits, starts
        which, rows = expand(starts, stops)
        return hits[which], rows


def find_in_probes(codes: npt.NDArray[Any], probes: npt.NDArray[Any]) -> tuple[Indexes, Indexes]:
    """Finds pairs as `Run.find` does, for few codes in any order; here the probes ascend."""
    starts = probes.searchsorted(codes)
    if not len(probes) or not (probes.take(starts, mode="clip") == codes).any():
        return np.zeros(0, np.int64), np.zeros(0, np.int64)  # mostly so
    rows, found = expand(starts, probes.searchsorted(codes, "right"))
    return found, rows


def pack_run(
    layout: Layout,
    codes: npt.NDArray[Any],
    parts: list[list[Column]],
    order: Order | None,
    weights: Weights | None,
) -> Run:
    """A run of chosen rows; those of weight zero are left out.

    Args:
        layout: of the run.
        codes: search codes of all rows.
        parts: all rows, each column in one or more pieces; they are released one after the other,
            so that at most one column is in memory twice.
        order: the run's rows, in its order; None for all as they stand.
        weights: their weights in that order; None for all ones.
    """
    if weights is not None and not weights.all():
        live = weights.nonzero()[0]
        order, weights = live if order is None else order[live], weights[live]
    if weights is not None and (weights == 1).all():
        weights = None
    # Where the key column is the codes, which the callers hold, it comes last.
    last = layout.key[0]
    columns = {i: _gathered(parts[i], order) for i in sorted(range(len(parts)), key=last.__eq__)}
    taken = [columns[i] for i in range(len(parts))]
    if layout.native:
        codes = taken[last].values  # type: ignore[union-attr]
    elif order is not None:
        codes = in_order(codes, order)
    return Run(codes, tuple(taken), weights)


def _gathered(pieces: list[Column], order: Order | None) -> Column:
    column = concat_released(pieces)
    if order is None:
        return column
    if isinstance(column, FixedColumn):
        valid = None if column.valid is None else in_order(column.valid, order)
        return FixedColumn(in_order(column.values, order), valid)
    return column.take(order.astype(np.int64, copy=False))


def in_order(values: npt.NDArray[Any], order: Order) -> npt.NDArray[Any]:
    """The values in an order; of a long one numpy gets a stretch at a time, as it widens it."""
    if order.dtype == np.int64:
        return taken(values, order)  # type: ignore[arg-type]
    found = np.empty(len(order), values.dtype)
    for start in range(0, len(order), STRETCH):
        found[start : start + STRETCH] = values[order[start : start + STRETCH]]
    return found


def parts_of(runs: Sequence[Run]) -> list[list[Column]]:
    """The columns of several runs, each in as many pieces."""
    return [list(pieces) for pieces in zip(*[run.columns for run in runs], strict=True)]
