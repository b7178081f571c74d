"""Expressions that no row makes fail: they may be computed for rows that a join then leaves out.

Law: `cannot_fail(e, types)` ⇒ DuckDB has a value or NULL of e for every row of columns of these
types. Integers overflow, and a string compared with a number is cast; so arithmetic is of floats,
or of decimals whose exact result has at most 38 digits, and only values of one kind are compared.

Limit: DuckDB keeps the product of two decimals of up to 18 digits in 18 digits, and refuses larger
values. Such products are accepted all the same: sums by a key are mostly of amounts times rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from sqlglot import exp

from ivm.sql.plan.expressions import index_of
from ivm.storage.values.types import MOST_DIGITS, ColumnType

_INTEGER_DIGITS = {1: 3, 2: 5, 4: 10}  # by bytes, as DuckDB has it
_BIGINT_DIGITS = 20  # at most


class _Exact(NamedTuple):
    """Integers and decimals: digits before and after the point."""

    whole: int
    scale: int
    is_integer: bool


_Kind: TypeAlias = str | _Exact

_ANY = "any"  # of NULL
_FLOAT, _BOOLEAN, _STRING = "float", "BOOLEAN", "VARCHAR"


def cannot_fail(expr: exp.Expr, types: Sequence[ColumnType]) -> bool:
    """Returns whether the expression has a value for any row.

    Args:
        expr: over columns by position.
        types: of the columns.
    """
    return _kind(expr, types) is not None


def _kind(expr: exp.Expr, types: Sequence[ColumnType]) -> _Kind | None:
    """The kind of the expression's values; None if a row may make it fail."""
    match expr:
        case exp.Column():
            return _of_type(types[index_of(expr)])
        case exp.Literal():
            return _STRING if expr.is_string else _of_number(expr.name)
        case exp.Null():
            return _ANY
        case exp.Boolean():
            return _BOOLEAN
        case exp.Paren():
            return _kind(expr.this, types)
        case exp.Case() if expr.this is None:
            return _of_case(expr, types)
    kinds = [_kind(part, types) for part in expr.iter_expressions()]
    match expr:
        case exp.Neg(this=exp.Literal()):
            return kinds[0]
        case exp.Neg() | exp.Add() | exp.Sub() | exp.Mul():
            return _of_arithmetic(expr, kinds)
        case exp.And() | exp.Or() | exp.Not():
            return _met([*kinds, _BOOLEAN])
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE() | exp.Is():
            return None if _met(kinds) is None else _BOOLEAN
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            return None if _met(kinds) is None else _BOOLEAN
        case exp.Coalesce():
            return _met(kinds)
        case exp.Between() | exp.In() if not expr.args.get("query") and not expr.args.get("unnest"):
            return None if _met(kinds) is None else _BOOLEAN
    return None


def _of_type(type: ColumnType) -> _Kind:
    if type.is_decimal:
        return _Exact(type.precision - type.scale, type.scale, False)
    if type.is_float:
        return _FLOAT
    if type.is_integer and type.is_word:
        assert type.dtype is not None
        return _Exact(_INTEGER_DIGITS.get(type.dtype.itemsize, _BIGINT_DIGITS), 0, True)
    return type.sql


def _of_number(written: str) -> _Kind | None:
    whole, point, fraction = written.partition(".")
    if not (whole + fraction).isdigit():
        return _FLOAT  # with an exponent
    if point:
        return _Exact(len(whole), len(fraction), False)
    digits = _INTEGER_DIGITS[4] if int(whole) < 1 << 31 else _BIGINT_DIGITS
    return _Exact(digits, 0, True) if int(whole) < 1 << 63 else None


def _of_case(expr: exp.Case, types: Sequence[ColumnType]) -> _Kind | None:
    branches, default = expr.args["ifs"], expr.args.get("default")
    values = [b.args["true"] for b in branches] + ([] if default is None else [default])
    tests = [_kind(branch.this, types) for branch in branches]
    return _met([_kind(v, types) for v in values]) if _met([*tests, _BOOLEAN]) else None


def _of_arithmetic(expr: exp.Expr, kinds: Sequence[_Kind | None]) -> _Kind | None:
    exact = [kind for kind in kinds if isinstance(kind, _Exact)]
    if len(exact) < len(kinds):
        return _FLOAT if {*kinds} - {*exact} == {_FLOAT} else None
    if all(kind.is_integer for kind in exact):
        return None
    whole, scale = max(kind.whole for kind in exact), max(kind.scale for kind in exact)
    if isinstance(expr, exp.Mul):
        whole, scale = sum(kind.whole for kind in exact), sum(kind.scale for kind in exact)
    return _fitting(_Exact(whole + isinstance(expr, exp.Add | exp.Sub), scale, False))


def _met(kinds: Sequence[_Kind | None]) -> _Kind | None:
    """The kind in which values of all these kinds are compared, or are branches of one CASE.

    None if that takes a cast that may fail.
    """
    met = {kind for kind in kinds if kind != _ANY}
    exact = [kind for kind in met if isinstance(kind, _Exact)]
    if len(exact) < len(met):
        others = met - {*exact}
        kind = others.pop()
        return kind if not others and (not exact or kind == _FLOAT) else None
    if not exact:
        return _ANY
    whole, scale = max(kind.whole for kind in exact), max(kind.scale for kind in exact)
    return _fitting(_Exact(whole, scale, all(kind.is_integer for kind in exact)))


def _fitting(kind: _Exact) -> _Exact | None:
    return kind if kind.whole + kind.scale <= MOST_DIGITS else None
