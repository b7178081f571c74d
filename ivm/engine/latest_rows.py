"""The rows of a view after many deltas, by the key that is unique in it.

Law: latest(batches) = the sum of the batches. Of each key that is left, the row that was added last
is the row that is there, so only the keys of all rows are compared, and of the other columns only
the batches that are left are read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ivm.storage.values.column import Indexes, concat
from ivm.storage.values.consolidate import distinct_rows
from ivm.storage.values.group_numbers import Groups
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add, ones

_MOST_ROWS = 512
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
    if 2 * len(key) >= len(types) or sum([len(batch.weights) for batch in batches]) > _MOST_ROWS:
        return None  # to number the keys costs what it saves
    weights = np.concatenate([batch.weights for batch in batches])
    first, inverse = _keys(batches, key, types, len(weights))
    net = np.zeros(len(first), np.int64)
    np.add.at(net, inverse, weights)
    added = (weights > 0).nonzero()[0]
    stops = np.array([len(batch.weights) for batch in batches]).cumsum()
    if not len(added) or net.min() < 0 or net.max() > 1:
        return None  # there is nothing to take, or something is wrong, which the sum will say
    last = np.zeros(len(first), np.int64)
    last[inverse[added]] = added  # the last one written stays
    return _taken(batches, last[net == 1], stops)


def _keys(
    batches: Sequence[ZSet], key: Sequence[int], types: Sequence[ColumnType], count: int
) -> Groups:
    if not key:
        return Groups(np.zeros(1, np.int64), np.zeros(count, np.int64))
    columns = [concat([batch.columns[i] for batch in batches]) for i in key]
    return distinct_rows(columns, [types[i] for i in key])


def _taken(batches: Sequence[ZSet], rows: Indexes, stops: Indexes) -> ZSet:
    """The rows of the batches one after another, that end at `stops`, at the places `rows`."""
    if not len(rows):
        return batches[0].slice(0, 0)
    used, piece = np.unique(stops.searchsorted(rows, "right"), return_inverse=True)
    some = [batches[i] for i in used.tolist()]
    lengths = np.array([len(batch.weights) for batch in some])
    places = rows - stops[used][piece] + lengths.cumsum()[piece]
    return ZSet(tuple([c.take(places) for c in add(some).columns]), ones(len(rows)))
