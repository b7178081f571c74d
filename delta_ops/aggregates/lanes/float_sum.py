"""Exact sums of binary floating point numbers in int64 lanes.

Law: a finite double is m · 2^(e − 1074) with an integer m and e ≥ 0; m · 2^(e mod 32) is cut into
limbs of 32 bits, and limb j is added to lane e ÷ 32 + j. A lane is a plain integer sum, so the
state is linear in the rows: any order of additions and retractions ends in the same lanes, and
rounding them once gives the double nearest to the exact sum (ties to even). Squares are m² with
exponent 2e − 1074 · 2, in lanes of their own.

Contract: at most 2³¹ rows of one exponent in one group.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.values import thresholds
from ivm.storage.values.column import Indexes, Mask

Floats = npt.NDArray[np.float64]
Objects = npt.NDArray[Any]

_LIMB = 32
_LOW = (1 << _LIMB) - 1
_UNIT = 1074
_FRACTION = (1 << 52) - 1


class Limbs:
    """The signed limbs of some numbers: values[j][i] belongs to lane lanes[i] + j."""

    __slots__ = ("lanes", "values")

    def __init__(self, lanes: Indexes, values: tuple[Indexes, ...]) -> None:
        self.lanes = lanes
        self.values = values


def _decode(values: Floats) -> tuple[Indexes, Indexes, Indexes]:
    """Magnitude (53 bits), exponent ≥ 0 and sign (0 or −1) of finite doubles."""
    # A normal number has a hidden leading 1 and exponent field e + 1; a subnormal one has neither.
    bits = values.view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    normal = exponent > 0
    magnitude = (bits & _FRACTION) | (normal.astype(np.int64) << 52)
    return magnitude, exponent - normal, bits >> 63


def split(values: Floats) -> Limbs:
    """Limbs of finite doubles, in units of 2^−1074."""
    magnitude, exponent, sign = _decode(values)
    return _cut(magnitude, exponent, sign)


def limbs_of(value: float) -> tuple[int, tuple[int, int, int]]:
    """The first lane and the limbs of one finite double: what `split` gives, without numpy."""
    fraction, exponent = math.frexp(value)
    magnitude, shift = int(fraction * (1 << 53)), exponent - 53 + _UNIT
    if shift < 0:  # subnormal: its last bits are zeros
        magnitude, shift = (abs(magnitude) >> -shift) * (1 if magnitude > 0 else -1), 0
    sign = -1 if magnitude < 0 else 1
    rest = abs(magnitude) << (shift & 31)
    low, middle, high = rest & _LOW, (rest >> _LIMB) & _LOW, rest >> (2 * _LIMB)
    return shift >> 5, (sign * low, sign * middle, sign * high)


def _cut(magnitude: Indexes, exponent: Indexes, sign: Indexes) -> Limbs:
    """Limbs of magnitude · 2^exponent (magnitude < 2^63)."""
    shift = exponent & 31
    low = (magnitude << shift) & _LOW  # bits shifted out above bit 63 are in `rest`
    rest = magnitude >> (_LIMB - shift)
    parts = (low, rest & _LOW, rest >> _LIMB)
    if sign.any():  # (x ^ −1) − (−1) = −x, and (x ^ 0) − 0 = x
        parts = ((low ^ sign) - sign, (parts[1] ^ sign) - sign, (parts[2] ^ sign) - sign)
    return Limbs(exponent >> 5, parts)


def split_squares(values: Floats) -> list[Limbs]:
    """Limbs of the squares of finite doubles, in units of 2^−2148."""
    magnitude, exponent, _ = _decode(values)
    # (h · 2^27 + l)² = l² + 2hl · 2^27 + h² · 2^54: halves of 27 bits keep each product below 2^63.
    high, low = magnitude >> 27, magnitude & ((1 << 27) - 1)
    none = np.zeros_like(magnitude)
    double = 2 * exponent
    return [
        _cut(low * low, double, none),
        _cut(high * low, double + 28, none),
        _cut(high * high, double + 54, none),
    ]


def split_products(left: Floats, right: Floats) -> list[Limbs]:
    """Limbs of the products of finite doubles, in units of 2^−2148."""
    (a, e, s), (b, f, t) = _decode(left), _decode(right)
    exponent, sign = e + f, s ^ t
    a_high, a_low = a >> 27, a & ((1 << 27) - 1)
    b_high, b_low = b >> 27, b & ((1 << 27) - 1)
    return [
        _cut(a_low * b_low, exponent, sign),
        _cut(a_high * b_low + a_low * b_high, exponent + 27, sign),
        _cut(a_high * b_high, exponent + 54, sign),
    ]


def totals(lanes: Indexes, numbers: list[int]) -> Objects:
    """The exact sums as Python integers, in the lanes' unit.

    Args:
        lanes: int64[k, L].
        numbers: the lane number of each column.
    """
    total = np.zeros(len(lanes), object)
    for column, number in enumerate(numbers):
        total += lanes[:, column].astype(object) << (_LIMB * number)
    return total


def round_ratio(numerator: int, denominator: int) -> float:
    """The double nearest to numerator / denominator; ±inf beyond the range."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf


def round_lanes(lanes: Indexes, numbers: list[int]) -> Floats:
    """The doubles nearest to the sums that the lanes hold (±inf beyond the range).

    Args:
        lanes: int64[k, L].
        numbers: the lane number of each column, ascending.
    """
    if len(lanes) > thresholds.FLOAT_LANES:
        return _round_many(lanes, numbers)
    # Few sums are added up as Python integers, shifted so that the lowest lane's unit is whole.
    base = numbers[0] * _LIMB
    up, unit = max(base - _UNIT, 0), 1 << max(_UNIT - base, 0)
    shifts = [n * _LIMB - base + up for n in numbers]
    rows = lanes.tolist()
    return np.array(
        [round_ratio(sum([v << s for v, s in zip(row, shifts, strict=True)]), unit) for row in rows]
    )


def _round_many(lanes: Indexes, numbers: list[int]) -> Floats:
    # Rounding works on magnitudes: sums that come out negative are normalised again, negated.
    limbs, negative = _normalise(lanes, numbers)
    if negative.any():
        signs = np.where(negative, -1, 1)
        limbs, _ = _normalise(lanes * signs[:, None], numbers)
    magnitude = _round_limbs(limbs, numbers[0] * _LIMB - _UNIT)
    return np.where(negative, -magnitude, magnitude)


def _normalise(lanes: Indexes, numbers: list[int]) -> tuple[Indexes, Mask]:
    """Carries upwards: limbs of 32 bits, lowest first, two spare ones; a mask of the sums < 0."""
    columns = dict(zip(numbers, lanes.T, strict=True))
    carry = np.zeros(len(lanes), np.int64)
    limbs = []
    for number in range(numbers[0], numbers[-1] + 3):
        # `& _LOW` and the arithmetic shift split a negative total too: total = limb + carry · 2^32.
        total = carry + columns[number] if number in columns else carry
        limbs.append(total & _LOW)
        carry = total >> _LIMB
    return np.stack(limbs), carry < 0


def _round_limbs(limbs: Indexes, exponent: int) -> Floats:
    """Limbs [L, k] of non-negative sums, the lowest worth 2^exponent, to the nearest doubles.

    The top 64 bits, with all below gathered in the lowest of them, are rounded by the conversion to
    double (11 bits fall away, so the gathered bit decides ties rightly); scaling is then exact, for
    a sum of doubles is a multiple of 2^−1074.
    """
    count, rows = limbs.shape
    at = np.arange(rows)
    top = count - 1 - np.argmax(limbs[::-1] != 0, axis=0)

    def limb(below: int) -> npt.NDArray[np.uint64]:
        index = top - below
        return np.where(index >= 0, limbs[index, at], 0).astype(np.uint64)

    # `head` are the top 64 bits: the two highest limbs, moved up by the highest one's spare bits,
    # and filled from the third; `lost` says whether any lower bit is set.
    used = np.frexp(limbs[top, at].astype(np.float64))[1]
    spare = np.where(used > 0, _LIMB - used, 0).astype(np.uint64)
    third = limb(2)
    head = ((limb(0) << np.uint64(_LIMB)) | limb(1)) << spare
    head |= third >> (np.uint64(_LIMB) - spare)
    lost = (third << spare) & np.uint64(_LOW) != 0
    nonzero_below = np.cumsum(limbs != 0, axis=0)
    lost |= np.where(top >= 3, nonzero_below[top - 3, at], 0) > 0
    rounded = (head | lost.astype(np.uint64)).astype(np.float64)
    with np.errstate(over="ignore"):
        scaled = np.ldexp(rounded, exponent + _LIMB * (top - 1) - spare.astype(np.int64))
    return np.asarray(scaled)
