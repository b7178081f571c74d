"""NumPy's durations as intervals, split as DuckDB splits those of a pandas frame.

Law: months of 30 days, then days, then microseconds, each towards zero; what is shorter is cut off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_DAY = 86_400_000_000
_MONTH = 30 * _DAY
_FORM = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])  # Arrow's


def is_of_durations(dtype: Any) -> bool:
    """Returns whether a type of NumPy or pandas is NumPy's of durations."""
    return isinstance(dtype, np.dtype) and dtype.kind == "m"


def intervals(durations: npt.NDArray[np.timedelta64]) -> pa.Array:
    """The durations as Arrow's intervals, NULL for NaT."""
    missing = np.isnat(durations)
    size = np.abs(np.where(missing, np.timedelta64(0, "us"), durations))
    micros = size.astype("timedelta64[us]").astype(np.int64)
    signs = np.where(durations < np.timedelta64(0, "us"), -1, 1)
    parts = np.empty(len(durations), _FORM)
    parts["months"] = signs * (micros // _MONTH)
    parts["days"] = signs * (micros % _MONTH // _DAY)
    parts["nanos"] = signs * (micros % _DAY * 1000)
    valid = pa.py_buffer(np.packbits(~missing, bitorder="little").tobytes())
    return pa.Array.from_buffers(
        pa.month_day_nano_interval(), len(parts), [valid, pa.py_buffer(parts.tobytes())]
    )
