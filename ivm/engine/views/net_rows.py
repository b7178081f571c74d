"""The rows of a view after many deltas, by the key that is unique in it.

Law: latest(batches) = the sum of the batches. Of each key that is left, the row that was added last
is the row that is there, so only the keys of all rows are compared, and of the other columns only
the batches that are left are read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ivm.engine.views.patched_rows import encoded
from ivm.storage.values.column import Indexes, concat
from ivm.storage.values.consolidate import distinct_rows
from ivm.storage.values.group_numbers import Groups
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import Weights, ZSet, add, ones

MOST_ROWS = 512
"""Rows of all batches; of more the batches that are left are most of them."""


def latest(batches: Sequence[ZSet], key: Sequence[int], types: Sequence[ColumnType]) -> ZSet | None:
    """The sum of batches whose partial sums have every key once at most.

    Args:
        batches: the rows of a view, each with weight 1, and its deltas in their order,
            consolidated: of each key a delta adds one row at most.
        key: positions of the columns that are unique in the view; () for one row at most.
        types: of the columns.

    Returns:
        The rows, each with weight 1; None where the sum has to be computed.
    """
    if 2 * len(key) >= len(types) or sum([len(batch.weights) for batch in batches]) > MOST_ROWS:
        return None  # to number the keys costs what it saves
    if not key:
        return _last(batches)
    weights = np.concatenate([batch.weights for batch in batches])
    first, inverse = _keys(batches, key, types, weights)
    net = np.zeros(len(first), np.int64)
    np.add.at(net, inverse, weights)
    added = (weights > 0).nonzero()[0]
    stops = np.array([len(batch.weights) for batch in batches]).cumsum()
    if not len(added) or net.min() < 0 or net.max() > 1:
        return None  # there is nothing to take, or something is wrong, which the sum will say
    last = np.zeros(len(first), np.int64)
    last[inverse[added]] = added  # the last one written stays
    return _taken(batches, last[net == 1], stops)


def _last(batches: Sequence[ZSet]) -> ZSet | None:
    """The row that was added last, if it is left; lists of so few weights cost less than arrays."""
    weights = [batch.weights.tolist() for batch in batches]
    if sum(map(sum, weights)) != 1:
        return None
    for batch, signs in zip(reversed(batches), reversed(weights), strict=True):
        if 1 in signs:
            row = signs.index(1)
            return batch.slice(row, row + 1)
    return None


def _keys(
    batches: Sequence[ZSet], key: Sequence[int], types: Sequence[ColumnType], weights: Weights
) -> Groups:
    columns = [concat([batch.columns[i] for batch in batches]) for i in key]
    keys = encoded(ZSet(tuple(columns), weights))  # strings are compared as numbers
    return distinct_rows(keys.columns, [types[i] for i in key])


def _taken(batches: Sequence[ZSet], rows: Indexes, stops: Indexes) -> ZSet:
    """The rows of the batches one after another, that end at `stops`, at the places `rows`."""
    if not len(rows):
        return batches[0].slice(0, 0)
    piece = stops.searchsorted(rows, "right")
    used = sorted(set(piece.tolist()))
    some = [batches[i] for i in used]
    moved, stop = np.empty(len(batches), np.int64), 0  # from the place in all to that in some
    for i, batch in zip(used, some, strict=True):
        stop += len(batch.weights)
        moved[i] = stop - stops[i]
    places = rows + moved[piece]
    return ZSet(tuple([c.take(places) for c in add(some).columns]), ones(len(rows)))
