"""Results that reduce a group's values: mode, histogram, entropy, product.

Law: values are distinguished by SQL's grouping equality; a tie for the mode goes to the value that
comes first in the group's order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ivm.delta_ops.aggregates.collect import elements, offsets
from ivm.delta_ops.aggregates.group_rows import Grouped, Reading, Weighed
from ivm.delta_ops.state.picked import picked
from ivm.storage.values.column import ArrowColumn, Column, FixedColumn, Indexes
from ivm.storage.values.ordering.order import value_codes
from ivm.storage.values.types import ColumnType


class _Values(NamedTuple):
    """The distinct values of all groups: their groups, first rows, and counts."""

    owners: Indexes
    first: Indexes
    counts: Indexes


@dataclass(frozen=True)
class FromValueCounts:
    """A result computed from a group's distinct rows and their counts."""

    finish: Callable[[Weighed], Column]

    def column(self, reading: Reading) -> Column:
        return self.finish(reading.weighed)


def _distinct(rows: Weighed, type: ColumnType) -> _Values:
    """The distinct values by group, ascending in each."""
    column = rows.columns[0]
    owners = rows.owners
    if not len(owners):
        return _Values(owners, owners, owners)
    codes = value_codes(column, type)
    order = np.lexsort((codes, owners))
    codes, groups = codes[order], owners[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (codes[1:] != codes[:-1]) | (groups[1:] != groups[:-1])
    starts = np.flatnonzero(begins)
    counts = np.add.reduceat(rows.weights[order], starts)
    return _Values(groups[starts], order[starts], counts)


def mode(type: ColumnType) -> FromValueCounts:
    """The most frequent value."""

    def make(weighed: Weighed) -> Column:
        values = _distinct(weighed, type)
        order = np.lexsort((values.first, -values.counts, values.owners))
        owners = values.owners[order]
        best = order[np.flatnonzero(np.diff(owners, prepend=-1))]
        rows = np.zeros(len(weighed.counts), np.int64)
        rows[values.owners[best]] = values.first[best]
        return picked(weighed.columns[0], rows, weighed.counts > 0)

    return FromValueCounts(make)


def histogram(element: ColumnType, output: ColumnType) -> FromValueCounts | None:
    """MAP from each value to its count; None if its Arrow form is not that of such a map."""
    if output.sql != f"MAP({element.sql}, UBIGINT)" or not pa.types.is_map(output.memory):
        return None
    if element.is_enum:
        return None
    wanted = output.memory.key_type

    def make(rows: Weighed) -> Column:
        values = _distinct(rows, element)
        sizes = np.bincount(values.owners, minlength=len(rows.counts)).astype(np.int64)
        keys = elements(rows.columns[0].take(values.first), element, wanted)
        none = sizes == 0
        array = pa.MapArray.from_arrays(
            offsets(sizes),
            keys,
            pa.array(values.counts.astype(np.uint64)),
            type=output.memory,
            mask=pa.array(none) if none.any() else None,
        )
        return ArrowColumn(array)

    return FromValueCounts(make)


def entropy(type: ColumnType) -> FromValueCounts:
    """Σ p · log₂(1 / p) over the values' shares p; 0 without values."""

    def make(rows: Weighed) -> Column:
        values = _distinct(rows, type)
        totals = rows.totals[values.owners].astype(np.float64)
        shares = values.counts / totals
        sums = np.zeros(len(rows.counts))
        np.add.at(sums, values.owners, shares * np.log2(totals / values.counts))
        return FixedColumn(sums)

    return FromValueCounts(make)


def product(grouped: Grouped) -> Column:
    """The product of the first column, multiplied in order."""
    column = grouped.columns[0]
    assert isinstance(column, FixedColumn)
    there = grouped.counts > 0
    values = np.zeros(len(there))
    if there.any():
        doubles = column.values.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            values[there] = np.multiply.reduceat(doubles, grouped.starts[there])
    return FixedColumn(values, None if there.all() else there)
