"""The times of rows, by the column that a watermark follows.

Law: a time is a count of microseconds since 1970; that of a date is its midnight, and dates beyond
what a TIMESTAMP can have are at its ends. The infinite ones are the greatest and the least count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ivm.storage.values.column import Column, FixedColumn, Mask
from ivm.storage.values.zset import ZSet

TIMED = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "DATE")
"""The types of columns that a watermark can follow."""
Times: TypeAlias = npt.NDArray[np.int64]
"""Times in microseconds since 1970."""
NONE: Times = np.zeros(0, np.int64)

DAY = 86_400_000_000
"""The microseconds of a day."""
INFINITY = 2**63 - 1
"""The infinite time; its negative is the other one."""
_BEGIN = datetime(1970, 1, 1)
_DAYS = np.iinfo(np.int32).max  # the same among dates
_MOST_DAYS = INFINITY // DAY


def within(time: int) -> int:
    """A time, or that of the last day of a TIMESTAMP, or the first."""
    return min(max(time, -_MOST_DAYS * DAY), _MOST_DAYS * DAY) if abs(time) > INFINITY else time


def seconds(time: int) -> float:
    """A time in seconds since 1970."""
    return time / 1e6 if abs(time) < INFINITY else math.copysign(math.inf, time)


def spelled(time: int) -> str:
    """A time as a text, as DuckDB writes it."""
    if abs(time) >= INFINITY:
        return "infinity" if time > 0 else "-infinity"
    try:
        text = str(_BEGIN + timedelta(microseconds=time))
    except OverflowError:  # before year 1, or after 9999
        return f"{time} µs after 1970"
    return text.rstrip("0") if "." in text else text


def micros(column: Column) -> Times:
    """The times of a column; those under NULL are 0."""
    assert isinstance(column, FixedColumn)
    values = column.values
    if values.dtype.itemsize == 8:
        return values
    times: Times = values.clip(-_MOST_DAYS, _MOST_DAYS) * np.int64(DAY)
    times[values == _DAYS], times[values == -_DAYS] = INFINITY, -INFINITY
    return times


def finite(column: Column) -> Mask:
    """Which rows have a time that is not infinite."""
    times = micros(column)
    kept: Mask = (times != INFINITY) & (times != -INFINITY)
    return kept if column.valid is None else kept & column.valid


def finite_times(column: Column) -> Times:
    """The times of the rows that have a finite one."""
    times = micros(column)
    if column.valid is not None:
        times = times[column.valid]
    if len(times) and (times.max() == INFINITY or times.min() == -INFINITY):
        times = times[(times != INFINITY) & (times != -INFINITY)]
    return times


def before(column: Column, at: int) -> Mask:
    """Which rows have a time before another."""
    mask: Mask = micros(column) < at
    return mask if column.valid is None else mask & column.valid


def time_column(rows: ZSet, at: int, columns: Sequence[int] | None) -> Column | None:
    """The time column of rows; None if they lack it, or there are none.

    Args:
        rows: of a table.
        at: the column's position in the table.
        columns: the positions of the rows' columns; None for all.
    """
    if not len(rows) or (columns is not None and at not in columns):
        return None
    return rows.columns[at if columns is None else columns.index(at)]


def greatest(added: Sequence[Times], gone: Sequence[Times]) -> int | None:
    """The greatest of the times that are added and stay; None if there is none."""
    times, others = np.concatenate([NONE, *added]), np.concatenate([NONE, *gone])
    if len(others):
        found, each = np.unique(np.concatenate([times, others]), return_inverse=True)
        counts = np.bincount(each[: len(times)], minlength=len(found))
        times = found[counts > np.bincount(each[len(times) :], minlength=len(found))]
    return int(times.max()) if len(times) else None
