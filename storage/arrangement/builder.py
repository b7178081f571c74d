"""Builds the run of rows that come batch by batch.

Law: the run is that of the batches' sum, in whatever order they come. While they come sorted by key
code, each stretch of them is appended to the run at once, so that one stretch is held beside it.
Rows that come otherwise are kept until the end, and sorted together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ivm.storage.arrangement.build import build_large_run
from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.run import STRETCH, Run
from ivm.storage.values.column import AnyCodes, Column, DictionaryColumn, FixedColumn, concat
from ivm.storage.values.growing_column import GrowingColumn, grown
from ivm.storage.values.zset import Weights, ZSet, all_ones

_ONE = np.ones(1, np.int64)


class RunBuilder:
    """One run in the making.

    Args:
        layout: of the run.

    Attributes:
        ascends: all rows so far came sorted by code.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._closed = _Closed(layout)
        self._open: list[ZSet] = []  # rows of the next part: of their last code more may come
        self._codes: list[AnyCodes] = []  # theirs
        self._joined = self._loose = 0  # batches that were joined, rows of those that were not
        self.ascends = True

    def add(self, batch: ZSet) -> None:
        """Takes rows, columns of the layout, any weights."""
        if not len(batch):
            return
        batch = _lean(batch)
        if self.ascends:
            codes = self._layout.search_codes(self._layout.key_columns(batch.columns))
            self.ascends = self._follow(codes)
            if self.ascends:
                return self._extend(batch, codes)
        self._keep(batch)

    def _keep(self, batch: ZSet) -> None:
        """Keeps rows that come in no order, many batches joined to one."""
        self._open.append(batch)
        self._loose += len(batch)
        if self._loose >= STRETCH:
            self._open[self._joined :] = [_together(self._open[self._joined :])]
            self._joined, self._loose = self._joined + 1, 0

    def _follow(self, codes: AnyCodes) -> bool:
        """Whether the codes ascend, from the last one on."""
        after = not self._codes or bool(codes[0] >= self._codes[-1][-1])
        return after and bool((codes[1:] >= codes[:-1]).all())

    def _extend(self, batch: ZSet, codes: AnyCodes) -> None:
        """Takes rows that follow; where they are many, closes every code but the last."""
        cut = int(codes.searchsorted(codes[-1]))
        if sum(map(len, self._codes)) + cut < STRETCH:
            self._open.append(batch)
            self._codes.append(codes)
            return
        if cut:
            self._open.append(batch.slice(0, cut))
            self._codes.append(codes[:cut])
            batch, codes = batch.take(np.arange(cut, len(batch))), codes[cut:].copy()
        if cut or (self._codes and codes[0] != self._codes[-1][-1]):
            self._close()
        self._open.append(batch)
        self._codes.append(codes)

    def _close(self) -> None:
        if self._open:
            self._closed.append(build_large_run(self._layout, self._open, self._codes))
        self._open, self._codes = [], []

    def run(self) -> Run:
        """The run; the builder is of no use afterwards."""
        if self.ascends:
            self._close()
            return self._closed.run()
        closed = self._closed.run()
        batches = [closed.slice(0, len(closed)), *self._open] if len(closed) else self._open
        del closed  # nobody else may hold the rows
        self._open, self._codes = [], []
        return build_large_run(self._layout, batches)


class _Closed:
    """The run of parts of which each follows the last, and no two have a code in common."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._columns = [GrowingColumn(type) for type in layout.types]
        self._codes: AnyCodes | None = None  # where they are not the key column
        self._weights: Weights | None = None
        self._count = 0

    def append(self, part: Run) -> None:
        """Appends a part."""
        for column, piece in zip(self._columns, part.columns, strict=True):
            column.append(piece)
        if not self._layout.native:
            self._codes = grown(self._codes, part.codes)
        if self._weights is None and part.weights is not None:
            self._weights = np.ones(self._count, np.int64)
        if self._weights is not None:
            self._weights = grown(self._weights, part.weights_of(np.arange(len(part))))
        self._count += len(part)

    def run(self) -> Run:
        """The run; this object is of no use afterwards."""
        columns = tuple([column.column() for column in self._columns])
        codes = self._codes if self._codes is not None else np.zeros(0, np.int64)
        if self._layout.native:
            codes = self._layout.search_codes(self._layout.key_columns(columns))
        return Run(codes, columns, self._weights)


def _together(batches: Sequence[ZSet]) -> ZSet:
    """The sum of lean batches; weights of 1 stay one number."""
    columns = [concat(pieces) for pieces in zip(*[b.columns for b in batches], strict=True)]
    weights = [b.weights for b in batches]
    if all(all_ones(w) for w in weights):
        return ZSet(tuple(columns), np.broadcast_to(_ONE, sum(map(len, weights))))
    return ZSet(tuple(columns), np.concatenate(weights))


def _lean(batch: ZSet) -> ZSet:
    """The same rows in memory of their own, without what a run does not keep.

    DuckDB's batches are larger than their rows, and encoded strings are beside their codes in
    clear.
    """
    weights = batch.weights
    if all_ones(weights):
        weights = np.broadcast_to(_ONE, len(weights))
    return ZSet(tuple([_own(column) for column in batch.columns]), weights)


def _own(column: Column) -> Column:
    if isinstance(column, DictionaryColumn):
        return DictionaryColumn(column.codes)
    if isinstance(column, FixedColumn) and column.values.base is not None:
        return FixedColumn(column.values.copy(), column.valid)
    return column
