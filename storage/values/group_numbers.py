"""Dense numbers of equal codes, by counting, scattering, or pairwise comparison after a hash.

Law: inverse[i] = inverse[j] ⇔ rows i and j are equal; first[g] is the least row of group g. The
choice among the three ways may change the numbers, never the groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ivm.storage.values import thresholds
from ivm.storage.values.column import Codes, Indexes, Mask
from ivm.storage.values.hashing import scatter
from ivm.storage.values.radix_sort import order_of

Same = Callable[[Indexes, Indexes], Mask]

_COUNTED = 4  # codes below so many times the rows are counted instead of scattered


class Groups(NamedTuple):
    """Dense numbers of equal rows.

    Attributes:
        first: int64[g], the index of each group's first row.
        inverse: int64[n], each row's group number, in 0 … g−1.
    """

    first: Indexes
    inverse: Indexes


def number_exact(codes: Codes, limit: int | None = None) -> Groups:
    """Groups of equal codes.

    Args:
        codes: int64[n].
        limit: all codes are in 0 … limit−1, if known.
    """
    if limit is not None and limit <= _COUNTED * len(codes):
        return _by_counting(codes, limit)
    return _by_code(codes)


def has_repeats(codes: Codes) -> bool:
    """Returns whether a code occurs twice."""
    if bool((codes[1:] > codes[:-1]).all()):
        return False
    bucket, numbers = _buckets(codes), np.arange(len(codes), dtype=np.int32)
    holders = np.empty(1 << _bits(len(codes)), np.int32)
    holders[bucket] = numbers
    holder = holders.take(bucket)
    lost = (holder != numbers).nonzero()[0]
    losers = codes[lost]
    if bool((losers == codes[holder[lost]]).any()):
        return True
    losers.sort()  # equal codes that lost their bucket to another one
    return bool((losers[1:] == losers[:-1]).any())


def number_hashed(codes: Codes, same: Same) -> Groups:
    """Groups of equal rows.

    Args:
        codes: int64[n]; equal rows have equal codes.
        same: pairwise equality of row numbers.
    """
    first, inverse = _by_code(codes)
    apart = _apart(first[inverse], np.arange(len(codes)), same)
    while len(apart):  # rows that share a code with a different row: number them anew
        sub_first, sub_inverse = _by_sorting(codes[apart])
        inverse[apart] = sub_inverse + len(first)
        first = np.concatenate((first, apart[sub_first]))
        apart = apart[_apart(apart[sub_first[sub_inverse]], apart, same)]
    return Groups(first, inverse)


def _apart(leaders: Indexes, rows: Indexes, same: Same) -> Indexes:
    """Positions whose row is not equal to its leader (a row that leads is)."""
    followers = np.flatnonzero(leaders != rows)
    if len(followers) == 0:
        return followers
    return followers[~same(leaders[followers], rows[followers])]


def _by_counting(codes: Codes, limit: int) -> Groups:
    least = np.full(limit, -1, np.int64)
    least[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last one written stays
    used = np.flatnonzero(least >= 0)
    numbers = np.empty(limit, np.int64)
    numbers[used] = np.arange(len(used))
    return Groups(least[used], numbers[codes])


def _by_code(codes: Codes) -> Groups:
    return _by_scattering(codes) if len(codes) >= thresholds.SCATTERED_ROWS else _by_sorting(codes)


def _by_scattering(codes: Codes) -> Groups:
    """Groups by the bucket each code is hashed to; codes that lose their bucket are sorted."""
    bucket, numbers = _buckets(codes), np.arange(len(codes), dtype=np.int32)
    least = np.empty(1 << _bits(len(codes)), np.int32)
    least[bucket[::-1]] = numbers[::-1]  # the last one written stays
    leads = least.take(bucket)
    leader = leads.astype(np.int64)
    lost = (codes.take(leader) != codes).nonzero()[0]
    leading = leads == numbers
    first = leading.nonzero()[0]
    inverse = (np.cumsum(leading) - 1).take(leader)
    if len(lost):
        others = _by_sorting(codes[lost])
        inverse[lost] = others.inverse + len(first)
        first = np.concatenate((first, lost[others.first]))
    return Groups(first, inverse)


def _bits(count: int) -> int:
    return count.bit_length() + 2


def _buckets(codes: Codes) -> Indexes:
    return scatter(codes.view(np.uint64), np.uint64(64 - _bits(len(codes))))


def _by_sorting(codes: Codes) -> Groups:
    if len(codes) == 0:
        none = np.zeros(0, np.int64)
        return Groups(none, none)
    order = order_of(codes)  # which is stable: the first of equal rows is the least
    ordered = codes[order]
    begins = np.empty(len(codes), np.bool_)
    begins[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    inverse = np.empty(len(codes), np.int64)
    inverse[order] = np.cumsum(begins) - 1
    return Groups(order[np.flatnonzero(begins)], inverse)
