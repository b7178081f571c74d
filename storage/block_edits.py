"""Blocks of sorted rows with a delta added.

Law: only blocks that the delta falls into are written anew; blocks that have grown are cut, and one
that has become small joins the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ivm.storage import block
from ivm.storage.block import Block, cut
from ivm.storage.column import Column, Indexes, concat

MANY = 64  # changed rows from which on what lies between them is written anew too
_FEW = 8


def edited(
    blocks: list[Block],
    starts: Indexes,
    rows: Sequence[Column],
    at: Indexes,
    weights: Indexes,
) -> tuple[list[Block], Indexes]:
    """The blocks after a sorted delta.

    Args:
        blocks: at least one.
        starts: their first places, and the end.
        rows: the delta's distinct rows.
        at: before which place each is inserted; the first place it is removed from.
        weights: how often, not 0.

    Returns:
        The blocks, and for each the number it had before, −1 for a new one.
    """
    count = len(blocks)
    owners = np.minimum(starts.searchsorted(at, "right") - 1, count - 1)
    ends = starts.searchsorted(at - np.minimum(weights, 0), "left") - 1
    ends = np.minimum(np.maximum(ends, owners), count - 1)
    result: list[Block] = []
    origin = []
    done = 0
    for first, last, begin, end in _stretches(owners, ends):
        result += blocks[done:first]
        origin.append(np.arange(done, first))
        shifted = at[begin:end] - int(starts[first])
        columns, size = _rewritten(
            blocks[first : last + 1], rows, shifted, weights[begin:end], begin
        )
        joins = 0 < size < block.LEAST and bool(result)
        if joins and size + result[-1].size <= block.MOST:
            pairs = zip(result[-1].columns, columns, strict=True)
            columns = tuple([concat(pair) for pair in pairs])
            size += result.pop().size
            origin.append(np.array([-2]))  # the block before is no more
        whole = 0 < size <= block.MOST
        fresh = [Block(columns, size)] if whole else cut(columns, size)
        result += fresh
        origin.append(np.full(len(fresh), -1))
        done = last + 1
    result += blocks[done:]
    origin.append(np.arange(done, count))
    return result, _without_joined(np.concatenate(origin))


def _without_joined(origin: Indexes) -> Indexes:
    joined = np.flatnonzero(origin == -2)
    return np.delete(origin, np.concatenate([joined, joined - 1])) if len(joined) else origin


def _rewritten(
    blocks: list[Block],
    rows: Sequence[Column],
    at: Indexes,
    weights: Indexes,
    first: int,
) -> tuple[tuple[Column, ...], int]:
    """The blocks' rows with a part of the delta, that from row `first` on, added."""
    size = sum([block.size for block in blocks])
    columns = []
    new = size + int(weights.sum())
    if len(at) <= _FEW:
        edits = list(zip(at.tolist(), weights.tolist(), strict=True))
        for number, column in enumerate(rows):
            old = concat([block.columns[number] for block in blocks])
            columns.append(_spliced(old, column, first, edits, size))
        return tuple(columns), new
    order = _order(size, at, weights)
    for number, column in enumerate(rows):
        parts = [block.columns[number] for block in blocks]
        columns.append(concat([*parts, column.slice(first, first + len(at))]).take(order))
    return tuple(columns), new


def _spliced(
    old: Column, rows: Column, first: int, edits: list[tuple[int, int]], size: int
) -> Column:
    parts, done = [], 0
    for number, (at, weight) in enumerate(edits):
        if at > done:
            parts.append(old.slice(done, at))
        done = at - min(weight, 0)
        row = first + number
        if weight == 1:
            parts.append(rows.slice(row, row + 1))
        elif weight > 1:
            parts.append(rows.take(np.full(weight, row)))
    if size > done or not parts:
        parts.append(old.slice(done, size))
    return concat(parts)


def _order(size: int, at: Indexes, weights: Indexes) -> Indexes:
    """Places 0 … size−1 less the removed ones, with the delta's rows size + i between them."""
    kept = np.ones(size, np.bool_)
    gone = np.flatnonzero(weights < 0)
    edges = np.zeros(size + 1, np.int64)
    np.add.at(edges, at[gone], 1)
    np.add.at(edges, at[gone] - weights[gone], -1)
    kept[np.cumsum(edges[:-1]) > 0] = False
    come = np.flatnonzero(weights > 0)
    new = np.repeat(come, weights[come])
    before = np.concatenate([[0], np.cumsum(kept)])
    places = before[at[new]] + np.arange(len(new))
    order = np.empty(int(before[-1]) + len(new), np.int64)
    fresh = np.zeros(len(order), np.bool_)
    fresh[places] = True
    order[fresh] = new + size
    order[~fresh] = np.flatnonzero(kept)
    return order


def _stretches(owners: Indexes, ends: Indexes) -> list[tuple[int, int, int, int]]:
    """Neighbouring blocks to be rewritten together: first and last block, and the delta's rows."""
    if len(owners) == 1:
        return [(int(owners[0]), int(ends[0]), 0, 1)]
    reach = np.maximum.accumulate(ends)
    gap = 0 if len(owners) <= MANY else 4  # many changes: rewrite what lies between them too
    begins = np.flatnonzero(owners[1:] > reach[:-1] + gap) + 1
    starts = [0, *begins.tolist()]
    stops = [*begins.tolist(), len(owners)]
    return [(int(owners[a]), int(reach[b - 1]), a, b) for a, b in zip(starts, stops, strict=True)]
