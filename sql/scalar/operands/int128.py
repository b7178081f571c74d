"""128-bit integers as two numpy arrays: addition, product, division by powers of ten, order.

Invariant: between kernels a column of a 128-bit type is in the narrow form, int64, or in the stored
one. The functions here that take `Values` take both; `widen` makes the stored form at the end.

Contract: functions named `wrap_*` compute modulo 2^128; the others raise `UndecidedError` unless it
is certain that the exact result fits. They compute bounds in doubles, with a margin, so that
DuckDB may compute a result near the bound although it fits: that costs time, never a bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ivm.sql.scalar.operands.kernel import UndecidedError, Values, refuse_if
from ivm.storage.values.types import WIDE

Bits = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_TWO64 = 18446744073709551616.0
# 2^127 is 1.7014e38; the margin is more than the error of a product of two estimates.
_SAFE = 1.7e38


class Int128(NamedTuple):
    """128-bit integers in two's complement: value = hi · 2^64 + lo."""

    lo: Bits
    hi: Ints


def load(values: Values) -> Int128:
    """Converts integers of any width (int*, uint*, or WIDE) to 128 bits."""
    if values.dtype == WIDE:
        return Int128(values["lo"], values["hi"])
    if values.dtype == np.uint64:
        return Int128(values, np.zeros(len(values), np.int64))
    signed = values.astype(np.int64, copy=False)
    # The shift copies the sign into all bits of the high word.
    return Int128(signed.view(np.uint64), signed >> 63)


def store(integers: Int128) -> Values:
    """Converts to the stored form, of 16 bytes a value."""
    values = np.empty(np.broadcast(integers.lo, integers.hi).shape, WIDE)
    values["lo"] = integers.lo
    values["hi"] = integers.hi
    return values


def widen(values: Values) -> Values:
    """Converts either form to the stored one."""
    return values if values.dtype == WIDE else store(load(values))


def in_one_form(a: Values, b: Values) -> tuple[Values, Values]:
    """Returns both in one form, so that rows can be taken from either."""
    if a.dtype == b.dtype:
        return a, b
    return widen(a), widen(b)


def narrow(values: Values) -> Ints | None:
    """Converts to int64 if each value fits, else returns None."""
    if values.dtype != WIDE:
        if values.dtype != np.uint64:
            return values.astype(np.int64, copy=False)
        return None if np.count_nonzero(values >> np.uint64(63)) else values.view(np.int64)
    low = values["lo"].view(np.int64)
    # A value fits if its high word repeats the sign of the low one.
    return None if np.count_nonzero((low >> 63) != values["hi"]) else low


def add(a: Int128, b: Int128) -> Int128:
    """Computes a + b; overflow is undecided."""
    total = wrap_add(a, b)
    refuse_if(((a.hi ^ total.hi) & (b.hi ^ total.hi)) < 0)
    return total


def subtract(a: Int128, b: Int128) -> Int128:
    """Computes a − b; overflow is undecided."""
    difference = wrap_subtract(a, b)
    refuse_if(((a.hi ^ b.hi) & (a.hi ^ difference.hi)) < 0)
    return difference


def wrap_add(a: Int128, b: Int128) -> Int128:
    lo = a.lo + b.lo
    return Int128(lo, a.hi + b.hi + (lo < a.lo))  # carry: the low sum overflowed


def wrap_subtract(a: Int128, b: Int128) -> Int128:
    lo = a.lo - b.lo
    return Int128(lo, a.hi - b.hi - (a.lo < b.lo))  # borrow


def negate(a: Int128) -> Int128:
    """Computes −a; −2^127, whose negative does not fit, is undecided."""
    refuse_if((a.hi == np.iinfo(np.int64).min) & (a.lo == 0))
    # −a = ~a + 1; the 1 is carried into the high word only where the low one is 0.
    return Int128(-a.lo, ~a.hi + (a.lo == 0))


def estimate(a: Int128) -> npt.NDArray[np.float64]:
    """Computes |a| as doubles, with an error of a few units in the last place."""
    size = magnitude(a)
    return size.hi.view(np.uint64).astype(np.float64) * _TWO64 + size.lo.astype(np.float64)


def product_of_words(a: Bits, b: Bits) -> Int128:
    """Multiplies unsigned words to 128 bits, `hi` being the bits of an unsigned word, too.

    Each word is two digits of 32 bits, multiplied as by hand: no sum of the three overflows a word.
    """
    a0, a1 = a & _LOW, a >> _HALF
    b0, b1 = b & _LOW, b >> _HALF
    low, cross = a0 * b0, a1 * b0
    middle = cross + (low >> _HALF)
    carry = (middle & _LOW) + a0 * b1
    hi = a1 * b1 + (middle >> _HALF) + (carry >> _HALF)
    return Int128((carry << _HALF) | (low & _LOW), hi.view(np.int64))


def wrap_multiply(a: Int128, b: Int128) -> Int128:
    low = product_of_words(a.lo, b.lo)
    cross = a.lo * b.hi.view(np.uint64) + a.hi.view(np.uint64) * b.lo
    return Int128(low.lo, low.hi + cross.view(np.int64))


def multiply(a: Int128, b: Int128) -> Int128:
    """Computes a · b; a product that may not fit is undecided."""
    refuse_if(estimate(a) * estimate(b) >= _SAFE)
    return wrap_multiply(a, b)


def multiply_words(a: Ints, b: Ints) -> Int128:
    """Multiplies int64 numbers exactly; the product always fits."""
    # A negative number read as unsigned is 2^64 too great, and the product by 2^64 times the other
    # factor.
    low = product_of_words(a.view(np.uint64), b.view(np.uint64))
    return Int128(low.lo, low.hi - ((a >> 63) & b) - ((b >> 63) & a))


def power_of_ten(exponent: int) -> Int128:
    """Returns 10^exponent (0 … 38) in one row."""
    value = 10**exponent
    return Int128(
        np.array([value & 0xFFFFFFFFFFFFFFFF], np.uint64), np.array([value >> 64], np.int64)
    )


def less(a: Int128, b: Int128) -> npt.NDArray[np.bool_]:
    """Compares as signed integers."""
    result: npt.NDArray[np.bool_] = (a.hi < b.hi) | ((a.hi == b.hi) & (a.lo < b.lo))
    return result


def equal(a: Int128, b: Int128) -> npt.NDArray[np.bool_]:
    result: npt.NDArray[np.bool_] = (a.hi == b.hi) & (a.lo == b.lo)
    return result


def magnitude(a: Int128) -> Int128:
    """Computes |a| as an unsigned number, so that |−2^127| fits."""
    sign = a.hi >> 63  # all bits set where a is negative; there, −a = ~a + 1 = (a ^ sign) − sign
    flipped = Int128(a.lo ^ sign.view(np.uint64), a.hi ^ sign)
    return wrap_subtract(flipped, Int128(sign.view(np.uint64), sign))


def with_sign(a: Int128, negative: npt.NDArray[np.bool_]) -> Int128:
    """Computes −a where `negative`, else a, modulo 2^128."""
    sign = -negative.astype(np.int64)  # as in `magnitude`
    flipped = Int128(a.lo ^ sign.view(np.uint64), a.hi ^ sign)
    return wrap_subtract(flipped, Int128(sign.view(np.uint64), sign))


def divide_by_power_of_ten(a: Int128, exponent: int) -> tuple[Int128, Int128]:
    """Divides by 10^exponent: the quotient towards zero, and the remainder with the sign of a."""
    quotient = magnitude(a)
    for step in _steps(exponent):
        quotient = _divide_by_uint32(quotient, np.uint64(step))
    signed = with_sign(quotient, a.hi < 0)
    return signed, wrap_subtract(a, wrap_multiply(signed, power_of_ten(exponent)))


def _steps(exponent: int) -> list[int]:
    """Factors the power of ten into divisors below 2^32."""
    return [10**9] * (exponent // 9) + ([10 ** (exponent % 9)] if exponent % 9 else [])


def _divide_by_uint32(a: Int128, divisor: np.uint64) -> Int128:
    """Divides unsigned numbers by a number below 2^32, digit by digit of 32 bits."""
    hi = a.hi.view(np.uint64)
    rest: Any = np.uint64(0)
    digits = []
    for digit in (hi >> _HALF, hi & _LOW, a.lo >> _HALF, a.lo & _LOW):
        current = (rest << _HALF) | digit
        digits.append(current // divisor)
        rest = current % divisor
    high = (digits[0] << _HALF) | digits[1]
    return Int128((digits[2] << _HALF) | digits[3], high.view(np.int64))


def to_double(a: Int128) -> npt.NDArray[np.float64]:
    """Casts to doubles with the same roundings as DuckDB's cast from HUGEINT.

    The result is not always the nearest double. DuckDB treats a high word of −1 apart, where the
    sum would cancel most of the digits.
    """
    summed = a.lo.astype(np.float64) + a.hi.astype(np.float64) * _TWO64
    cancels = a.hi == -1
    if not np.count_nonzero(cancels):
        return summed
    mirrored = -((~a.lo).astype(np.float64)) - 1.0
    return np.where(cancels, mirrored, summed)


def from_int(value: int) -> Int128:
    """Returns a Python integer in one row."""
    if not -(1 << 127) <= value < (1 << 127):
        raise UndecidedError
    return Int128(
        np.array([value & 0xFFFFFFFFFFFFFFFF], np.uint64), np.array([value >> 64], np.int64)
    )
