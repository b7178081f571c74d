"""The first live rows under a key, from the heads of the runs, in either direction.

Law: let b be the least of the last rows read from runs that have more to give; every row up to b
has been read in all runs (no row stands twice in a run), so its net weight is known. Where
cancelled rows leave fewer than k known live ones, the heads are read twice as deep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.arrangement.first_of_one import first_of_one
from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.run_cursors import Heads, Source, read_heads
from ivm.storage.values.column import Column, Indexes, Mask
from ivm.storage.values.key_codes import KeyCodes, same_key
from ivm.storage.values.radix_sort import order_of
from ivm.storage.values.sort import sort_rows
from ivm.storage.values.zset import ZSet, add

_FEW = 4  # keys up to which each by itself is the fastest


def first_rows(
    source: Source, keys: Sequence[Column], k: int, codes: KeyCodes | None
) -> tuple[Indexes, ZSet]:
    """The first k live rows per key: their probes, and the rows in order of probe and layout."""
    layout = source.layout
    probes = layout.search_codes(keys, codes)
    if len(probes) <= _FEW and layout.exact and keys[0].valid is None:
        alone = _each_alone(source, probes, k)
        if alone is not None:
            return alone
    order = np.argsort(probes)
    found: list[tuple[Indexes, ZSet]] = []
    depth = k
    while len(order):
        heads = read_heads(source, probes[order], order, depth)
        if heads is None:
            break
        probe, rows, unsure = _settle(source, keys, heads, k, len(probes))
        found.append((probe, rows))
        order = order[unsure[order]]
        depth *= 2
    if not found:
        return np.zeros(0, np.int64), layout.zero
    return found[0] if len(found) == 1 else _in_order_of_probe(found)


def _each_alone(source: Source, probes: npt.NDArray[Any], k: int) -> tuple[Indexes, ZSet] | None:
    """The same, one probe after the other, or None where the general way must be taken."""
    found = []
    for probe in probes:
        rows = first_of_one(source, probe, k)
        if rows is None:
            return None
        found.append(rows)
    if not found:
        return None
    return np.arange(len(found)).repeat([len(rows) for rows in found]), add(found)


def _in_order_of_probe(found: list[tuple[Indexes, ZSet]]) -> tuple[Indexes, ZSet]:
    probe = np.concatenate([probe for probe, _ in found])
    order = order_of(probe)
    return probe[order], add([rows for _, rows in found]).take(order)


def _settle(
    source: Source, keys: Sequence[Column], heads: Heads, k: int, probes: int
) -> tuple[Indexes, ZSet, Mask]:
    """First rows of the probes for which the heads suffice, and which probes are others."""
    order, begins = sort_rows(heads.probe, heads, source.terms)
    known = _known(heads, order, begins, probes)
    row = order[begins]
    probe = heads.probe[row]
    weights = np.add.reduceat(heads.weights[order], begins)
    weights[~(known & (weights > 0) & _right_key(source.layout, keys, heads, probe, row))] = 0
    totals = np.zeros(probes, np.int64)
    np.add.at(totals, probe, weights)
    unsure = np.zeros(probes, np.bool_)
    unsure[heads.probe[heads.goes_on]] = True
    unsure &= totals < k
    before = np.cumsum(weights) - weights - (np.cumsum(totals) - totals)[probe]
    weights = np.minimum(weights, k - before)
    kept = np.flatnonzero((weights > 0) & ~unsure[probe])
    return probe[kept], heads.take(row[kept], weights[kept]), unsure


def _known(heads: Heads, order: Indexes, begins: Indexes, probes: int) -> Mask:
    """Whether each distinct row stands at or before the bound of its probe."""
    number = np.zeros(len(order), np.int64)
    number[begins[1:]] = 1
    number = np.cumsum(number)
    bound = np.full(probes, len(order), np.int64)
    last = heads.goes_on[order]
    np.minimum.at(bound, heads.probe[order][last], number[last])
    inside: Mask = np.arange(len(begins)) <= bound[heads.probe[order[begins]]]
    return inside


def _right_key(
    layout: Layout, keys: Sequence[Column], heads: Heads, probe: Indexes, row: Indexes
) -> Mask:
    stored = [heads[i] for i in layout.key]
    if layout.exact and keys[0].valid is None and stored[0].valid is None:
        return np.ones(len(row), np.bool_)
    return same_key(keys, probe, stored, row, layout.key_types)
