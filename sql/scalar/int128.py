"""128-bit integers as two numpy arrays: addition, product, division by small numbers, order.

Law: inside a tree a value of a 16-byte type may lie in the narrow form, int64, if all rows fit; all
functions here take both forms, and `widen` restores the stored one at the end.
Law: functions named `wrap_*` compute modulo 2^128; the others raise `UndecidedError` unless they
can show that the exact result fits. Bounds are shown with doubles and a margin, so a result
close to the edge may go to DuckDB although it fits: that costs time, never a bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ivm.sql.scalar.kernel import UndecidedError, Values, refuse_if
from ivm.storage.values.types import WIDE

Bits = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_TWO64 = 18446744073709551616.0
# Largest double surely below 2^127 after a few roundings.
_SAFE = 1.7e38


class Wide(NamedTuple):
    """Two's complement 128-bit integers: value = hi · 2^64 + lo."""

    lo: Bits
    hi: Ints


def load(values: Values) -> Wide:
    """Integers of any width (int*, uint*, or WIDE) as 128 bits."""
    if values.dtype == WIDE:
        return Wide(values["lo"], values["hi"])
    if values.dtype == np.uint64:
        return Wide(values, np.zeros(len(values), np.int64))
    signed = values.astype(np.int64, copy=False)
    return Wide(signed.view(np.uint64), signed >> 63)


def store(wide: Wide) -> Values:
    """The 16-byte form of a column."""
    values = np.empty(np.broadcast(wide.lo, wide.hi).shape, WIDE)
    values["lo"] = wide.lo
    values["hi"] = wide.hi
    return values


def widen(values: Values) -> Values:
    """The stored form of a 16-byte type, from either form."""
    return values if values.dtype == WIDE else store(load(values))


def alike(a: Values, b: Values) -> tuple[Values, Values]:
    """Both values in one form, as choosing between their rows needs it."""
    if a.dtype == b.dtype:
        return a, b
    return widen(a), widen(b)


def narrow(values: Values) -> Ints | None:
    """The values as int64 if each of them fits, else None."""
    if values.dtype != WIDE:
        if values.dtype != np.uint64:
            return values.astype(np.int64, copy=False)
        return None if np.count_nonzero(values >> np.uint64(63)) else values.view(np.int64)
    low = values["lo"].view(np.int64)
    return None if np.count_nonzero((low >> 63) != values["hi"]) else low


def add(a: Wide, b: Wide) -> Wide:
    """a + b; overflow is undecided."""
    total = wrap_add(a, b)
    refuse_if(((a.hi ^ total.hi) & (b.hi ^ total.hi)) < 0)
    return total


def subtract(a: Wide, b: Wide) -> Wide:
    """a − b; overflow is undecided."""
    difference = wrap_subtract(a, b)
    refuse_if(((a.hi ^ b.hi) & (a.hi ^ difference.hi)) < 0)
    return difference


def wrap_add(a: Wide, b: Wide) -> Wide:
    lo = a.lo + b.lo
    return Wide(lo, a.hi + b.hi + (lo < a.lo))


def wrap_subtract(a: Wide, b: Wide) -> Wide:
    lo = a.lo - b.lo
    return Wide(lo, a.hi - b.hi - (a.lo < b.lo))


def negate(a: Wide) -> Wide:
    """−a; the one value without a negative is undecided."""
    refuse_if((a.hi == np.iinfo(np.int64).min) & (a.lo == 0))
    return Wide(-a.lo, ~a.hi + (a.lo == 0))


def estimate(a: Wide) -> npt.NDArray[np.float64]:
    """|a| as doubles, off by a few units in the last place."""
    size = magnitude(a)
    return size.hi.view(np.uint64).astype(np.float64) * _TWO64 + size.lo.astype(np.float64)


def product_of_words(a: Bits, b: Bits) -> Wide:
    """The 128-bit product of unsigned words (hi holds its upper word's bits)."""
    a0, a1 = a & _LOW, a >> _HALF
    b0, b1 = b & _LOW, b >> _HALF
    low, cross = a0 * b0, a1 * b0
    middle = cross + (low >> _HALF)
    carry = (middle & _LOW) + a0 * b1
    hi = a1 * b1 + (middle >> _HALF) + (carry >> _HALF)
    return Wide((carry << _HALF) | (low & _LOW), hi.view(np.int64))


def wrap_multiply(a: Wide, b: Wide) -> Wide:
    low = product_of_words(a.lo, b.lo)
    cross = a.lo * b.hi.view(np.uint64) + a.hi.view(np.uint64) * b.lo
    return Wide(low.lo, low.hi + cross.view(np.int64))


def multiply(a: Wide, b: Wide) -> Wide:
    """a · b; a product that may not fit is undecided."""
    refuse_if(estimate(a) * estimate(b) >= _SAFE)
    return wrap_multiply(a, b)


def multiply_words(a: Ints, b: Ints) -> Wide:
    """The exact product of two int64 (it always fits)."""
    low = product_of_words(a.view(np.uint64), b.view(np.uint64))
    return Wide(low.lo, low.hi - ((a >> 63) & b) - ((b >> 63) & a))


def power_of_ten(exponent: int) -> Wide:
    """10^exponent (0 … 38) as a one-row value."""
    value = 10**exponent
    return Wide(
        np.array([value & 0xFFFFFFFFFFFFFFFF], np.uint64), np.array([value >> 64], np.int64)
    )


def less(a: Wide, b: Wide) -> npt.NDArray[np.bool_]:
    """a < b as signed integers."""
    result: npt.NDArray[np.bool_] = (a.hi < b.hi) | ((a.hi == b.hi) & (a.lo < b.lo))
    return result


def equal(a: Wide, b: Wide) -> npt.NDArray[np.bool_]:
    result: npt.NDArray[np.bool_] = (a.hi == b.hi) & (a.lo == b.lo)
    return result


def magnitude(a: Wide) -> Wide:
    """|a| as unsigned 128 bits."""
    sign = a.hi >> 63
    flipped = Wide(a.lo ^ sign.view(np.uint64), a.hi ^ sign)
    return wrap_subtract(flipped, Wide(sign.view(np.uint64), sign))


def with_sign(a: Wide, negative: npt.NDArray[np.bool_]) -> Wide:
    """−a where `negative`, else a, modulo 2^128."""
    sign = -negative.astype(np.int64)
    flipped = Wide(a.lo ^ sign.view(np.uint64), a.hi ^ sign)
    return wrap_subtract(flipped, Wide(sign.view(np.uint64), sign))


def divide_by_power_of_ten(a: Wide, exponent: int) -> tuple[Wide, Wide]:
    """Quotient towards zero and remainder (with the sign of a) of a ÷ 10^exponent."""
    quotient = magnitude(a)
    for step in _steps(exponent):
        quotient = _divide_small(quotient, np.uint64(step))
    signed = with_sign(quotient, a.hi < 0)
    return signed, wrap_subtract(a, wrap_multiply(signed, power_of_ten(exponent)))


def _steps(exponent: int) -> list[int]:
    return [10**9] * (exponent // 9) + ([10 ** (exponent % 9)] if exponent % 9 else [])


def _divide_small(a: Wide, divisor: np.uint64) -> Wide:
    """Unsigned long division by a divisor below 2^32, digit by 32-bit digit."""
    hi = a.hi.view(np.uint64)
    rest: Any = np.uint64(0)
    digits = []
    for digit in (hi >> _HALF, hi & _LOW, a.lo >> _HALF, a.lo & _LOW):
        current = (rest << _HALF) | digit
        digits.append(current // divisor)
        rest = current % divisor
    high = (digits[0] << _HALF) | digits[1]
    return Wide((digits[2] << _HALF) | digits[3], high.view(np.int64))


def to_double(a: Wide) -> npt.NDArray[np.float64]:
    """a as doubles, rounded in the very steps of DuckDB's cast from HUGEINT."""
    positive = a.lo.astype(np.float64) + a.hi.astype(np.float64) * _TWO64
    small = a.hi == -1
    if not np.count_nonzero(small):
        return positive
    mirrored = -((~a.lo).astype(np.float64)) - 1.0
    return np.where(small, mirrored, positive)


def from_int(value: int) -> Wide:
    """A Python integer as a one-row value."""
    if not -(1 << 127) <= value < (1 << 127):
        raise UndecidedError
    return Wide(
        np.array([value & 0xFFFFFFFFFFFFFFFF], np.uint64), np.array([value >> 64], np.int64)
    )
