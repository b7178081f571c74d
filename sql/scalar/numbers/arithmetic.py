"""Arithmetic on integers, decimals and floats: + − * unary − abs (`division` is a module apart).

Law: both sides are cast to the type to which DuckDB casts them (the result's type for + and − and
for integers; the factors of a decimal product keep their scales), then computed exactly. A result
that does not fit its type is undecided, so that DuckDB raises its own error.
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
    beyond,
    binary,
    is_128_bit,
    refuse_if,
    unary,
)
from ivm.sql.scalar.operands.rules import ExpressionCompiler, Rules, rule
from ivm.sql.scalar.times.temporal import is_shift, shift
from ivm.storage.values.types import ColumnType

Compute = Callable[[Values, Values], Values]

# A product computed as a double that is at most this is below 2^63 (or 10^18) exactly, too: the
# double is off by a few units of its 53rd bit.
_SAFE64 = 9.22e18
_SAFE18 = 9.999999e17
_HALF64 = 2**62 - 1


def _fits(values: Values, type: ColumnType) -> Values:
    """Casts int64 values to the narrower dtype of `type`; undecided if one does not fit."""
    dtype = type.dtype
    assert dtype is not None
    if dtype == np.int64:
        return values
    narrowed = values.astype(dtype)
    refuse_if(narrowed != values)
    return narrowed


def check_digits(values: Values, type: ColumnType) -> Values:
    """Returns decimals of `type`; undecided if one has more digits than the type."""
    if is_128_bit(type):
        if values.dtype == np.int64:
            return values  # 64 bits hold at most 19 digits
        bound = int128.power_of_ten(type.precision)
        loaded = int128.load(values)
        size = int128.magnitude(loaded)
        # |−2^127| is 2^127 as an unsigned number, which is negative as a signed one.
        refuse_if((size.hi < 0) | ~int128.less(size, bound))
        return values
    refuse_if(beyond(values, 10**type.precision - 1))
    return values


def _add64(a: Values, b: Values) -> Values:
    total = a + b  # modulo 2^64; it overflowed where both sides differ from it in sign
    refuse_if(((a ^ total) & (b ^ total)) < 0)
    return total


def _subtract64(a: Values, b: Values) -> Values:
    difference = a - b  # it overflowed where a differs in sign from both b and the difference
    refuse_if(((a ^ b) & (a ^ difference)) < 0)
    return difference


def _multiply_below(bound: float) -> Compute:
    """Multiplies integers; a product above the bound, or little less, is undecided."""

    def multiply(a: Values, b: Values) -> Values:
        if not _is_below(a, b, bound):
            raise UndecidedError
        return a * b

    return multiply


def _add_unsigned64(a: Values, b: Values) -> Values:
    total = a + b  # modulo 2^64: less than a side where it overflowed
    refuse_if(total < a)
    return total


def _subtract_unsigned64(a: Values, b: Values) -> Values:
    refuse_if(a < b)
    return a - b


def _multiply_unsigned64(a: Values, b: Values) -> Values:
    refuse_if(a.astype(np.float64) * b > 2 * _SAFE64)
    return a * b


def _int32(operation: str, type: ColumnType) -> Compute:
    """Computes integers of at most 32 bits exactly in 64, then checks that they fit."""
    ufunc = {"+": np.add, "-": np.subtract, "*": np.multiply}[operation]
    # A product of two uint32 may exceed int64, but not uint64.
    if type.sql == "UINTEGER" and operation == "*":
        return lambda a, b: _fits_unsigned(ufunc(a, b, dtype=np.uint64), type)
    return lambda a, b: _fits(ufunc(a, b, dtype=np.int64), type)


def _fits_unsigned(values: Values, type: ColumnType) -> Values:
    narrowed = values.astype(np.uint32)
    refuse_if(narrowed != values)
    return narrowed


_INT64_AND_INT128 = {"+": (np.add, int128.add), "-": (np.subtract, int128.subtract)}


def _int128(operation: str) -> Compute:
    if operation == "*":
        return _multiply_int128
    in_int64, in_int128 = _INT64_AND_INT128[operation]

    def compute(a: Values, b: Values) -> Values:
        first, second = int128.narrow(a), int128.narrow(b)
        if first is not None and second is not None and _sum_fits(first, second):
            return in_int64(first, second)
        return int128.store(in_int128(int128.load(a), int128.load(b)))

    return compute


def _sum_fits(a: Values, b: Values) -> bool:
    """Returns whether a + b and a − b fit into 64 bits in every row."""
    return not np.count_nonzero(beyond(a, _HALF64) | beyond(b, _HALF64))


def _multiply_int128(a: Values, b: Values) -> Values:
    first, second = int128.narrow(a), int128.narrow(b)
    if first is None or second is None:
        return int128.store(int128.multiply(int128.load(a), int128.load(b)))
    if _is_below(first, second, _SAFE64):
        product: Values = first * second
        return product
    return int128.store(int128.multiply_words(first, second))


def _is_below(a: Values, b: Values, bound: float) -> bool:
    return not np.count_nonzero(np.abs(np.multiply(a, b, dtype=np.float64)) > bound)


_INT64: dict[str, Compute] = {"+": _add64, "-": _subtract64, "*": _multiply_below(_SAFE64)}
_UINT64: dict[str, Compute] = {
    "+": _add_unsigned64,
    "-": _subtract_unsigned64,
    "*": _multiply_unsigned64,
}
_PLAIN: dict[str, Compute] = {"+": np.add, "-": np.subtract, "*": np.multiply}


def _integer(operation: str, type: ColumnType) -> Compute:
    if type.sql == "UHUGEINT":
        raise NotListedError(f"UHUGEINT {operation} UHUGEINT")
    if is_128_bit(type):
        return _int128(operation)
    if type.sql == "BIGINT":
        return _INT64[operation]
    return _UINT64[operation] if type.sql == "UBIGINT" else _int32(operation, type)


def _operation(sign: str) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        type = compiler.type(node)
        if is_shift(compiler.type(node.this), compiler.type(node.expression)):
            left, right = compiler.operand(node.this), compiler.operand(node.expression)
            return shift(compiler, left, right, sign, type)
        if type.is_decimal:
            return _decimal(compiler, node, sign, type)
        if not (type.is_integer or type.is_float):
            raise NotListedError(f"{type} {sign}")
        sides = [compiler.cast_to(side, type) for side in (node.this, node.expression)]
        compute = _PLAIN[sign] if type.is_float else _integer(sign, type)
        return binary(sides[0], sides[1], type, compute)

    return compile


def _decimal(compiler: ExpressionCompiler, node: exp.Expr, sign: str, type: ColumnType) -> Operand:
    if sign == "*":
        return _decimal_product(compiler, node, type)
    left = compiler.cast_to(node.this, type)
    right = compiler.cast_to(node.expression, type)
    if _has_room(type):
        return binary(left, right, type, _int128(sign) if is_128_bit(type) else _PLAIN[sign])
    exact = _int128(sign) if is_128_bit(type) else _INT64[sign]
    return binary(left, right, type, lambda a, b: check_digits(exact(a, b), type))


def _has_room(type: ColumnType) -> bool:
    """Returns whether the result's type has all digits that a result can need.

    DuckDB adds the digits that an operation can need to those of its sides, but stops at 18 (of
    sides that have at most 18) and at 38: only there a result can have too many.
    """
    return type.precision not in (18, 38)


def _decimal_product(compiler: ExpressionCompiler, node: exp.Expr, type: ColumnType) -> Operand:
    left, right = _decimal_side(compiler, node.this), _decimal_side(compiler, node.expression)
    if left.type.scale + right.type.scale != type.scale:
        raise NotListedError(f"{left.type} * {right.type}")
    if _has_room(type):
        return binary(left, right, type, _multiply_int128 if is_128_bit(type) else np.multiply)
    if is_128_bit(type):
        return binary(left, right, type, lambda a, b: check_digits(_multiply_int128(a, b), type))
    if is_128_bit(left.type) or is_128_bit(right.type):
        raise NotListedError(f"{left.type} * {right.type}")
    return binary(left, right, type, _multiply_below(_SAFE18))


def _decimal_side(compiler: ExpressionCompiler, side: exp.Expr) -> Operand:
    """The operand of a factor, with its own scale; integers have scale 0 and need no cast."""
    operand = compiler.operand(side)
    if not (operand.type.is_decimal or operand.type.is_integer) or operand.type.sql == "UHUGEINT":
        raise NotListedError(f"{operand.type} in a decimal product")
    if operand.type.is_integer and not is_128_bit(operand.type) and operand.type.sql != "UBIGINT":
        return unary(operand, BIGINT, lambda a: a.astype(np.int64))
    return operand


def _negate(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    type = compiler.type(node)
    operand = compiler.cast_to(node.this, type)
    if type.is_float:
        return unary(operand, type, np.negative)
    if is_128_bit(type) and type.sql != "UHUGEINT" and (type.is_integer or type.is_decimal):
        return unary(operand, type, lambda a: int128.store(int128.negate(int128.load(a))))
    if not (type.is_integer or type.is_decimal) or type.sql.startswith("U"):
        raise NotListedError(f"-{type}")
    return unary(operand, type, _negate_signed)


def _negate_signed(values: Values) -> Values:
    refuse_if(values == np.iinfo(values.dtype).min)  # numpy would return the same number
    return -values


def _absolute(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    type = compiler.type(node)
    operand = compiler.cast_to(node.this, type)
    if type.is_float:
        return unary(operand, type, np.abs)
    if type.sql == "UHUGEINT" or not (type.is_integer or type.is_decimal):
        raise NotListedError(f"abs({type})")
    if is_128_bit(type):
        return unary(operand, type, _absolute_int128)
    return unary(operand, type, _absolute_signed if type.sql[0] != "U" else lambda a: a)


def _absolute_signed(values: Values) -> Values:
    refuse_if(values == np.iinfo(values.dtype).min)
    return np.abs(values)


def _absolute_int128(values: Values) -> Values:
    size = int128.magnitude(int128.load(values))
    refuse_if(size.hi < 0)  # 2^127 does not fit
    return int128.store(size)


RULES: Rules = {
    exp.Add: rule(_operation("+"), "this", "expression"),
    exp.Sub: rule(_operation("-"), "this", "expression"),
    exp.Mul: rule(_operation("*"), "this", "expression"),
    exp.Neg: rule(_negate, "this"),
    exp.Abs: rule(_absolute, "this"),
}
