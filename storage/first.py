"""The first live rows under a key, from the heads of the runs.

Law: let b be the least of the last rows read from runs that have more to give; every row up to b
has been read in all runs (no row stands twice in a run), so its net weight is known. Where
cancelled rows leave fewer than k known live ones, the heads are read twice as deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ivm.storage.codes import KeyCodes, same_key
from ivm.storage.column import Column, Indexes, Mask
from ivm.storage.layout import Layout
from ivm.storage.ordering import sort_rows
from ivm.storage.run import Run, expand
from ivm.storage.zset import ZSet, add

Codes = npt.NDArray[Any]


class _Heads(NamedTuple):
    """Rows read: the probe each was read for, and whether its run goes on after it."""

    probe: Indexes
    goes_on: Mask
    rows: ZSet


def first_rows(
    layout: Layout, runs: Sequence[Run], keys: Sequence[Column], k: int, codes: KeyCodes | None
) -> tuple[Indexes, ZSet]:
    """The first k live rows per key: their probes, and the rows in order of probe and layout."""
    probes = layout.search_codes(keys, codes)
    found: list[tuple[Indexes, ZSet]] = []
    active, depth = np.arange(len(probes)), k
    while len(active):
        heads = _read(runs, probes, active, depth)
        if heads is None:
            break
        probe, rows, active = _settle(layout, keys, heads, k, len(probes))
        found.append((probe, rows))
        depth *= 2
    if not found:
        return np.zeros(0, np.int64), layout.zero
    return found[0] if len(found) == 1 else _in_order_of_probe(found)


def _in_order_of_probe(found: list[tuple[Indexes, ZSet]]) -> tuple[Indexes, ZSet]:
    probe = np.concatenate([probe for probe, _ in found])
    order = np.argsort(probe, kind="stable")
    return probe[order], add([rows for _, rows in found]).take(order)


def _read(runs: Sequence[Run], probes: Codes, active: Indexes, depth: int) -> _Heads | None:
    """At most `depth` rows of every run for each active probe."""
    pieces: list[_Heads] = []
    for run in runs:
        hits, starts, stops = run.find_ranges(probes[active])
        ends = np.minimum(stops, starts + depth)
        which, rows = expand(starts, ends)
        if len(rows):
            goes_on = (rows == ends[which] - 1) & (ends < stops)[which]
            pieces.append(_Heads(active[hits[which]], goes_on, run.take(rows)))
    if not pieces:
        return None
    probe = np.concatenate([piece.probe for piece in pieces])
    goes_on = np.concatenate([piece.goes_on for piece in pieces])
    return _Heads(probe, goes_on, add([piece.rows for piece in pieces]))


def _settle(
    layout: Layout, keys: Sequence[Column], heads: _Heads, k: int, probes: int
) -> tuple[Indexes, ZSet, Indexes]:
    """First rows of the probes for which the heads suffice, and the other probes."""
    columns = heads.rows.columns
    order, begins = sort_rows(heads.probe, columns, layout.terms)
    known = _known(heads, order, begins, probes)
    row, probe = order[begins], heads.probe[order[begins]]
    weights = np.add.reduceat(heads.rows.weights[order], begins)
    weights[~(known & (weights > 0) & _right_key(layout, keys, columns, probe, row))] = 0
    totals = np.zeros(probes, np.int64)
    np.add.at(totals, probe, weights)
    unsure = (totals < k) & _marked(heads.probe[heads.goes_on], probes)
    before = np.cumsum(weights) - weights - (np.cumsum(totals) - totals)[probe]
    weights = np.minimum(weights, k - before)
    kept = np.flatnonzero((weights > 0) & ~unsure[probe])
    rows = ZSet(tuple([c.take(row[kept]) for c in columns]), weights[kept])
    return probe[kept], rows, np.flatnonzero(unsure)


def _marked(members: Indexes, count: int) -> Mask:
    mask = np.zeros(count, np.bool_)
    mask[members] = True
    return mask


def _known(heads: _Heads, order: Indexes, begins: Indexes, probes: int) -> Mask:
    """Whether each distinct row stands at or before the bound of its probe."""
    number = np.zeros(len(order), np.int64)
    number[begins[1:]] = 1
    number = np.cumsum(number)
    bound = np.full(probes, len(order), np.int64)
    last = heads.goes_on[order]
    np.minimum.at(bound, heads.probe[order][last], number[last])
    return np.arange(len(begins)) <= bound[heads.probe[order[begins]]]


def _right_key(
    layout: Layout, keys: Sequence[Column], columns: Sequence[Column], probe: Indexes, row: Indexes
) -> Mask:
    return same_key(keys, probe, layout.key_columns(columns), row, layout.key_types)
