"""Equal rows brought together: consolidation of Z-sets and dense group numbers.

Law: consolidate(z) and z are the same function from rows to weights; group(c).inverse[i] =
group(c).inverse[j] ⇔ rows i and j are equal under SQL's grouping equality.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ivm.storage.codes import key_codes, row_codes, same_key, same_row
from ivm.storage.column import Column, Indexes, Mask
from ivm.storage.types import ColumnType
from ivm.storage.zset import ZSet


class Groups(NamedTuple):
    """Dense numbers of equal rows.

    Attributes:
        first: int64[g], the index of each group's first row.
        inverse: int64[n], each row's group number, in 0 … g−1.
    """

    first: Indexes
    inverse: Indexes


def consolidate(zset: ZSet, types: Sequence[ColumnType]) -> ZSet:
    """The same Z-set with every row once and no weight zero (in no promised order)."""
    if len(zset) <= 1:
        return zset if len(zset) == 0 or zset.weights[0] != 0 else zset.slice(0, 0)
    if not types:
        total = zset.weights.sum(keepdims=True)
        return ZSet((), total[total != 0])
    first, inverse = distinct_rows(zset.columns, types)
    if len(first) == len(zset):
        kept = zset.weights != 0
        return zset if kept.all() else zset.filter(kept)
    weights = np.zeros(len(first), np.int64)
    np.add.at(weights, inverse, zset.weights)
    live = np.flatnonzero(weights)
    return ZSet(tuple([c.take(first[live]) for c in zset.columns]), weights[live])


def distinct_rows(columns: Sequence[Column], types: Sequence[ColumnType]) -> Groups:
    """Groups of exactly equal rows."""

    def same(a: Indexes, b: Indexes) -> Mask:
        return same_row(columns, a, columns, b, types)

    return number(row_codes(columns, types), same)


def group(columns: Sequence[Column], types: Sequence[ColumnType]) -> Groups:
    """Groups of rows equal under SQL's grouping equality (NULL = NULL).

    Args:
        columns: at least one, of equal length.
        types: their types.

    Returns:
        Numbers that depend on the rows and their order alone.
    """
    codes = key_codes(columns, types)
    if codes.exact and codes.null is None:
        return number(codes.codes, None)

    def same(a: Indexes, b: Indexes) -> Mask:
        return same_key(columns, a, columns, b, types)

    return number(codes.codes, same)


def number(codes: npt.NDArray[np.int64], same: Callable[[Indexes, Indexes], Mask] | None) -> Groups:
    """Dense numbers of rows by their codes.

    Args:
        codes: int64[n]; equal rows have equal codes.
        same: pairwise equality of row numbers, None when equal codes mean equal rows.
    """
    groups = _by_code(codes)
    if same is None:
        return groups
    first, inverse = groups
    apart = _apart(first[inverse], same)
    while len(apart):  # rows that share a code with a different row: number them anew
        sub_first, sub_inverse = _by_code(codes[apart])
        inverse[apart] = sub_inverse + len(first)
        first = np.concatenate((first, apart[sub_first]))
        apart = apart[_apart(apart[sub_first[sub_inverse]], same, apart)]
    return Groups(first, inverse)


def _apart(
    leaders: Indexes, same: Callable[[Indexes, Indexes], Mask], rows: Indexes | None = None
) -> Indexes:
    """Positions whose row is not equal to its leader (only rows that do not lead are compared)."""
    rows = np.arange(len(leaders)) if rows is None else rows
    followers = np.flatnonzero(leaders != rows)
    if len(followers) == 0:
        return followers
    return followers[~same(leaders[followers], rows[followers])]


def _by_code(codes: npt.NDArray[np.int64]) -> Groups:
    """Numbers in the order of the codes; `first` is the smallest index of each."""
    if len(codes) == 0:
        none = np.zeros(0, np.int64)
        return Groups(none, none)
    order = np.argsort(codes)
    ordered = codes[order]
    begins = np.empty(len(codes), np.bool_)
    begins[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    inverse = np.empty(len(codes), np.int64)
    inverse[order] = np.cumsum(begins) - 1
    return Groups(np.minimum.reduceat(order, np.flatnonzero(begins)), inverse)
