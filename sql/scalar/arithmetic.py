"""Arithmetic on integers, decimals and floats: + − * unary − abs (division stands beside).

Law: both sides are first cast to the type DuckDB casts them to (the result's type for + and − and
for integers; for decimal products each keeps its scale), then computed exactly. A result that does
not fit its type is undecided, so DuckDB raises its own error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sqlglot import exp

from ivm.sql.scalar import int128
from ivm.sql.scalar.kernel import (
    BIGINT,
    NotListedError,
    Operand,
    UndecidedError,
    Values,
    beyond,
    binary,
    is_wide,
    refuse_if,
    unary,
)
from ivm.sql.scalar.rules import ExpressionCompiler, Rules, rule
from ivm.sql.scalar.temporal import is_shift, shift
from ivm.storage.values.types import ColumnType

Compute = Callable[[Values, Values], Values]

# |product| below this as a double surely is below 2^63.
_SAFE64 = 9.22e18
_HALF64 = 2**62 - 1
_SAFE18 = 9.999999e17


def _fits(values: Values, type: ColumnType) -> Values:
    """int64 values in the narrower dtype of `type`, undecided if one does not fit."""
    dtype = type.dtype
    assert dtype is not None
    if dtype == np.int64:
        return values
    small = values.astype(dtype)
    refuse_if(small != values)
    return small


def check_digits(values: Values, type: ColumnType) -> Values:
    """Decimals of `type` in their form, undecided if one has more digits than the type."""
    if is_wide(type):
        if values.dtype == np.int64:
            return values  # 64 bits hold at most 19 digits
        bound = int128.power_of_ten(type.precision)
        loaded = int128.load(values)
        size = int128.magnitude(loaded)
        refuse_if((size.hi < 0) | ~int128.less(size, bound))
        return values
    refuse_if(beyond(values, 10**type.precision - 1))
    return values


def _add64(a: Values, b: Values) -> Values:
    total = a + b
    refuse_if(((a ^ total) & (b ^ total)) < 0)
    return total


def _subtract64(a: Values, b: Values) -> Values:
    difference = a - b
    refuse_if(((a ^ b) & (a ^ difference)) < 0)
    return difference


def _multiply64(a: Values, b: Values) -> Values:
    if not _is_below(a, b, _SAFE64):
        raise UndecidedError
    return a * b


def _add_unsigned64(a: Values, b: Values) -> Values:
    total = a + b
    refuse_if(total < a)
    return total


def _subtract_unsigned64(a: Values, b: Values) -> Values:
    refuse_if(a < b)
    return a - b


def _multiply_unsigned64(a: Values, b: Values) -> Values:
    refuse_if(a.astype(np.float64) * b > 2 * _SAFE64)
    return a * b


def _small(operation: str, type: ColumnType) -> Compute:
    """Integers of at most 32 bits: exact in int64, then checked."""
    ufunc = {"+": np.add, "-": np.subtract, "*": np.multiply}[operation]
    if type.sql == "UINTEGER" and operation == "*":
        return lambda a, b: _fits_unsigned(ufunc(a, b, dtype=np.uint64), type)
    return lambda a, b: _fits(ufunc(a, b, dtype=np.int64), type)


def _fits_unsigned(values: Values, type: ColumnType) -> Values:
    small = values.astype(np.uint32)
    refuse_if(small != values)
    return small


_NEAR_AND_FAR = {"+": (np.add, int128.add), "-": (np.subtract, int128.subtract)}


def _wide(operation: str) -> Compute:
    if operation == "*":
        return _multiply_wide
    near, far = _NEAR_AND_FAR[operation]

    def compute(a: Values, b: Values) -> Values:
        first, second = int128.narrow(a), int128.narrow(b)
        if first is not None and second is not None and _are_small(first, second):
            return near(first, second)
        return int128.store(far(int128.load(a), int128.load(b)))

    return compute


def _are_small(a: Values, b: Values) -> bool:
    """The sum of the two fits into 64 bits."""
    return not np.count_nonzero(beyond(a, _HALF64) | beyond(b, _HALF64))


def _multiply_wide(a: Values, b: Values) -> Values:
    first, second = int128.narrow(a), int128.narrow(b)
    if first is None or second is None:
        return int128.store(int128.multiply(int128.load(a), int128.load(b)))
    if _is_below(first, second, _SAFE64):
        product: Values = first * second
        return product
    return int128.store(int128.multiply_words(first, second))


def _is_below(a: Values, b: Values, bound: float) -> bool:
    return not np.count_nonzero(np.abs(np.multiply(a, b, dtype=np.float64)) > bound)


_INT64: dict[str, Compute] = {"+": _add64, "-": _subtract64, "*": _multiply64}
_UINT64: dict[str, Compute] = {
    "+": _add_unsigned64,
    "-": _subtract_unsigned64,
    "*": _multiply_unsigned64,
}
_PLAIN: dict[str, Compute] = {"+": np.add, "-": np.subtract, "*": np.multiply}


def _integer(operation: str, type: ColumnType) -> Compute:
    if type.sql == "UHUGEINT":
        raise NotListedError(f"UHUGEINT {operation} UHUGEINT")
    if is_wide(type):
        return _wide(operation)
    if type.sql == "BIGINT":
        return _INT64[operation]
    return _UINT64[operation] if type.sql == "UBIGINT" else _small(operation, type)


def _operation(sign: str) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        type = compiler.type(node)
        if is_shift(compiler.type(node.this), compiler.type(node.expression)):
            left, right = compiler.term(node.this), compiler.term(node.expression)
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
        return binary(left, right, type, _wide(sign) if is_wide(type) else _PLAIN[sign])
    exact = _wide(sign) if is_wide(type) else _INT64[sign]
    return binary(left, right, type, lambda a, b: check_digits(exact(a, b), type))


def _has_room(type: ColumnType) -> bool:
    """DuckDB gave the result all digits it can need; at 18 and 38 it may have cut them."""
    return type.precision not in (18, 38)


def _decimal_product(compiler: ExpressionCompiler, node: exp.Expr, type: ColumnType) -> Operand:
    left, right = _decimal_side(compiler, node.this), _decimal_side(compiler, node.expression)
    if left.type.scale + right.type.scale != type.scale:
        raise NotListedError(f"{left.type} * {right.type}")
    if _has_room(type):
        return binary(left, right, type, _multiply_wide if is_wide(type) else np.multiply)
    if is_wide(type):
        return binary(left, right, type, lambda a, b: check_digits(_multiply_wide(a, b), type))
    if is_wide(left.type) or is_wide(right.type):
        raise NotListedError(f"{left.type} * {right.type}")
    return binary(left, right, type, _multiply18)


def _multiply18(a: Values, b: Values) -> Values:
    """A product of at most 18 digits; a size near 10^18 is undecided."""
    if not _is_below(a, b, _SAFE18):
        raise UndecidedError
    return a * b


def _decimal_side(compiler: ExpressionCompiler, side: exp.Expr) -> Operand:
    """A factor with its own scale; integers have scale 0 and need no cast."""
    term = compiler.term(side)
    if not (term.type.is_decimal or term.type.is_integer) or term.type.sql == "UHUGEINT":
        raise NotListedError(f"{term.type} in a decimal product")
    if term.type.is_integer and not is_wide(term.type) and term.type.sql != "UBIGINT":
        return unary(term, BIGINT, lambda a: a.astype(np.int64))
    return term


def _negate(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    type = compiler.type(node)
    term = compiler.cast_to(node.this, type)
    if type.is_float:
        return unary(term, type, np.negative)
    if is_wide(type) and type.sql != "UHUGEINT" and (type.is_integer or type.is_decimal):
        return unary(term, type, lambda a: int128.store(int128.negate(int128.load(a))))
    if not (type.is_integer or type.is_decimal) or type.sql.startswith("U"):
        raise NotListedError(f"-{type}")
    return unary(term, type, _negate_signed)


def _negate_signed(values: Values) -> Values:
    refuse_if(values == np.iinfo(values.dtype).min)
    return -values


def _absolute(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    type = compiler.type(node)
    term = compiler.cast_to(node.this, type)
    if type.is_float:
        return unary(term, type, np.abs)
    if type.sql == "UHUGEINT" or not (type.is_integer or type.is_decimal):
        raise NotListedError(f"abs({type})")
    if is_wide(type):
        return unary(term, type, _absolute_wide)
    return unary(term, type, _absolute_signed if type.sql[0] != "U" else lambda a: a)


def _absolute_signed(values: Values) -> Values:
    refuse_if(values == np.iinfo(values.dtype).min)
    return np.abs(values)


def _absolute_wide(values: Values) -> Values:
    size = int128.magnitude(int128.load(values))
    refuse_if(size.hi < 0)
    return int128.store(size)


RULES: Rules = {
    exp.Add: rule(_operation("+"), "this", "expression"),
    exp.Sub: rule(_operation("-"), "this", "expression"),
    exp.Mul: rule(_operation("*"), "this", "expression"),
    exp.Neg: rule(_negate, "this"),
    exp.Abs: rule(_absolute, "this"),
}
