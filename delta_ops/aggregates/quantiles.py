"""Quantiles of a group's values in ascending order, with DuckDB's arithmetic.

Law: of n values the discrete q-quantile is number max(1, n − ⌊n − q·n⌋), counted from 1; the
continuous one lies at (n − 1)·q between its two neighbours, computed in the result's type. So one
or two values of a group are read, whatever its size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ivm.delta_ops.aggregates.collect import elements, list_column
from ivm.delta_ops.aggregates.group_rows import Reading
from ivm.storage.values.column import Column, FixedColumn, Indexes, concat
from ivm.storage.values.types import WIDE, ColumnType, type_of

_DIGITS = 15  # of integers that a double holds exactly
_MANTISSA = 63  # bits of x87's extended precision

Fractions = float | list[float]


@dataclass(frozen=True)
class FromRanks:
    """A result computed from the values of some ranks in a group.

    Attributes:
        ranks: row counts → the ranks.
        finish: (values of these ranks, row counts) → the column.
    """

    ranks: Callable[[Indexes], list[Indexes]]
    finish: Callable[[Sequence[Column], Indexes], Column]

    def column(self, reading: Reading) -> Column:
        return self.finish(*reading.ranked(self.ranks))


def discrete(type: ColumnType, output: ColumnType, fractions: Fractions) -> FromRanks | None:
    """QUANTILE_DISC of the first column, ascending and without NULL."""

    def ranks(q: float, n: Indexes) -> list[Indexes]:
        return [np.maximum(1, n - np.floor(n - n * q).astype(np.int64)) - 1]

    def finish(q: float, values: Sequence[Column], n: Indexes) -> Column:
        return values[0]

    return _every(ranks, finish, type, output, fractions)


def continuous(type: ColumnType, output: ColumnType, fractions: Fractions) -> FromRanks | None:
    """QUANTILE_CONT of the first column, ascending and without NULL; None for other types."""
    one = type_of(output.sql.removesuffix("[]"))
    if type.dtype is None or type.dtype == WIDE or not (one.is_float or one == type):
        return None
    if not (type.is_integer or type.is_float or _is_fine(type)):
        return None

    def at(q: float, n: Indexes) -> Any:
        return np.maximum(n - 1, 0) * q

    def ranks(q: float, n: Indexes) -> list[Indexes]:
        return [np.floor(at(q, n)).astype(np.int64), np.ceil(at(q, n)).astype(np.int64)]

    def finish(q: float, values: Sequence[Column], n: Indexes) -> Column:
        low, high = ranks(q, n)
        a, b = [_numbers(column, one) for column in values]
        found = np.where(low == high, a, _between(a, b, at(q, n) - low, one))
        there = n > 0
        if there.all():
            return FixedColumn(found)
        return FixedColumn(np.where(there, found, np.zeros(1, found.dtype)), there)

    return _every(ranks, finish, one, output, fractions)


def _numbers(column: Column, type: ColumnType) -> Any:
    assert isinstance(column, FixedColumn)
    return column.values.astype(type.dtype)


def _is_fine(type: ColumnType) -> bool:
    """Decimals whose interpolation in extended precision is DuckDB's fused one."""
    return (
        type.is_decimal and type.precision <= _DIGITS and np.finfo(np.longdouble).nmant >= _MANTISSA
    )


def _between(low: Any, high: Any, share: Any, type: ColumnType) -> Any:
    """The interpolated value; a decimal is cut off, not rounded."""
    with np.errstate(over="ignore", invalid="ignore"):
        if type.is_float:
            return (low * (1.0 - share) + high * share).astype(type.dtype)
        wide = low.astype(np.longdouble) + (high - low).astype(np.longdouble) * share
        return wide.astype(np.float64).astype(np.int64)


def _every(
    ranks: Callable[[float, Indexes], list[Indexes]],
    finish: Callable[[float, Sequence[Column], Indexes], Column],
    element: ColumnType,
    output: ColumnType,
    fractions: Fractions,
) -> FromRanks | None:
    """One quantile, or a list of several."""
    if not isinstance(fractions, list):
        q = fractions
        ranked = FromRanks(lambda n: ranks(q, n), lambda values, n: finish(q, values, n))
        return ranked if output == element else None
    if output.sql != f"{element.sql}[]" or not fractions:
        return None
    each = len(ranks(fractions[0], np.ones(1, np.int64)))

    def together(values: Sequence[Column], n: Indexes) -> Column:
        parts = [values[i : i + each] for i in range(0, len(values), each)]
        found = [finish(q, part, n) for q, part in zip(fractions, parts, strict=True)]
        return _lists(found, n, element, output)

    return FromRanks(lambda n: [p for q in fractions for p in ranks(q, n)], together)


def _lists(found: Sequence[Column], n: Indexes, element: ColumnType, output: ColumnType) -> Column:
    """A list of one value of each column per group that has rows."""
    count, groups, there = len(found), len(n), n > 0
    by_group = np.arange(groups * count).reshape(count, groups).T.reshape(-1)
    kept = concat(found).take(by_group[np.repeat(there, count)])
    values = elements(kept, element, output.memory.value_type)
    return list_column(values, np.where(there, count, 0), output)
