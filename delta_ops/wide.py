"""128-bit results from int64 lanes: HUGEINT and DECIMAL(38) sums, and their doubles.

Law: the lanes stand for Σ lane[j] · 2^(32 j); a result out of its type's range is an error in DuckDB's
words, never a wrapped number.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.delta_ops.float_sum import round_ratio
from ivm.storage.column import Indexes
from ivm.storage.errors import EvaluationError
from ivm.storage.types import WIDE

Wide = npt.NDArray[Any]

_LOW = 0xFFFFFFFF
_EXACT = 1 << 53


def from_int64(values: Indexes) -> Wide:
    """Sign-extended."""
    out = np.empty(len(values), WIDE)
    out["lo"] = values.view(np.uint64)
    out["hi"] = values >> 63
    return out


def from_lanes(lanes: Indexes) -> Wide:
    """int64[n, 1, 2 or 4] as 128-bit integers.

    Raises:
        EvaluationError: a sum needs more than 128 bits.
    """
    count = lanes.shape[1]
    if count == 1:
        return from_int64(np.ascontiguousarray(lanes[:, 0]))
    out = np.empty(len(lanes), WIDE)
    carry = lanes[:, 0]
    limbs = []
    for j in range(1, count):
        limbs.append((carry & _LOW).view(np.uint64))
        carry = lanes[:, j] + (carry >> 32)
    if count == 2:
        out["lo"] = limbs[0] | (carry << 32).view(np.uint64)
        out["hi"] = carry >> 32
        return out
    if ((carry >> 31) != (carry >> 63)).any():
        raise EvaluationError("Out of Range Error: Overflow in HUGEINT addition")
    out["lo"] = limbs[0] | (limbs[1] << np.uint64(32))
    out["hi"] = limbs[2].view(np.int64) | (carry << 32)
    return out


def check_decimal(values: Wide) -> None:
    """Refuse what has more than 38 digits.

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


def decimal_to_double(values: Wide, scale: int) -> npt.NDArray[np.float64]:
    """The doubles nearest to values / 10^scale."""
    lo, hi = values["lo"].view(np.int64), values["hi"]
    small = (hi == lo >> 63) & (lo < _EXACT) & (lo > -_EXACT)
    if scale <= 22 and small.all():
        return np.asarray(lo / 10.0**scale)
    rows = zip(hi.tolist(), values["lo"].tolist(), strict=True)
    return np.array([round_ratio((h << 64) | low, 10**scale) for h, low in rows])
