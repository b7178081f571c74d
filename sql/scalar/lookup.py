"""Comparisons in a WHERE by which rows are looked up: under a key, or in a range of keys.

Contract: the rows under the value that a lookup gives are all rows that the equality chooses, and
perhaps others; so are those between the bounds of a range. A comparison for which that is not
certain is none.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlglot import exp

from ivm.sql.plan.expressions import cast, position
from ivm.sql.scalar.compile import compile_scalar
from ivm.storage.values.column import Column, FixedColumn, concat
from ivm.storage.values.types import ColumnType


@dataclass(frozen=True)
class Lookup:
    """One equality.

    Attributes:
        term: the equality.
        column: the position of the column in the scan.
        type: the column's type.
        parameter: the number of the parameter that it equals; None for a constant.
        constant: of one row.
    """

    term: exp.Expr
    column: int
    type: ColumnType
    parameter: int | None
    constant: Column | None = None

    @staticmethod
    def of(term: exp.Expr, types: Sequence[ColumnType], width: int) -> Lookup | None:
        """The equality that a term of a WHERE is, if it is one.

        Args:
            term: over the columns of a scan.
            types: of these.
            width: how many of them are the relation's; parameters are behind these.
        """
        if not isinstance(term, exp.EQ):
            return None
        for side, other in ((term.this, term.expression), (term.expression, term.this)):
            found = position(side)
            if found is not None and found < width:
                return _compared(term, found, types, width, other)
        return None

    def key(self, given: Sequence[Column]) -> Column | None:
        """The value as a column of one row and the column's type; None if no row can have it.

        Args:
            given: the parameters.
        """
        if self.parameter is None:
            return self.constant
        value = given[self.parameter]
        if isinstance(value, FixedColumn) and value.values.dtype != self.type.dtype:
            return _narrowed(value.values.item(0), self.type)
        return value


@dataclass(frozen=True)
class Listed:
    """The values of one column that are in a list.

    Attributes:
        column: the position of the column in the scan.
        type: the column's type.
        members: the equalities with each member.
    """

    column: int
    type: ColumnType
    members: tuple[Lookup, ...]

    @staticmethod
    def of(term: exp.Expr, types: Sequence[ColumnType], width: int) -> Listed | None:
        """The list that a term of a WHERE has, if it is one; see `Lookup.of`."""
        if not isinstance(term, exp.In) or not term.expressions:
            return None
        found = position(term.this)
        if found is None or found >= width:
            return None
        members = [_compared(term, found, types, width, other) for other in term.expressions]
        known = tuple([each for each in members if each is not None])
        return Listed(found, types[found], known) if len(known) == len(members) else None

    def values(self, given: Sequence[Column]) -> Column | None:
        """The values as a column of the column's type; None if no row can have one.

        Args:
            given: the parameters.
        """
        keys = [key for key in (each.key(given) for each in self.members) if key is not None]
        return concat(keys) if keys else None


@dataclass(frozen=True)
class Range:
    """The values of one column between two bounds.

    Attributes:
        low: gives the least value; None for no bound.
        high: gives the greatest value.
    """

    low: Lookup | None = None
    high: Lookup | None = None

    def with_term(self, bounds: Range) -> Range:
        """The range with the bounds that it lacks from another one."""
        return Range(self.low or bounds.low, self.high or bounds.high)

    def bounds(self, given: Sequence[Column]) -> tuple[Column | None, Column | None]:
        """The bounds as columns of one row and of the column's type.

        Args:
            given: the parameters.
        """
        low, high = [None if end is None else end.key(given) for end in (self.low, self.high)]
        return low, high


def range_of(term: exp.Expr, types: Sequence[ColumnType], width: int) -> tuple[int, Range] | None:
    """The column and the range of a comparison; None for other terms; see `Lookup.of`."""
    if isinstance(term, exp.Between):
        found = position(term.this)
        if found is None or found >= width or term.args.get("symmetric"):
            return None
        ends = [_compared(term, found, types, width, term.args[end]) for end in ("low", "high")]
        return found, Range(*ends)
    if not isinstance(term, _LESS | _GREATER):
        return None
    for side, other, turned in (
        (term.this, term.expression, False),
        (term.expression, term.this, True),
    ):
        found = position(side)
        if found is not None and found < width:
            end = _compared(term, found, types, width, other)
            return found, Range(high=end) if isinstance(term, _LESS) != turned else Range(low=end)
    return None


_LESS, _GREATER = exp.LT | exp.LTE, exp.GT | exp.GTE


def _compared(
    term: exp.Expr, found: int, types: Sequence[ColumnType], width: int, other: exp.Expr
) -> Lookup | None:
    """The lookup of a column's values that are compared with something, if that has one value."""
    type, at = types[found], position(other)
    if at is not None:
        fits = types[at] == type or (types[at].is_integer and is_narrow(type))
        return Lookup(term, found, type, at - width) if at >= width and fits else None
    number = _integer(other)
    if number is not None and is_narrow(type):
        column = _narrowed(number, type)
        return None if column is None else Lookup(term, found, type, None, column)
    if not _is_constant_of(other, type):
        return None
    kernel = compile_scalar(cast(other, type), (), type)
    return None if kernel is None else Lookup(term, found, type, None, kernel((), 1))


def _is_constant_of(other: exp.Expr, type: ColumnType) -> bool:
    """Returns whether it is a string, which is read as the type, or a constant cast to the type."""
    if isinstance(other, exp.Cast) and isinstance(other.this, exp.Literal):
        return cast(other, type) is other
    return isinstance(other, exp.Literal) and other.is_string


def is_narrow(type: ColumnType) -> bool:
    """Returns whether its values are integers of at most 64 bits."""
    return type.is_integer and type.is_word


def _integer(node: exp.Expr) -> int | None:
    """The value of an integer literal."""
    if isinstance(node, exp.Neg):
        inner = _integer(node.this)
        return None if inner is None else -inner
    plain = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
    return int(node.name) if plain else None


def _narrowed(value: int, type: ColumnType) -> Column | None:
    assert type.dtype is not None
    least, greatest = _limits(type.dtype)
    if not least <= value <= greatest:
        return None
    return FixedColumn(np.array([value], type.dtype))


@functools.cache
def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)
