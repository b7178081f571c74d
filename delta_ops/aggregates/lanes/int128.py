"""128-bit results from int64 lanes: HUGEINT and DECIMAL(38) sums, and their doubles.

Law: the lanes mean Σ lane[j] · 2^(32 j). A result out of its type's range is an error in DuckDB's
words, never a wrapped number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.delta_ops.aggregates.lanes.float_sum import round_ratio
from ivm.storage.errors import EvaluationError
from ivm.storage.values.column import Indexes
from ivm.storage.values.types import WIDE

Wide = npt.NDArray[Any]

_LOW = 0xFFFFFFFF
_EXACT = 1 << 53


def _joined(low: Indexes, high: Indexes) -> Wide:
    words = np.empty((len(low), 2), np.int64)
    words[:, 0] = low
    words[:, 1] = high
    return words.view(WIDE)[:, 0]


def from_int64(values: Indexes) -> Wide:
    """The values with their signs extended."""
    return _joined(values, values >> 63)


def from_lanes(lanes: Indexes) -> Wide:
    """int64[n, 1, 2 or 4] as 128-bit integers.

    Raises:
        EvaluationError: a sum needs more than 128 bits.
    """
    count = lanes.shape[1]
    carry = lanes[:, 0]
    if count == 1:
        return from_int64(carry)
    limbs = []
    for j in range(1, count):
        limbs.append(carry & _LOW)
        carry = lanes[:, j] + (carry >> 32)
    if count == 2:
        return _joined(limbs[0] | (carry << 32), carry >> 32)
    if ((carry >> 31) != (carry >> 63)).any():
        raise EvaluationError("Out of Range Error: Overflow in HUGEINT addition")
    return _joined(limbs[0] | (limbs[1] << 32), limbs[2] | (carry << 32))


def means(lanes: Indexes, counts: Indexes) -> Indexes:
    """Averages as DuckDB's of times: cut off, and up by one where over half of `counts` is left.

    Args:
        lanes: int64[n, 2], sums of 64-bit integers by halves.
        counts: int64[n], positive, below 2³¹.
    """
    high, low = lanes[:, 1] + (lanes[:, 0] >> 32), lanes[:, 0] & _LOW
    above, rest = np.divmod(high, counts)
    below, left = np.divmod((rest << 32) | low, counts)
    floor = (above << 32) + below
    return floor + np.where(high < 0, left > 0, left > counts // 2)


def check_decimal(values: Wide) -> None:
    """Raises an error for a value of more than 38 digits.

    Raises:
        EvaluationError: in the words of DuckDB's SUM.
    """
    limit = 10**38
    high, low = limit >> 64, limit & ((1 << 64) - 1)
    hi, lo = values["hi"], values["lo"]
    above = (hi > high) | ((hi == high) & (lo >= low))
    below = (hi < -high - 1) | ((hi == -high - 1) & (lo <= (1 << 64) - low))
    if (above | below).any():
        raise EvaluationError(
            "Out of Range Error: Overflow in SUM of DECIMAL: the result does not fit in DECIMAL(38)"
        )


def to_double(values: Wide) -> npt.NDArray[np.float64]:
    """The doubles that DuckDB casts HUGEINTs to (both words rounded, then added)."""
    hi, lo = values["hi"], values["lo"]
    plain = lo.astype(np.float64) + hi.astype(np.float64) * 2.0**64
    return np.where(hi == -1, -((~lo).astype(np.float64) + 1.0), plain)


def ratios(values: Wide, counts: Indexes, scale: int) -> npt.NDArray[np.float64]:
    """The doubles nearest to values / (counts · 10^scale)."""
    lo, hi = values["lo"].view(np.int64), values["hi"]
    small = (hi == lo >> 63) & (lo < _EXACT) & (lo > -_EXACT)
    unit = 10**scale
    if unit * int(counts.max(initial=1)) < _EXACT and small.all():
        return np.asarray(lo / (counts * unit))
    rows = zip(hi.tolist(), values["lo"].tolist(), counts.tolist(), strict=True)
    return np.array([round_ratio((h << 64) | low, n * unit) for h, low, n in rows])


def are_means(means: npt.NDArray[np.float64], values: Wide, counts: Indexes) -> bool:
    """Returns whether values / counts are these doubles, divided as long doubles too.

    DuckDB divides doubles or long doubles, as its optimizer has it, and rounds the latter twice.
    """
    low = values["lo"].view(np.int64)
    twice = (low.astype(np.longdouble) / counts.astype(np.longdouble)).astype(np.float64)
    return bool(((values["hi"] == low >> 63) & (twice == means)).all())
