"""Builds and merges runs: sorting, and cancelling of opposite weights.

Law: the run of a batch is the batch as a Z-set, and merge(a, b) = a + b; the result depends on the
rows alone, never on when it is computed. Only rows that share a code with a negative weight are
compared with each other, so merging a small run into a large one costs little more than copying.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.codes import KeyCodes
from ivm.storage.column import Column, FixedColumn, Indexes
from ivm.storage.consolidate import distinct_rows
from ivm.storage.layout import Layout
from ivm.storage.ordering import sort_keys, sort_rows
from ivm.storage.run import Run, expand
from ivm.storage.zset import Weights, ZSet, add

Codes = npt.NDArray[Any]


def build_run(layout: Layout, batch: ZSet, codes: KeyCodes | None = None) -> Run:
    """The run of a batch's rows (`codes`: those of its key, if known)."""
    searched = layout.search_codes(layout.key_columns(batch.columns), codes)
    return _sorted_run(layout, searched, batch)


def merge_runs(layout: Layout, runs: Sequence[Run]) -> Run:
    """One run with the rows of all."""
    codes = np.concatenate([run.codes for run in runs])
    return _sorted_run(layout, codes, add([run.slice(0, len(run)) for run in runs]))


def _sorted_run(layout: Layout, codes: Codes, batch: ZSet) -> Run:
    if layout.order:
        keys = sort_keys(codes, batch.columns, layout.types, layout.order)
        order, begins = sort_rows(keys)
        weights = np.add.reduceat(batch.weights[order], begins) if len(begins) else batch.weights
        return _pack(layout, codes, batch.columns, order[begins], weights)
    order = np.argsort(codes, kind="stable") if not _ascends(codes) else np.arange(len(codes))
    return _cancelled(layout, codes, batch, order)


def _ascends(codes: Codes) -> bool:
    return bool((codes[1:] >= codes[:-1]).all())


def _cancelled(layout: Layout, codes: Codes, batch: ZSet, order: Indexes) -> Run:
    weights = batch.weights
    if layout.key_is_row:  # equal rows have equal codes: it is cheap to keep each once
        ordered = codes[order]
        wanted = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    else:
        wanted = np.unique(codes[weights < 0])
    if len(wanted):
        weights = _net_weights(layout, codes, batch, order, wanted)
    return _pack(layout, codes, batch.columns, order, weights[order])


def _net_weights(
    layout: Layout, codes: Codes, batch: ZSet, order: Indexes, wanted: Codes
) -> Weights:
    """Weights with those of equal rows under the wanted codes summed up in one of them."""
    ordered = codes[order]
    _, places = expand(ordered.searchsorted(wanted), ordered.searchsorted(wanted, "right"))
    rows = order[places]
    first, inverse = distinct_rows(tuple([c.take(rows) for c in batch.columns]), layout.types)
    sums = np.zeros(len(first), np.int64)
    np.add.at(sums, inverse, batch.weights[rows])
    weights = batch.weights.copy()
    weights[rows] = 0
    weights[rows[first]] = sums
    return weights


def _pack(
    layout: Layout, codes: Codes, columns: Sequence[Column], order: Indexes, weights: Weights
) -> Run:
    """The run of the rows `order`, whose weights are `weights`; zero weights left out."""
    live = weights != 0
    if not live.all():
        order, weights = order[live], weights[live]
    taken = tuple([c.take(order) for c in columns])
    if layout.native:
        key = taken[layout.key[0]]
        assert isinstance(key, FixedColumn)
        codes = key.values
    else:
        codes = codes[order]
    return Run(codes, taken, None if (weights == 1).all() else weights)
