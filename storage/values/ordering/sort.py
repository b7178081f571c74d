"""Sorting rows by codes and by the terms of an order.

Law: rows come in the order of the terms; those that no term distinguishes are equal, and keep
the order in which they were given.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.values import thresholds
from ivm.storage.values.column import Indexes
from ivm.storage.values.ordering.order import Columns, OrderTerm, steps, term_codes
from ivm.storage.values.ordering.sort_keys import all_cells, ordered
from ivm.storage.values.radix_sort import order_of

SEGMENT = 1 << 18
"""The rows of whole codes that are sorted by the terms at a time."""


def sort_rows(
    codes: npt.NDArray[Any], columns: Columns, terms: Sequence[OrderTerm]
) -> tuple[Indexes, Indexes]:
    """Sorts by codes, then by the terms; later terms read only rows that earlier ones leave tied.

    Args:
        codes: the most significant key.
        columns: all columns of the rows.
        terms: of a total order.

    Returns:
        The order of the rows, and the positions in it where equal rows begin.
    """
    if len(codes) <= thresholds.SORTED_CODES:
        return _few_sorted(codes.tolist(), columns, terms)
    order = order_of(codes)
    if len(codes) < 2 * SEGMENT:
        return _refined(order, codes, columns, terms)
    begins, start = [], 0
    while start < len(order):  # so that what is beside the order fits the cache
        stop = _end_of_code(codes, order, start + SEGMENT)
        rows = order[start:stop]
        mine = {t.column: columns[t.column].take(rows) for t in terms}
        again, first = _refined(np.arange(len(rows)), codes[rows], mine, terms)
        order[start:stop] = rows[again]
        begins.append(first + start)
        start = stop
    return order, np.concatenate(begins)


def _end_of_code(codes: npt.NDArray[Any], order: Indexes, place: int) -> int:
    """The first place from there on, in the order of the codes, where a new code begins."""
    while place < len(order):
        last = codes[order[place - 1]]
        others = (codes[order[place : place + SEGMENT]] != last).nonzero()[0]
        if len(others):
            return place + int(others[0])
        place += SEGMENT
    return len(order)


def _refined(
    order: Indexes, codes: npt.NDArray[Any], columns: Columns, terms: Sequence[OrderTerm]
) -> tuple[Indexes, Indexes]:
    """Sorts rows that are in the order of their codes by the terms as well."""
    begins = steps(codes[order])
    begins[:1] = True
    for term in terms:
        tied = ~begins
        tied[:-1] |= tied[1:]
        positions = tied.nonzero()[0]
        if len(positions) == 0:
            break
        rows = order[positions]
        ranks = term_codes(columns[term.column].take(rows), term)
        if _are_pairs(begins[positions]):
            _sort_pairs(order, begins, positions, ranks)
            continue
        tie = begins[positions].cumsum()
        again = order_of(tie, ranks)
        order[positions] = rows[again]
        begins[positions] |= steps(ranks[again])
    return order, begins.nonzero()[0]


def _are_pairs(begins: npt.NDArray[np.bool_]) -> bool:
    """Returns whether tied rows are tied with one other, as −old and +new of an update are."""
    return bool(begins[::2].all() and not begins[1::2].any())


def _sort_pairs(
    order: Indexes,
    begins: npt.NDArray[np.bool_],
    positions: Indexes,
    ranks: npt.NDArray[Any],
) -> None:
    """Sorts pairs of rows, at neighbouring positions, by ranks; updates the first two."""
    first, second = ranks[::2], ranks[1::2]
    wrong = (second < first).nonzero()[0]
    left, right = positions[::2][wrong], positions[1::2][wrong]
    order[left], order[right] = order[right], order[left]
    begins[positions[1::2]] = first != second


def _few_sorted(
    codes: list[Any], columns: Columns, terms: Sequence[OrderTerm]
) -> tuple[Indexes, Indexes]:
    keys: list[tuple[Any, ...]] = [(code,) for code in codes]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    for term in terms:
        if all(keys[a] != keys[b] for a, b in itertools.pairwise(order)):
            break
        cells = all_cells(columns[term.column], term)
        keys = [(*key, ordered(cell, term)) for key, cell in zip(keys, cells, strict=True)]
        order.sort(key=keys.__getitem__)
    begins = [i for i in range(len(order)) if i == 0 or keys[order[i]] != keys[order[i - 1]]]
    return np.array(order, np.int64), np.array(begins, np.int64)
