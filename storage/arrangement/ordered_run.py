"""Builds and merges runs whose rows are sorted under each key.

Law: in an ordered run no row stands twice and rows ascend by (code, terms of the order); a merge
finds the place of each row of the shorter run by binary search among those with its code, so it
costs what the shorter run costs, and a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.run import Run, pack_run, parts_of
from ivm.storage.values.column import Indexes, join_arrays
from ivm.storage.values.compare_rows import compare_rows, lower_bounds
from ivm.storage.values.sort import sort_rows
from ivm.storage.values.zset import Weights, ZSet


def build_ordered(layout: Layout, codes: npt.NDArray[Any], batch: ZSet) -> Run:
    """The ordered run of a batch's rows, each row once."""
    order, begins = sort_rows(codes, batch.columns, layout.terms)
    weights = batch.weights
    if len(begins) == len(order):
        weights = weights[order]
    elif len(begins):
        weights = np.add.reduceat(weights[order], begins)
    return pack_run(layout, codes, [[c] for c in batch.columns], order[begins], weights)


def merge_ordered(layout: Layout, runs: Sequence[Run]) -> Run:
    """One ordered run with the rows of all, the shorter ones first merged with each other."""
    waiting = sorted(runs, key=len)
    while len(waiting) > 1:
        merged = _merge_two(layout, waiting[1], waiting[0])
        waiting = sorted([merged, *waiting[2:]], key=len)
    return waiting[0]


def _merge_two(layout: Layout, long: Run, short: Run) -> Run:
    places = _places(layout, long, short)
    twins = _twins(layout, long, short, places)
    weights = _weights(long, short)
    weights[places[twins]] += weights[len(long) + np.flatnonzero(twins)]
    new = np.flatnonzero(~twins)
    order = _interleaved(len(long), places[new], new + len(long))
    codes = join_arrays((long.codes, short.codes))
    return pack_run(layout, codes, parts_of((long, short)), order, weights[order])


def _places(layout: Layout, long: Run, short: Run) -> Indexes:
    """Before which row of the long run each row of the short one belongs."""
    starts = long.codes.searchsorted(short.codes)
    stops = long.codes.searchsorted(short.codes, "right")
    every = np.arange(len(short))
    return lower_bounds(long.columns, starts, stops, short.columns, every, layout.terms)


def _twins(layout: Layout, long: Run, short: Run, places: Indexes) -> npt.NDArray[np.bool_]:
    """Which rows of the short run the long one has too, at their place."""
    twins = places < len(long)
    rows = np.flatnonzero(twins)
    rows = rows[long.codes[places[rows]] == short.codes[rows]]
    same = compare_rows(long.columns, places[rows], short.columns, rows, layout.terms) == 0
    twins[:] = False
    twins[rows[same]] = True
    return twins


def _weights(long: Run, short: Run) -> Weights:
    parts = [np.ones(len(r), np.int64) if r.weights is None else r.weights for r in (long, short)]
    return join_arrays(parts)


def _interleaved(count: int, places: Indexes, rows: Indexes) -> Indexes:
    """0 … count−1 with `rows` put in before the given places (ascending)."""
    order = np.empty(count + len(rows), np.int64)
    inserted = np.zeros(len(order), np.bool_)
    inserted[places + np.arange(len(rows))] = True
    order[inserted] = rows
    order[~inserted] = np.arange(count)
    return order
