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
from ivm.storage.tail import Tail
from ivm.storage.zset import ZSet, add

Codes = npt.NDArray[Any]


class Source(NamedTuple):
    """What is read: runs of one layout, and the first `seen` rows of a tail."""

    layout: Layout
    runs: Sequence[Run]
    tail: Tail
    seen: int


class _Heads(NamedTuple):
    """Rows read: the probe each was read for, and whether its run goes on after it."""

    probe: Indexes
    goes_on: Mask
    rows: ZSet


def first_rows(
    source: Source, keys: Sequence[Column], k: int, codes: KeyCodes | None
) -> tuple[Indexes, ZSet]:
    """The first k live rows per key: their probes, and the rows in order of probe and layout."""
    probes = source.layout.search_codes(keys, codes)
    order = np.argsort(probes)
    found: list[tuple[Indexes, ZSet]] = []
    depth = k
    while len(order):
        heads = _read(source, probes[order], order, depth)
        if heads is None:
            break
        probe, rows, unsure = _settle(source.layout, keys, heads, k, len(probes))
        found.append((probe, rows))
        order = order[unsure[order]]
        depth *= 2
    if not found:
        return np.zeros(0, np.int64), source.layout.zero
    return found[0] if len(found) == 1 else _in_order_of_probe(found)


def _in_order_of_probe(found: list[tuple[Indexes, ZSet]]) -> tuple[Indexes, ZSet]:
    probe = np.concatenate([probe for probe, _ in found])
    order = np.argsort(probe, kind="stable")
    return probe[order], add([rows for _, rows in found]).take(order)


def _read(source: Source, probes: Codes, numbers: Indexes, depth: int) -> _Heads | None:
    """At most `depth` rows of every run, and all of the tail, for each of the ascending probes."""
    pieces = [_head(run, probes, numbers, depth) for run in source.runs]
    found, rows = source.tail.find(probes, source.seen)
    pieces.append(_Heads(numbers[found], np.zeros(len(rows), np.bool_), source.tail.take(rows)))
    pieces = [piece for piece in pieces if len(piece.probe)]
    if not pieces:
        return None
    probe = np.concatenate([piece.probe for piece in pieces])
    goes_on = np.concatenate([piece.goes_on for piece in pieces])
    return _Heads(probe, goes_on, add([piece.rows for piece in pieces]))


def _head(run: Run, probes: Codes, numbers: Indexes, depth: int) -> _Heads:
    if len(probes) == 1:
        return _head_of_one(run, probes[0], numbers, depth)
    hits, starts, stops = run.find_ranges(probes)
    ends = np.minimum(stops, starts + depth)
    which, rows = expand(starts, ends)
    goes_on = (rows == ends[which] - 1) & (ends < stops)[which]
    return _Heads(numbers[hits[which]], goes_on, run.take(rows))


def _head_of_one(run: Run, code: Any, numbers: Indexes, depth: int) -> _Heads:
    start, stop = run.find_one(code)
    end = min(stop, start + depth)
    goes_on = np.zeros(end - start, np.bool_)
    goes_on[-1:] = end < stop
    return _Heads(numbers.repeat(end - start), goes_on, run.slice(start, end))


def _settle(
    layout: Layout, keys: Sequence[Column], heads: _Heads, k: int, probes: int
) -> tuple[Indexes, ZSet, Mask]:
    """First rows of the probes for which the heads suffice, and which probes are others."""
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
    return probe[kept], rows, unsure


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
