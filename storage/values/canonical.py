"""Canonical values: one form for all values that SQL's grouping holds equal.

Law: a = b in GROUP BY ⇔ canonical(a) and canonical(b) have equal bits. Only floats (−0.0 = 0.0,
all NaNs equal) and intervals ('1 month' = '30 days' = '720 hours') have several forms of one
value; TIME WITH TIME ZONE has not ('12:00+01' ≠ '11:00+00' in DuckDB), and a map with another
order of entries is another map.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.values.types import WIDE, ColumnType

_NANOS_PER_DAY = 86_400_000_000_000
_DAYS_PER_MONTH = 30


def canonical_values(values: npt.NDArray[Any], type: ColumnType) -> npt.NDArray[Any]:
    """Values of a fixed-width type in canonical form (the array itself if no other exists)."""
    if values.dtype.kind == "f":
        return canonical_floats(values)
    if type.is_interval:
        return canonical_intervals(values)
    return values


def canonical_floats(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Floats with −0.0 as 0.0 and one NaN."""
    values = values + values.dtype.type(0)
    nan = values != values
    if nan.any():
        values[nan] = np.nan
    return values


def canonical_intervals(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Intervals (Arrow's month, day, nanosecond) as the length DuckDB compares them by.

    Returns:
        WIDE[n]: hi = days, a month being 30 of them, lo = nanoseconds of the last day, 0 … 1 day;
        hi, then lo sorts as DuckDB sorts.
    """
    months, days, nanos = interval_parts(values)
    carry = nanos // _NANOS_PER_DAY
    result = np.empty(len(values), WIDE)
    result["hi"] = months * _DAYS_PER_MONTH + days + carry
    result["lo"] = nanos - carry * _NANOS_PER_DAY
    return result


def interval_parts(values: npt.NDArray[Any]) -> tuple[Any, Any, Any]:
    """The months, days and nanoseconds (int64[n] each) of WIDE intervals."""
    low = values["lo"].view(np.int64)
    return (low << 32) >> 32, low >> 32, values["hi"]
