"""Rows of parameters in rounds, in which no key is there twice.

Law: to execute the rounds one after the other, each at once, is to execute the rows in turn. Where
rows with different keys do not concern each other, a round has the n-th row of each key. Where a
table has several keys they do, and a round has rows that follow one another.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ivm.storage.values.column import Column, Indexes, not_null
from ivm.storage.values.consolidate import all_distinct, group
from ivm.storage.values.types import ColumnType


class Keyed(NamedTuple):
    """The values that all rows have for one key of a table."""

    columns: Sequence[Column]
    types: Sequence[ColumnType]


def rounds_by_rank(key: Keyed) -> list[Indexes]:
    """Rounds of the rows with the same number of rows with their key before them."""
    ranks = _ranks(key)
    order = np.argsort(ranks, kind="stable")
    begins = ranks[order].searchsorted(np.arange(int(ranks.max()) + 2)).tolist()
    return [order[begin:end] for begin, end in itertools.pairwise(begins)]


def rounds_in_order(keys: Sequence[Keyed]) -> list[Indexes]:
    """Rounds of rows that follow one another; a key with NULL is that of no other row."""
    count = len(keys[0].columns[0])
    last = np.full(count, -1)  # the last row before that has a key of this one
    for key in keys:
        np.maximum(last, _before(key), out=last)
    begins = [0]
    for row in np.flatnonzero(last >= 0).tolist():
        if last[row] >= begins[-1]:
            begins.append(row)
    return [np.arange(begin, end) for begin, end in itertools.pairwise([*begins, count])]


def _ranks(key: Keyed) -> Indexes:
    """How many rows with its key precede each row."""
    count = len(key.columns[0])
    if all_distinct(key.columns, key.types):
        return np.zeros(count, np.int64)
    order, first = _by_key(key)
    places = np.arange(count)
    ranks = np.empty(count, np.int64)
    ranks[order] = places - np.maximum.accumulate(np.where(first, places, 0))
    return ranks


def _before(key: Keyed) -> Indexes:
    """The last row before each that has its key; −1 if there is none."""
    before = np.full(len(key.columns[0]), -1)
    order, first = _by_key(key)
    before[order[1:]] = np.where(first[1:], -1, order[:-1])
    for column in key.columns:
        if column.valid is not None:
            before[~not_null(column)] = -1
    return before


def _by_key(key: Keyed) -> tuple[Indexes, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """The rows in an order that keeps those with one key together, and the first of each."""
    numbers = group(key.columns, key.types).inverse
    order = np.argsort(numbers, kind="stable")
    return order, np.concatenate(([True], numbers[order][1:] != numbers[order][:-1]))
