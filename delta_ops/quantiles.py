"""Quantiles of a group's values in ascending order, with DuckDB's arithmetic.

Law: of n values the discrete q-quantile is the one at max(1, n − ⌊n − q·n⌋), counted from 1; the
continuous one lies at (n − 1)·q between its two neighbours, computed in the result's type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ivm.delta_ops.gather import elements, list_column, picked
from ivm.delta_ops.group_rows import Grouped
from ivm.storage.column import Column, FixedColumn, Indexes, concat, null_column
from ivm.storage.types import WIDE, ColumnType, type_of

Fractions = float | list[float]
_Quantile = Callable[[Grouped, float], Column]


def discrete(
    type: ColumnType, output: ColumnType, fractions: Fractions
) -> Callable[[Grouped], Column] | None:
    """QUANTILE_DISC of the first column, ascending and without NULL."""

    def quantile(grouped: Grouped, q: float) -> Column:
        n = grouped.counts
        up = np.floor(n - n * q).astype(np.int64)
        rows = grouped.starts + np.maximum(1, n - up) - 1
        return picked(grouped.columns[0], rows, n > 0)

    return _every(quantile, type, output, fractions)


def continuous(
    type: ColumnType, output: ColumnType, fractions: Fractions
) -> Callable[[Grouped], Column] | None:
    """QUANTILE_CONT of the first column, ascending and without NULL; None for other types."""
    one = type_of(output.sql.removesuffix("[]"))
    if type.dtype is None or type.dtype == WIDE or not (one.is_float or one == type):
        return None
    if not (type.is_integer or type.is_float or type.is_decimal):
        return None

    def quantile(grouped: Grouped, q: float) -> Column:
        n = grouped.counts
        place = np.maximum(n - 1, 0) * q
        low = np.floor(place).astype(np.int64)
        high = np.ceil(place).astype(np.int64)
        column = grouped.columns[0]
        a, b = [_at(column, grouped.starts + k, n > 0, one) for k in (low, high)]
        values = np.where(low == high, a, _between(a, b, place - low, one))
        return FixedColumn(values, None if (n > 0).all() else n > 0)

    return _every(quantile, one, output, fractions)


def _at(column: Column, rows: Indexes, there: Any, type: ColumnType) -> Any:
    found = picked(column, rows, there)
    assert isinstance(found, FixedColumn)
    return found.values.astype(type.dtype)


def _between(low: Any, high: Any, share: Any, type: ColumnType) -> Any:
    """The interpolated value; a decimal is cut off, not rounded."""
    with np.errstate(over="ignore", invalid="ignore"):
        if type.is_float:
            return (low * (1.0 - share) + high * share).astype(type.dtype)
        return (low + (high - low) * share).astype(np.int64)


def _every(
    quantile: _Quantile, element: ColumnType, output: ColumnType, fractions: Fractions
) -> Callable[[Grouped], Column] | None:
    """One quantile, or a list of several."""
    if not isinstance(fractions, list):
        fraction = fractions
        return (lambda g: quantile(g, fraction)) if output == element else None
    empty = null_column(element, 0).to_arrow(element)
    if output.sql != f"{element.sql}[]" or empty is None or not fractions:
        return None
    count, wanted = len(fractions), output.memory.value_type

    def make(grouped: Grouped) -> Column:
        groups = len(grouped.counts)
        each = concat([quantile(grouped, q) for q in fractions])
        by_group = np.arange(groups * count).reshape(count, groups).T.reshape(-1)
        there = grouped.counts > 0
        kept = by_group[np.repeat(there, count)]
        values = elements(each.take(kept), element, wanted)
        return list_column(values, np.where(there, count, 0), output)

    return make
