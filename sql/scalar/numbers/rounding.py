"""round, floor, ceil, trunc, sign, sqrt, greatest, least.

Law: round() rounds half away from zero, floats as C's round does; round(x, n) of a DOUBLE is
round(x · 10ⁿ) ÷ 10ⁿ in doubles, and x where that is not finite, as in DuckDB. From DuckDB 2.0.1 on
it is the product before it is made a double that is rounded: 81.55 is a little less than it says,
and so is ten times that, though its double is 815.5.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from ivm.sql.scalar.logic.comparison import compare
from ivm.sql.scalar.logic.conditional import choose
from ivm.sql.scalar.logic.logic import disjunction, is_null
from ivm.sql.scalar.operands import int128
from ivm.sql.scalar.operands.constants import fold, is_constant, sql_of
from ivm.sql.scalar.operands.kernel import (
    NotListedError,
    Operand,
    UndecidedError,
    Values,
    is_128_bit,
    round_half_away,
    unary,
)
from ivm.sql.scalar.operands.rules import ExpressionCompiler, Rules, rule
from ivm.storage.values.column import FixedColumn
from ivm.storage.values.types import ColumnType, type_of

_INTEGER = type_of("INTEGER")


def _round(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    type, operand = compiler.type(node), compiler.operand(node.this)
    digits = _digits(node.args.get("decimals"))
    if type.is_float:
        compiler.inexact = True
        return _round_float(compiler.cast(operand, type), digits, type)
    if operand.type.is_decimal and type.is_decimal:
        if digits < 0:
            raise NotListedError("round() to negative digits")
        return _shrink(operand, type, _half_away)
    if operand.type.is_integer and digits >= 0:
        return operand
    raise NotListedError(f"round({operand.type}, {digits})")


def _digits(decimals: exp.Expr | None) -> int:
    if decimals is None:
        return 0
    if not is_constant(decimals):
        raise NotListedError("round() to computed digits")
    column = fold(f"CAST({sql_of(decimals)} AS INTEGER)", _INTEGER)
    if column.valid is not None:
        raise NotListedError("round() to NULL digits")
    assert isinstance(column, FixedColumn)
    return int(column.values[0])


def _round_float(operand: Operand, digits: int, type: ColumnType) -> Operand:
    if digits == 0:
        return unary(operand, type, round_half_away)
    if digits < 0 or digits > 15 or type.sql != "DOUBLE":
        raise NotListedError(f"round({type}, {digits})")
    power = 10.0**digits

    def compute(values: Values) -> Values:
        scaled = values * power
        whole = round_half_away(scaled)
        if _rounds_exact_products():
            short = _short_of_a_half(values, power, scaled)
            whole[short] = np.trunc(scaled[short])
        rounded = whole / power
        return np.where(np.isfinite(rounded), rounded, values)

    return unary(operand, type, compute)


@functools.cache
def _rounds_exact_products() -> bool:
    """Returns whether the DuckDB at hand rounds the product itself, and not its double."""
    column = fold("round(81.55::DOUBLE, 1)", type_of("DOUBLE"))
    assert isinstance(column, FixedColumn)
    return bool(column.values[0] == 81.5)


def _short_of_a_half(values: Values, factor: float, scaled: Values) -> NDArray[np.intp]:
    """Where the product's double, `scaled`, ends in .5, and the product is nearer to zero."""
    ties = np.flatnonzero(np.abs(scaled - np.trunc(scaled)) == 0.5)
    lost = _lost(values[ties], np.float64(factor), scaled[ties])
    short: NDArray[np.intp] = ties[np.sign(lost) == -np.sign(scaled[ties])]
    return short


def _lost(left: Values, right: np.float64, product: Values) -> Values:
    """The product of doubles less its double, exactly (Dekker's product)."""
    (a, b), (c, d) = _halves(left), _halves(right)
    result: Values = ((a * c - product) + a * d + b * c) + b * d
    return result


def _halves(values: Any) -> tuple[Any, Any]:
    """Each double as a sum of two of at most 26 bits (Veltkamp's split)."""
    shifted = values * (2.0**27 + 1)
    high = shifted - (shifted - values)
    return high, values - high


Adjust = Callable[[Values, int], Values]


# Adjustments of a quotient truncated towards zero, from the rest of the division and half the
# divisor.


def _half_away(rest: Values, half: int) -> Values:
    return (rest >= half).astype(np.int64) - (rest <= -half)


def _up(rest: Values, half: int) -> Values:
    return (rest > 0).astype(np.int64)


def _down(rest: Values, half: int) -> Values:
    return -(rest < 0).astype(np.int64)


def _toward_zero(rest: Values, half: int) -> Values:
    return np.zeros(len(rest), np.int64)


def _shrink(operand: Operand, type: ColumnType, adjust: Adjust) -> Operand:
    """Reduces a decimal's scale: the quotient towards zero, plus an adjustment."""
    shift = operand.type.scale - type.scale
    if shift <= 0:
        return operand
    if shift > 18:  # 10^19 does not fit into int64
        raise NotListedError(f"rounding of {operand.type} to {type}")
    factor = 10**shift

    def compute(values: Values) -> Values:
        narrow = int128.narrow(values)
        if narrow is None:
            raise UndecidedError
        rest = np.fmod(narrow, factor)
        result: Values = (narrow - rest) // factor + adjust(rest, factor // 2)
        return result

    return unary(operand, type, compute)


def _rounding(
    on_float: Callable[[Values], Values], on_decimal: Adjust
) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        type, operand = compiler.type(node), compiler.operand(node.this)
        if type.is_float:
            return unary(compiler.cast(operand, type), type, on_float)
        if operand.type.is_decimal and type.is_decimal:
            return _shrink(operand, type, on_decimal)
        raise NotListedError(f"{type} of {operand.type}")

    return compile


def _sqrt(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    type = compiler.type(node)
    if type.sql != "DOUBLE":
        raise NotListedError(f"sqrt() as {type}")
    return unary(compiler.cast_to(node.this, type), type, np.sqrt)


def _sign(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    operand, type = compiler.operand(node.this), compiler.type(node)
    is_exact = operand.type.is_integer or operand.type.is_decimal
    if not operand.type.is_float and (not is_exact or is_128_bit(operand.type)):
        raise NotListedError(f"sign({operand.type})")
    return unary(operand, type, _signs)


def _signs(values: Values) -> Values:
    # np.sign would return NaN for NaN, of which DuckDB's sign() is 0.
    return (values > 0).astype(np.int8) - (values < 0).astype(np.int8)


def _extreme(sign: str) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    """Compiles greatest() and least(), which skip NULLs; of equal values, the first is taken."""

    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        type = compiler.type(node)
        operands = [compiler.cast_to(side, type) for side in (node.this, *node.expressions)]
        if any(operand.constant is not None for operand in operands[:1]):
            raise NotListedError(f"{sign} from a constant")
        result, *rest = operands
        for operand in rest:
            better = disjunction(compare(sign, operand, result), is_null(result))
            result = choose(better, operand, result)
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
