"""Division: `/` and `//` and `%`.

Law: `/` is float division, whatever the types of its sides; by zero it is ±Inf or NaN. `//` is
truncated towards zero on integers, and plain division on floats; `%` has the sign of the dividend.
A zero divisor of `//`, and of `%` where no side is a float, is undecided: DuckDB fails.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sqlglot import exp

from ivm.sql.scalar.operands import int128
from ivm.sql.scalar.operands.kernel import (
    BIGINT,
    NotListedError,
    Operand,
    UndecidedError,
    Values,
    binary,
    binary_checked,
    is_128_bit,
    refuse_if,
)
from ivm.sql.scalar.operands.rules import ExpressionCompiler, Rules, rule
from ivm.storage.values.column import Mask
from ivm.storage.values.types import ColumnType

Compute = Callable[[Values, Values], Values]


def _divide(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    type = compiler.type(node)
    if not type.is_float:
        raise NotListedError(f"{type} /")
    left, right = compiler.cast_to(node.this, type), compiler.cast_to(node.expression, type)
    return binary(left, right, type, np.divide)


def _integer_divide(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    type = compiler.type(node)
    if type.is_float:
        left, right = compiler.cast_to(node.this, type), compiler.cast_to(node.expression, type)
        return binary_checked(left, right, type, _by_nonzero(np.divide))
    return _division(compiler, node, _quotient)


def _by_nonzero(compute: Compute) -> Callable[[Values, Values, Mask | None], Values]:
    def checked(a: Values, b: Values, valid: Mask | None) -> Values:
        _refuse_zero(b, valid)
        return compute(a, b)

    return checked


def _refuse_zero(divisors: Values, valid: Mask | None) -> Mask:
    """Returns the mask of zero divisors, which may only be at rows with NULL."""
    zero: Mask = divisors == 0
    refuse_if(zero if valid is None else zero & valid)
    return zero


def _modulo(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    type = compiler.type(node)
    if not type.is_float:
        return _division(compiler, node, _rest)
    left, right = compiler.cast_to(node.this, type), compiler.cast_to(node.expression, type)
    if not any(compiler.type(side).is_float for side in (node.this, node.expression)):
        return binary_checked(left, right, type, _by_nonzero(np.fmod))  # decimals of many digits
    return binary(left, right, type, np.fmod)


def _quotient(a: Values, b: Values) -> Values:
    quotient: Values = a // b  # numpy rounds down: one more where it is negative and leaves a rest
    below = quotient < 0
    return quotient + (below & (quotient * b != a)) if np.count_nonzero(below) else quotient


def _rest(a: Values, b: Values) -> Values:
    if len(b) > 1:
        return np.fmod(a, b)
    rest: Values = a // b  # by one divisor numpy multiplies and shifts, which it does for no rest
    rest *= b
    np.subtract(a, rest, out=rest)  # has the sign of the divisor
    if a.dtype.kind == "u" or (b[0] > 0 and a.min(initial=0) == 0):
        return rest
    rest -= ((rest != 0) & ((rest < 0) != (a < 0))) * b
    return rest


def _division(compiler: ExpressionCompiler, node: exp.Expr, compute: Compute) -> Operand:
    type = compiler.type(node)
    if type.sql == "UHUGEINT" or not (type.is_integer or type.is_decimal):
        raise NotListedError(f"{type} division")
    left, right = compiler.cast_to(node.this, type), compiler.cast_to(node.expression, type)

    def divide(a: Values, b: Values, valid: Mask | None) -> Values:
        return _divide_valid(a, b, valid, compute, type)

    return binary_checked(left, right, type, divide)


def _divide_valid(
    a: Values, b: Values, valid: Mask | None, compute: Compute, type: ColumnType
) -> Values:
    """Divides integers; zero divisors and MIN ÷ −1 are undecided. Rows with NULL divide by one."""
    if is_128_bit(type):
        return _divide_int128(a, b, valid, compute, type)
    zero = _refuse_zero(b, valid)
    if a.dtype.kind == "i" and np.count_nonzero(opposite := b == -1):
        refuse_if((a == np.iinfo(a.dtype).min) & opposite)
    if np.count_nonzero(zero):
        b = np.where(zero, np.ones((), b.dtype), b)
    return compute(a, b)


def _divide_int128(
    a: Values, b: Values, valid: Mask | None, compute: Compute, type: ColumnType
) -> Values:
    first, second = int128.narrow(a), int128.narrow(b)
    if first is None or second is None:
        raise UndecidedError
    return _divide_valid(first, second, valid, compute, BIGINT)


RULES: Rules = {
    exp.Div: rule(_divide, "this", "expression"),
    exp.IntDiv: rule(_integer_divide, "this", "expression"),
    exp.Mod: rule(_modulo, "this", "expression"),
}
