"""round, floor, ceil, trunc, sign, sqrt, greatest, least.

Law: round goes half away from zero, on floats as C's round does; round(x, n) on DOUBLE multiplies,
rounds and divides, and keeps x where that is not finite.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sqlglot import exp

from ivm.sql.scalar import int128
from ivm.sql.scalar.comparison import compare
from ivm.sql.scalar.conditional import choose
from ivm.sql.scalar.constants import fold, is_constant
from ivm.sql.scalar.kernel import (
    NotListedError,
    Operand,
    UndecidedError,
    Values,
    is_wide,
    round_half_away,
    unary,
)
from ivm.sql.scalar.logic import disjunction, is_null
from ivm.sql.scalar.rules import ExpressionCompiler, Rules, rule
from ivm.storage.values.column import FixedColumn
from ivm.storage.values.types import ColumnType, type_of

_INTEGER = type_of("INTEGER")


def _round(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    type, term = compiler.type(node), compiler.term(node.this)
    digits = _digits(node.args.get("decimals"))
    if type.is_float:
        compiler.inexact = True
        return _round_float(compiler.cast(term, type), digits, type)
    if term.type.is_decimal and type.is_decimal:
        if digits < 0:
            raise NotListedError("round() to negative digits")
        return _shrink(term, type, _half_away)
    if term.type.is_integer and digits >= 0:
        return term
    raise NotListedError(f"round({term.type}, {digits})")


def _digits(decimals: exp.Expr | None) -> int:
    if decimals is None:
        return 0
    if not is_constant(decimals):
        raise NotListedError("round() to computed digits")
    column = fold(decimals, _INTEGER)
    if column.valid is not None:
        raise NotListedError("round() to NULL digits")
    assert isinstance(column, FixedColumn)
    return int(column.values[0])


def _round_float(term: Operand, digits: int, type: ColumnType) -> Operand:
    if digits == 0:
        return unary(term, type, round_half_away)
    if digits < 0 or digits > 15 or type.sql != "DOUBLE":
        raise NotListedError(f"round({type}, {digits})")
    power = 10.0**digits

    def compute(values: Values) -> Values:
        rounded = round_half_away(values * power) / power
        return np.where(np.isfinite(rounded), rounded, values)

    return unary(term, type, compute)


Adjust = Callable[[Values, int], Values]


def _half_away(rest: Values, half: int) -> Values:
    return (rest >= half).astype(np.int64) - (rest <= -half)


def _up(rest: Values, half: int) -> Values:
    return (rest > 0).astype(np.int64)


def _down(rest: Values, half: int) -> Values:
    return -(rest < 0).astype(np.int64)


def _toward_zero(rest: Values, half: int) -> Values:
    return np.zeros(len(rest), np.int64)


def _shrink(term: Operand, type: ColumnType, adjust: Adjust) -> Operand:
    """A decimal with fewer digits after the point: quotient towards zero plus an adjustment."""
    shift = term.type.scale - type.scale
    if shift <= 0:
        return term
    if shift > 18:
        raise NotListedError(f"rounding of {term.type} to {type}")
    factor = 10**shift

    def compute(values: Values) -> Values:
        narrow = int128.narrow(values)
        if narrow is None:
            raise UndecidedError
        rest = np.fmod(narrow, factor)
        result: Values = (narrow - rest) // factor + adjust(rest, factor // 2)
        return result

    return unary(term, type, compute)


def _rounding(
    on_float: Callable[[Values], Values], on_decimal: Adjust
) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        type, term = compiler.type(node), compiler.term(node.this)
        if type.is_float:
            return unary(compiler.cast(term, type), type, on_float)
        if term.type.is_decimal and type.is_decimal:
            return _shrink(term, type, on_decimal)
        raise NotListedError(f"{type} of {term.type}")

    return compile


def _sqrt(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    type = compiler.type(node)
    if type.sql != "DOUBLE":
        raise NotListedError(f"sqrt() as {type}")
    return unary(compiler.cast_to(node.this, type), type, np.sqrt)


def _sign(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    term, type = compiler.term(node.this), compiler.type(node)
    if term.type.is_float:
        return unary(
            term, type, lambda values: (values > 0).astype(np.int8) - (values < 0).astype(np.int8)
        )
    if not (term.type.is_integer or term.type.is_decimal) or is_wide(term.type):
        raise NotListedError(f"sign({term.type})")
    return unary(
        term, type, lambda values: (values > 0).astype(np.int8) - (values < 0).astype(np.int8)
    )


def _extreme(sign: str) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    """greatest and least skip NULLs; the first of equal values is taken."""

    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        type = compiler.type(node)
        terms = [compiler.cast_to(side, type) for side in (node.this, *node.expressions)]
        if any(term.constant is not None for term in terms[:1]):
            raise NotListedError(f"{sign} from a constant")
        result, *rest = terms
        for term in rest:
            better = disjunction(compare(sign, term, result), is_null(result))
            result = choose(better, term, result)
        return result

    return compile


RULES: Rules = {
    exp.Round: rule(_round, "this", "decimals"),
    exp.Floor: rule(_rounding(np.floor, _down), "this"),
    exp.Ceil: rule(_rounding(np.ceil, _up), "this"),
    exp.Trunc: rule(_rounding(np.trunc, _toward_zero), "this"),
    exp.Sqrt: rule(_sqrt, "this"),
    exp.Sign: rule(_sign, "this"),
    exp.Greatest: rule(_extreme(">"), "this", "expressions", ignore_nulls=True),
    exp.Least: rule(_extreme("<"), "this", "expressions", ignore_nulls=True),
}
