"""Calendar arithmetic on days and months, as numbers since 1970.

Law: DuckDB and numpy both use the proleptic Gregorian calendar with a year 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Days = npt.NDArray[np.int64]


def month_index(days: Days) -> Days:
    """Months since January 1970."""
    return days.view("M8[D]").astype("M8[M]").view(np.int64)


def first_day(months: Days) -> Days:
    """The first day of months counted from January 1970."""
    return months.view("M8[M]").astype("M8[D]").view(np.int64)


def shift_months(days: Days, count: int) -> Days:
    """The same day of the month `count` later, or that month's last day."""
    months = month_index(days)
    first = first_day(months + count)
    last = first_day(months + count + 1) - 1
    moved: Days = np.minimum(first + days - first_day(months), last)
    return moved
