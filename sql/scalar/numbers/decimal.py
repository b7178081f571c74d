"""DECIMAL to DOUBLE, rounded correctly.

Law: the result is the double nearest to value ÷ 10^scale, as DuckDB has it, except for decimals of
more than 18 digits without scale, which DuckDB casts as a HUGEINT. Where value and power are exact
doubles, one division is rounded correctly. Else the quotient is computed in double-double
arithmetic, with an error of about 2^-100; it is undecided where that error could change the
rounding.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ivm.sql.scalar.operands import int128
from ivm.sql.scalar.operands.kernel import UndecidedError, Values, refuse_if

Doubles = npt.NDArray[np.float64]

_EXACT = 1 << 53
_EXACT_SCALE = 22  # the largest power of ten that is a double
_SPLITTER = 134217729.0  # 2^27 + 1
_DOUBT = 2.0**-30


def decimal_to_double(values: Values, scale: int, is_huge: bool) -> Doubles:
    """Casts decimals in either form (integers, without the point) to doubles.

    Args:
        scale: digits after the point.
        is_huge: the type has more than 18 digits.
    """
    if scale == 0 and is_huge:
        return int128.to_double(int128.load(values))
    narrow = int128.narrow(values)
    if narrow is not None and _is_exact(narrow, scale):
        return narrow.astype(np.float64) / float(10**scale)
    if scale > _EXACT_SCALE:
        raise UndecidedError
    return _divide(*_double_double(int128.load(values)), float(10**scale))


def _is_exact(values: Values, scale: int) -> bool:
    if scale > _EXACT_SCALE:
        return False
    return scale == 0 or not np.count_nonzero((values > _EXACT) | (values < -_EXACT))


def _double_double(values: int128.Int128) -> tuple[Doubles, Doubles]:
    """Splits 128-bit integers into sums of two doubles, from four digits of 32 bits each."""
    low_half = np.uint64(0xFFFFFFFF)
    high = (values.hi >> 32).astype(np.float64) * 2.0**96
    parts = (
        (values.hi & 0xFFFFFFFF).astype(np.float64) * 2.0**64,
        (values.lo >> np.uint64(32)).astype(np.float64) * 2.0**32,
        (values.lo & low_half).astype(np.float64),
    )
    total, rest = high, np.zeros(len(high))
    for part in parts:
        total, error = _two_sum(total, part)
        rest = rest + error
    return _two_sum(total, rest)


def _two_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """Adds exactly: returns the rounded sum and its error (Knuth's algorithm)."""
    total = a + b
    virtual = total - a
    return total, (a - (total - virtual)) + (b - virtual)


def _two_product(a: Doubles, b: float) -> tuple[Doubles, Doubles]:
    """Multiplies exactly: returns the rounded product and its error (Dekker's algorithm)."""
    product = a * b
    # Each factor is split into halves of at most 26 bits, whose products are exact doubles.
    scaled_a, scaled_b = _SPLITTER * a, _SPLITTER * b
    a1, b1 = scaled_a - (scaled_a - a), scaled_b - (scaled_b - b)
    a2, b2 = a - a1, b - b1
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _divide(high: Doubles, low: Doubles, power: float) -> Doubles:
    first = high / power
    product, error = _two_product(first, power)
    second = ((high - product) - error + low) / power
    quotient, rest = _two_sum(first, second)
    refuse_if(_is_ambiguous(quotient, rest))
    return quotient


def _is_ambiguous(quotient: Doubles, rest: Doubles) -> npt.NDArray[np.bool_]:
    """Marks quotients so near the middle of two doubles that the error could change the rounding.

    The middle is half a unit in the last place away; below a power of two, where the doubles stand
    twice as close, a quarter.
    """
    share = np.abs(rest / np.spacing(quotient))
    is_power = np.frexp(quotient)[0] == np.copysign(0.5, quotient)
    result: npt.NDArray[np.bool_] = (share > 0.5 - _DOUBT) | (is_power & (share > 0.25 - _DOUBT))
    return result
