"""Builds and merges runs, ordered under each key or not, and cancels opposite weights.

Law: the run of a batch is the batch as a Z-set, and merge(a, b) = a + b, or in a `unique` layout
the last entry of each key; the result depends on the rows alone, never on when it is computed. A
merge compares only rows that meet one of the other sign by a hash, so merging costs little more
than copying.

Invariant: in an ordered run no row occurs twice and rows ascend by (code, terms of the order). A
merge of two finds the position of each row of the shorter run by binary search among the rows with
its code, so it costs the searches of the shorter run, and a copy.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.run import STRETCH, Order, Run, in_order, pack_run, parts_of
from ivm.storage.values.column import (
    AnyCodes,
    ArrowColumn,
    Column,
    DictionaryColumn,
    FixedColumn,
    Indexes,
    Mask,
    concat,
    concat_released,
    join_arrays,
    join_released,
)
from ivm.storage.values.consolidate import distinct_rows, opposed
from ivm.storage.values.equality import equal_pairs, equal_rows
from ivm.storage.values.key_codes import KeyCodes, same_key
from ivm.storage.values.ordering.compare_rows import compare_rows, lower_bounds
from ivm.storage.values.ordering.sort import sort_rows
from ivm.storage.values.radix_sort import order_of
from ivm.storage.values.zset import Weights, ZSet

_STRETCH = 1 << 14  # rows compared at a time, so that the passes stay in the cache


def build_run(layout: Layout, batch: ZSet, codes: KeyCodes | None = None) -> Run:
    """The run of a batch's rows (`codes`: those of its key, if known).

    Opposite weights are left to the first merge, unless the layout has an order.
    """
    searched = layout.search_codes(layout.key_columns(batch.columns), codes)
    if layout.order:
        return build_ordered(layout, searched, batch)
    order = _sorted(searched)
    weights = None if (batch.weights == 1).all() else batch.weights
    if weights is not None and order is not None:
        weights = weights[order]
    return pack_run(layout, searched, [[c] for c in batch.columns], order, weights)


def build_large_run(
    layout: Layout, batches: list[ZSet], known: list[AnyCodes] | None = None
) -> Run:
    """The run of many batches' rows, which are taken over: the lists are empty afterwards.

    At most one column stands in memory twice at a time.

    Args:
        layout: of the run.
        batches: at least one.
        known: the search codes of each, if they are known.
    """
    ones = all((b.weights == 1).all() for b in batches)
    weights = None if ones else join_arrays([b.weights for b in batches])
    if known is None and not layout.native:
        known = [layout.search_codes(layout.key_columns(b.columns)) for b in batches]
    parts = [list(pieces) for pieces in zip(*[b.columns for b in batches], strict=True)]
    batches.clear()
    if layout.native:  # the codes are the key column
        key = concat_released(parts[layout.key[0]])
        parts[layout.key[0]].append(key)
        codes = layout.search_codes([key])
    else:
        assert known is not None
        codes = join_released(known)
    if layout.order:
        return _packed_in_order(layout, codes, parts, weights)
    return _cancelled(layout, codes, parts, weights, _sorted(codes))


def merge_runs(layout: Layout, runs: Sequence[Run], *, oldest: bool = False) -> Run:
    """One run with the rows of all.

    Args:
        layout: of the runs.
        runs: neighbours, oldest first.
        oldest: the arrangement has no older run.
    """
    if layout.unique:
        merged = _merge_unique(layout, runs, oldest)
    else:
        merged = merge_ordered(layout, runs) if layout.order else _merge_unordered(layout, runs)
    merged.short = merged.short and all(run.short for run in runs)
    return merged


def _merge_unordered(layout: Layout, runs: Sequence[Run]) -> Run:
    codes = join_arrays([run.codes for run in runs])
    # Each run is an ascending part of the codes: the stable sort finds these parts and merges them.
    order = np.argsort(codes, kind="stable")
    return _cancelled(layout, codes, parts_of(runs), _weights(runs), order)


def _merge_unique(layout: Layout, runs: Sequence[Run], oldest: bool) -> Run:
    """The last entry of each key; entries that take rows out stay as long as there are older ones.

    Where keys of one hash take turns, some have several entries, the last of which counts.
    """
    codes, parts, weights = join_arrays([run.codes for run in runs]), parts_of(runs), _weights(runs)
    order: Indexes = np.argsort(codes, kind="stable")
    ordered = codes[order]
    same = ordered[1:] == ordered[:-1]
    if not layout.exact or any(key.valid is not None for key in parts[layout.key[0]]):
        same = _of_equal_keys(layout, parts, order, same)
    order = order[np.append(~same, True)]
    weights = None if weights is None else weights[order]
    if oldest and weights is not None:
        gone = weights < 0
        gone[_repeated(codes[order])] = False  # an older entry of the key may have stayed
        weights[gone] = 0
    return pack_run(layout, codes, parts, order, weights)


def _of_equal_keys(layout: Layout, parts: list[list[Column]], order: Indexes, same: Mask) -> Mask:
    """Which entries are followed by one of the same key, of those followed by one of their code."""
    for i in layout.key:
        parts[i].append(concat_released(parts[i]))
    keys, rows = [parts[i][0] for i in layout.key], same.nonzero()[0]
    found = np.zeros(len(same), np.bool_)
    found[rows] = same_key(keys, order[rows], keys, order[rows + 1], layout.key_types)
    return found


def _weights(runs: Sequence[Run]) -> Weights | None:
    if all(run.weights is None for run in runs):
        return None
    return _written_out(runs)


def _written_out(runs: Sequence[Run]) -> Weights:
    ones = [np.ones(len(run), np.int64) if run.weights is None else run.weights for run in runs]
    return join_arrays(ones)


def _sorted(codes: AnyCodes) -> Order | None:
    """The order of the codes, None when they ascend."""
    if bool((codes[1:] >= codes[:-1]).all()):
        return None
    order = order_of(codes)
    return order.astype(np.uint32) if STRETCH <= len(order) < 1 << 32 else order


def _cancelled(
    layout: Layout,
    codes: AnyCodes,
    parts: list[list[Column]],
    weights: Weights | None,
    order: Order | None,
) -> Run:
    """The run of the rows in the given order; weights None are all 1. Empties `parts`."""
    if weights is not None and order is not None:
        weights = in_order(weights, order)
    if weights is None and not layout.key_is_row:
        return pack_run(layout, codes, parts, order, None)
    ordered = codes if order is None else in_order(codes, order)
    positions = _repeated(ordered)
    if len(positions):
        weights = np.ones(len(codes), np.int64) if weights is None else weights.copy()
        rows = positions if order is None else order[positions].astype(np.int64, copy=False)
        columns = [concat(pieces).take(rows) for pieces in parts]
        if not layout.key_is_row:
            left = _without_neighbours(layout, ordered, weights, positions, columns)
            positions, columns = _opposed(layout, ordered, weights, *left)
        for start, stop in _segments(ordered[positions]):
            chunk = [column.slice(start, stop) for column in columns]
            _sum_up(layout, chunk, weights, positions[start:stop])
    return pack_run(layout, codes, parts, order, weights)


def _repeated(ordered: AnyCodes) -> Indexes:
    """The positions of all rows under a code of two rows or more, among which equal ones are.

    Where the key is the row, equal rows have equal codes and it is cheap to keep each once; else
    only those of opposite signs matter.
    """
    repeats = ordered[1:] == ordered[:-1]
    found = np.zeros(len(ordered), np.bool_)
    found[1:] = repeats
    found[:-1] |= repeats
    return np.flatnonzero(found)


def _without_neighbours(
    layout: Layout, ordered: AnyCodes, weights: Weights, positions: Indexes, columns: list[Column]
) -> tuple[Indexes, list[Column]]:
    """Cancels rows that stand side by side; the positions left, and their columns.

    So do the row that one update has added and the next one of its key removes, as rows under a
    key stand in the order of their arrival.
    """
    codes, mine, last = ordered[positions], weights[positions], len(positions) - 1
    met = (codes[1:] == codes[:-1]) & (mine[1:] == -mine[:-1])
    pairs = list(zip(columns, layout.types, strict=True))
    plain = [pair for pair in pairs if not _is_costly(pair[0])]
    if plain:
        first, second = ([c.slice(i, i + last) for c, _ in plain] for i in (0, 1))
        met &= equal_pairs(first, second, [type for _, type in plain])
    rows = met.nonzero()[0]
    if len(plain) < len(pairs) and len(rows):
        rest, types = zip(*[pair for pair in pairs if _is_costly(pair[0])], strict=True)
        same = equal_rows(rest, rows, rest, rows + 1, types, False)
        rows = rows.compress(same)  # as `rows[same]`, which takes five times as long
    if not len(rows):
        return positions, columns
    # Of equal rows in succession the first two cancel, then the next two, and so on.
    begins = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1] + 1, out=begins[1:])
    start = np.maximum.accumulate(np.where(begins, rows, 0))
    rows = rows.compress((rows - start) % 2 == 0)
    gone = np.concatenate([rows, rows + 1])
    weights[positions[gone]] = 0
    live = np.ones(len(positions), np.bool_)
    live[gone] = False
    left = live.nonzero()[0]
    left = left[_repeated(codes[left])]
    return positions[left], [column.take(left) for column in columns]


def _is_costly(column: Column) -> bool:
    """Returns whether its values are compared byte by byte."""
    return isinstance(column, ArrowColumn) and not isinstance(column, DictionaryColumn)


def _opposed(
    layout: Layout, ordered: AnyCodes, weights: Weights, positions: Indexes, columns: list[Column]
) -> tuple[Indexes, list[Column]]:
    """The positions whose rows may be equal to one of the other sign, and their columns."""
    codes = [] if layout.native else [FixedColumn(ordered[positions])]
    chosen = np.flatnonzero(opposed([*codes, *columns], weights[positions] < 0))
    return positions[chosen], [column.take(chosen) for column in columns]


def _segments(codes: AnyCodes) -> Iterator[tuple[int, int]]:
    """Bounds of segments that fit the cache and separate no two equal codes."""
    # The first break at or after each multiple of the wanted length; a long code skips several.
    breaks = np.flatnonzero(codes[1:] != codes[:-1]) + 1
    wanted = breaks.searchsorted(np.arange(_STRETCH, len(codes), _STRETCH))
    inner = breaks[np.unique(wanted[wanted < len(breaks)])].tolist()
    return itertools.pairwise([0, *inner, len(codes)])


def _sum_up(layout: Layout, rows: Sequence[Column], weights: Weights, positions: Indexes) -> None:
    """Gives one of several equal rows the weights of all; row i weighs weights[positions[i]]."""
    first, inverse = distinct_rows(rows, layout.types)
    if len(first) == len(positions):
        return
    sums = np.zeros(len(first), np.int64)
    np.add.at(sums, inverse, weights[positions])
    weights[positions] = 0
    weights[positions[first]] = sums


def build_ordered(layout: Layout, codes: npt.NDArray[Any], batch: ZSet) -> Run:
    """The ordered run of a batch's rows, each row once."""
    weights = None if (batch.weights == 1).all() else batch.weights
    return _packed_in_order(layout, codes, [[c] for c in batch.columns], weights)


def _packed_in_order(
    layout: Layout, codes: AnyCodes, parts: list[list[Column]], weights: Weights | None
) -> Run:
    """As `_cancelled`, for an ordered layout."""
    for pieces in parts:
        pieces.append(concat_released(pieces))
    order, begins = sort_rows(codes, [column for (column,) in parts], layout.terms)
    if len(begins) == len(order):
        weights = None if weights is None else weights[order]
    elif weights is None:
        weights = np.diff(begins, append=len(order))
    else:
        weights = np.add.reduceat(weights[order], begins)
    return pack_run(layout, codes, parts, order[begins], weights)


def merge_ordered(layout: Layout, runs: Sequence[Run]) -> Run:
    """One ordered run with the rows of all, the shorter ones first merged with each other."""
    waiting = sorted(runs, key=len)
    while len(waiting) > 1:
        merged = _merge_two(layout, waiting[1], waiting[0])
        waiting = sorted([merged, *waiting[2:]], key=len)
    return waiting[0]


def _merge_two(layout: Layout, long: Run, short: Run) -> Run:
    positions = _positions(layout, long, short)
    twins = _twins(layout, long, short, positions)
    weights = _written_out((long, short))
    # Of a row in both runs the long one's entry gets both weights; the short one's is left out.
    weights[positions[twins]] += weights[len(long) + np.flatnonzero(twins)]
    new = np.flatnonzero(~twins)
    order = _interleaved(len(long), positions[new], new + len(long))
    codes = join_arrays((long.codes, short.codes))
    return pack_run(layout, codes, parts_of((long, short)), order, weights[order])


def _positions(layout: Layout, long: Run, short: Run) -> Indexes:
    """The row of the long run before which each row of the short one belongs."""
    starts = long.codes.searchsorted(short.codes)
    stops = long.codes.searchsorted(short.codes, "right")
    every = np.arange(len(short))
    return lower_bounds(long.columns, starts, stops, short.columns, every, layout.terms)


def _twins(layout: Layout, long: Run, short: Run, positions: Indexes) -> npt.NDArray[np.bool_]:
    """A mask of the rows of the short run that the long one has too, at their positions."""
    twins = positions < len(long)
    rows = np.flatnonzero(twins)
    rows = rows[long.codes[positions[rows]] == short.codes[rows]]
    same = compare_rows(long.columns, positions[rows], short.columns, rows, layout.terms) == 0
    twins[:] = False
    twins[rows[same]] = True
    return twins


def _interleaved(count: int, positions: Indexes, rows: Indexes) -> Indexes:
    """The order 0 … count−1 with `rows` inserted before the given positions (ascending)."""
    # The i-th inserted row is preceded by i others, so its position is positions[i] + i.
    order = np.empty(count + len(rows), np.int64)
    inserted = np.zeros(len(order), np.bool_)
    inserted[positions + np.arange(len(rows))] = True
    order[inserted] = rows
    order[~inserted] = np.arange(count)
    return order
