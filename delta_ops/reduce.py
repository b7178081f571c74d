"""Results that reduce a group's values: mode, histogram, entropy, product, bitwise functions.

Law: values are told apart by SQL's grouping equality; a tie for the mode goes to the value that
stands first in the group's order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ivm.delta_ops.gather import elements, offsets
from ivm.delta_ops.group_rows import Grouped
from ivm.delta_ops.picked import picked
from ivm.storage.column import ArrowColumn, Column, FixedColumn, Indexes
from ivm.storage.ordering import value_codes
from ivm.storage.types import ColumnType


class _Values(NamedTuple):
    """The distinct values of all groups: their groups, first rows, and how often each occurs."""

    owners: Indexes
    first: Indexes
    counts: Indexes


def _distinct(grouped: Grouped, type: ColumnType) -> _Values:
    """By group, and in it ascending."""
    column = grouped.columns[0]
    owners = grouped.owners
    if not len(owners):
        return _Values(owners, owners, owners)
    codes = value_codes(column, type)
    order = np.lexsort((codes, owners))
    codes, groups = codes[order], owners[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (codes[1:] != codes[:-1]) | (groups[1:] != groups[:-1])
    places = np.flatnonzero(begins)
    counts = np.diff(np.append(places, len(order)))
    return _Values(groups[places], order[places], counts)


def mode(type: ColumnType) -> Callable[[Grouped], Column]:
    """The most frequent value."""

    def make(grouped: Grouped) -> Column:
        values = _distinct(grouped, type)
        order = np.lexsort((values.first, -values.counts, values.owners))
        owners = values.owners[order]
        best = order[np.flatnonzero(np.diff(owners, prepend=-1))]
        rows = np.zeros(len(grouped.counts), np.int64)
        rows[values.owners[best]] = values.first[best]
        return picked(grouped.columns[0], rows, grouped.counts > 0)

    return make


def histogram(element: ColumnType, output: ColumnType) -> Callable[[Grouped], Column] | None:
    """MAP from each value to its count; None if its Arrow form is not that of such a map."""
    if output.sql != f"MAP({element.sql}, UBIGINT)" or not pa.types.is_map(output.memory):
        return None
    if element.is_enum:
        return None
    wanted = output.memory.key_type

    def make(grouped: Grouped) -> Column:
        values = _distinct(grouped, element)
        sizes = np.bincount(values.owners, minlength=len(grouped.counts)).astype(np.int64)
        keys = elements(grouped.columns[0].take(values.first), element, wanted)
        none = sizes == 0
        array = pa.MapArray.from_arrays(
            offsets(sizes),
            keys,
            pa.array(values.counts.astype(np.uint64)),
            type=output.memory,
            mask=pa.array(none) if none.any() else None,
        )
        return ArrowColumn(array)

    return make


def entropy(type: ColumnType) -> Callable[[Grouped], Column]:
    """Σ p · log₂(1 / p) over the values' shares p; 0 without values."""

    def make(grouped: Grouped) -> Column:
        values = _distinct(grouped, type)
        totals = grouped.counts[values.owners].astype(np.float64)
        shares = values.counts / totals
        sums = np.zeros(len(grouped.counts))
        np.add.at(sums, values.owners, shares * np.log2(totals / values.counts))
        return FixedColumn(sums)

    return make


def product(grouped: Grouped) -> Column:
    """The product of the first column, multiplied in order."""
    column = grouped.columns[0]
    assert isinstance(column, FixedColumn)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return _reduced(np.multiply, FixedColumn(column.values.astype(np.float64)), grouped)


def bits(function: str) -> Callable[[Grouped], Column]:
    """BIT_AND, BIT_OR or BIT_XOR of the first column."""
    operator = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}

    def make(grouped: Grouped) -> Column:
        column = grouped.columns[0]
        assert isinstance(column, FixedColumn)
        return _reduced(operator[function], column, grouped)

    return make


def _reduced(operator: np.ufunc, column: FixedColumn, grouped: Grouped) -> FixedColumn:
    there = grouped.counts > 0
    values = np.zeros(len(there), column.values.dtype)
    if there.any():
        values[there] = operator.reduceat(column.values, grouped.starts[there])
    return FixedColumn(values, None if there.all() else there)
