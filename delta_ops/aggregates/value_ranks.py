"""Values of at most 64 bits as integers that sort as they do, and back.

Law: from_ranks(to_ranks(v)) = v, bit for bit except that all NaNs are one; ranks ascend as DuckDB
sorts the values, NaN last, and −0.0 before 0.0, so that what is shown is free of the history.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.values.column import Indexes

_MASK = np.iinfo(np.int64).max
_SIGN = np.uint64(1 << 63)


def to_ranks(values: npt.NDArray[Any]) -> Indexes:
    """The ranks of values of a type that is an ordered word."""
    if values.dtype.kind == "f":
        doubles = values.astype(np.float64)
        nans = np.isnan(doubles)
        if np.count_nonzero(nans):
            doubles[nans] = np.nan
        return _flipped(doubles.view(np.int64))
    if values.dtype == np.uint64:
        return (values ^ _SIGN).view(np.int64)
    return values.astype(np.int64)


def from_ranks(ranks: Indexes, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The values of that type which have the ranks."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        doubles = _flipped(ranks).view(np.float64)
        if dtype.itemsize == 8:
            return doubles
        with np.errstate(over="ignore", invalid="ignore"):
            return doubles.astype(dtype)
    if dtype == np.uint64:
        return ranks.view(np.uint64) ^ _SIGN
    if dtype == np.int64:
        return ranks
    with np.errstate(invalid="ignore"):
        return ranks.astype(dtype)


def _flipped(bits: Indexes) -> Indexes:
    """A negative number's bits without its sign turned over; its own inverse."""
    return bits ^ ((bits >> 63) & _MASK)
