"""Calendar parts of days, from a table for the years 1900 to 2099, else by numpy's calendar.

Days and months are counted from 1970. A batch with ±infinity, which has no calendar day, is
undecided.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ivm.sql.scalar.operands.kernel import Values, beyond, refuse_if
from ivm.storage.values.calendar import Days, first_day, month_index

DayFunction = Callable[[Days], Days]

MICROS_PER_DAY = 86_400_000_000
_FIRST = -25567  # 1900-01-01, the first day in the tables
_LAST = 47482  # 2100-01-01, the first day after them
_FIRST_MONTH, _LAST_MONTH = -70 * 12, 130 * 12
DAY_LIMIT = 100_000_000
"""Days from 1970 up to which kernels compute; the last timestamps are a little further away."""


def year(days: Days) -> Days:
    return month_index(days) // 12 + 1970


def month(days: Days) -> Days:
    return month_index(days) % 12 + 1


def day(days: Days) -> Days:
    return days - first_day(month_index(days)) + 1


def quarter(days: Days) -> Days:
    return month_index(days) % 12 // 3 + 1


def day_of_week(days: Days) -> Days:
    """Counts from Sunday, which is 0."""
    return (days + 4) % 7  # 1970-01-01 was a Thursday


def iso_day_of_week(days: Days) -> Days:
    """Counts from Monday, which is 1."""
    return (days + 3) % 7 + 1


def day_of_year(days: Days) -> Days:
    return days - start_of_year(days) + 1


def start_of_week(days: Days) -> Days:
    """The Monday on or before each day."""
    return days - (days + 3) % 7


def start_of_month(days: Days) -> Days:
    return first_day(month_index(days))


def start_of_quarter(days: Days) -> Days:
    return first_day(month_index(days) // 3 * 3)


def start_of_year(days: Days) -> Days:
    return first_day(month_index(days) // 12 * 12)


def last_day_of_month(days: Days) -> Days:
    return first_day(month_index(days) + 1) - 1


def iso_year(days: Days) -> Days:
    """The year of the Thursday of each day's week, as ISO 8601 has it."""
    return year(start_of_week(days) + 3)


def iso_week(days: Days) -> Days:
    thursday = start_of_week(days) + 3
    return (thursday - start_of_year(thursday)) // 7 + 1


@functools.cache
def _table(function: DayFunction) -> Days:
    return function(np.arange(_FIRST, _LAST, dtype=np.int64))


def within_limit(days: Values) -> Days:
    """Returns the days as int64; a batch with a day beyond `DAY_LIMIT` is undecided."""
    days64: Days = days.astype(np.int64)
    refuse_if(beyond(days64, DAY_LIMIT))
    return days64


def by_day(function: DayFunction) -> Callable[[Values], Days]:
    """Returns `function` for any finite days: a table look-up where the table has them all."""
    table = _table(function)

    def look_up(days: Values) -> Days:
        tabled = (days >= _FIRST) & (days < _LAST)
        if np.count_nonzero(tabled) == len(days):
            found: Days = table[days - _FIRST]
            return found
        return function(within_limit(days))

    return look_up


@functools.cache
def _first_days() -> Days:
    return first_day(np.arange(_FIRST_MONTH, _LAST_MONTH, dtype=np.int64))


def _first_day(months: Days) -> Days:
    """Returns `first_day(months)`, from a table where it has them all."""
    tabled = (months >= _FIRST_MONTH) & (months < _LAST_MONTH)
    if np.count_nonzero(tabled) < len(months):
        return first_day(months)
    found: Days = _first_days()[months - _FIRST_MONTH]
    return found


def add_months(days: Values, months: Values) -> Days:
    """The same day of the month `months` later, or the last day of a month that is shorter."""
    start = by_day(month_index)(days) + months
    first = _first_day(start)
    length = _first_day(start + 1) - first
    moved: Days = first + np.minimum(by_day(day)(days), length) - 1
    return moved
