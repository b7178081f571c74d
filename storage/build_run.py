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
from ivm.storage.column import Column, Indexes, concat, join_arrays
from ivm.storage.consolidate import distinct_rows
from ivm.storage.layout import Layout
from ivm.storage.ordered_run import build_ordered, merge_ordered
from ivm.storage.run import Run, expand, pack_run, parts_of
from ivm.storage.zset import Weights, ZSet, add

Codes = npt.NDArray[Any]


def build_run(layout: Layout, batch: ZSet, codes: KeyCodes | None = None) -> Run:
    """The run of a batch's rows (`codes`: those of its key, if known)."""
    searched = layout.search_codes(layout.key_columns(batch.columns), codes)
    if layout.order:
        return build_ordered(layout, searched, batch)
    weights = None if (batch.weights == 1).all() else batch.weights
    return _cancelled(layout, searched, [[c] for c in batch.columns], weights, _sorted(searched))


def build_large_run(layout: Layout, batches: list[ZSet]) -> Run:
    """The run of many batches' rows, which are taken over: the list is empty afterwards.

    About one column stands in memory twice at a time.
    """
    if layout.order:
        whole = add(batches)
        batches.clear()
        return build_run(layout, whole)
    codes = join_arrays([layout.search_codes(layout.key_columns(b.columns)) for b in batches])
    weights = [b.weights for b in batches if not (b.weights == 1).all()]
    merged = join_arrays([b.weights for b in batches]) if weights else None
    parts = [list(column) for column in zip(*[b.columns for b in batches], strict=True)]
    batches.clear()
    return _cancelled(layout, codes, parts, merged, _sorted(codes))


def merge_runs(layout: Layout, runs: Sequence[Run]) -> Run:
    """One run with the rows of all."""
    if layout.order:
        return merge_ordered(layout, runs)
    codes = join_arrays([run.codes for run in runs])
    # This sort finds the ascending stretches and merges them.
    order = np.argsort(codes, kind="stable")
    return _cancelled(layout, codes, parts_of(runs), _weights(runs), order)


def _weights(runs: Sequence[Run]) -> Weights | None:
    if all(run.weights is None for run in runs):
        return None
    ones = [np.ones(len(run), np.int64) if run.weights is None else run.weights for run in runs]
    return join_arrays(ones)


def _sorted(codes: Codes) -> Indexes | None:
    """The order of the codes, None when they ascend."""
    if bool((codes[1:] >= codes[:-1]).all()):
        return None
    packed = _packed_order(codes)
    return np.argsort(codes) if packed is None else packed


def _packed_order(codes: Codes) -> Indexes | None:
    """The order by a sort of code and position in one word, which is several times as fast."""
    if codes.dtype.kind != "i":
        return None
    low, bits = int(codes.min()), len(codes).bit_length()
    if (int(codes.max()) - low).bit_length() + bits > 63:
        return None
    words = codes.astype(np.int64)
    words -= low
    words <<= bits
    words |= np.arange(len(codes))
    words.sort()
    words &= (1 << bits) - 1
    return words


def _cancelled(
    layout: Layout,
    codes: Codes,
    parts: list[list[Column]],
    weights: Weights | None,
    order: Indexes | None,
) -> Run:
    """The run of the rows in the given order; weights None are all 1. Empties `parts`."""
    wanted = _suspects(layout, codes, weights, order)
    if len(wanted):
        order = np.arange(len(codes)) if order is None else order
        weights = np.ones(len(codes), np.int64) if weights is None else weights.copy()
        _sum_up(layout, codes, parts, weights, order, wanted)
    if weights is not None and order is not None:
        weights = weights[order]
    return pack_run(layout, codes, parts, order, weights)


def _suspects(
    layout: Layout, codes: Codes, weights: Weights | None, order: Indexes | None
) -> Codes:
    """Codes under which equal rows should be looked for."""
    if layout.key_is_row:  # equal rows have equal codes: it is cheap to keep each once
        ordered = codes if order is None else codes[order]
        return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
    return codes[:0] if weights is None else np.unique(codes[weights < 0])


def _sum_up(
    layout: Layout,
    codes: Codes,
    parts: Sequence[Sequence[Column]],
    weights: Weights,
    order: Indexes,
    wanted: Codes,
) -> None:
    """Give one of several equal rows under the wanted codes the weights of all."""
    ordered = codes[order]
    starts, stops = ordered.searchsorted(wanted), ordered.searchsorted(wanted, "right")
    rows = order[expand(starts, stops)[1]]
    first, inverse = distinct_rows([concat(pieces).take(rows) for pieces in parts], layout.types)
    sums = np.zeros(len(first), np.int64)
    np.add.at(sums, inverse, weights[rows])
    weights[rows] = 0
    weights[rows[first]] = sums
