"""Days to calendar parts, by table for the years 1900 to 2099 and by numpy's calendar elsewhere.

Law: ±infinity has no calendar day: a batch that holds one is undecided.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ivm.sql.scalar.kernel import Values, beyond, refuse_if
from ivm.storage.values.calendar import Days, first_day, month_index

DayFunction = Callable[[Days], Days]

MICROS_PER_DAY = 86_400_000_000
_FIRST = -25567  # 1900-01-01
_LAST = 47482  # 2100-01-01
_FIRST_MONTH, _LAST_MONTH = -70 * 12, 130 * 12
FAR = 100_000_000  # days; the last timestamps are a little further away


def year(days: Days) -> Days:
    return month_index(days) // 12 + 1970


def month(days: Days) -> Days:
    return month_index(days) % 12 + 1


def day(days: Days) -> Days:
    return days - first_day(month_index(days)) + 1


def quarter(days: Days) -> Days:
    return month_index(days) % 12 // 3 + 1


def day_of_week(days: Days) -> Days:
    """Sunday is 0."""
    return (days + 4) % 7


def iso_day_of_week(days: Days) -> Days:
    """Monday is 1."""
    return (days + 3) % 7 + 1


def day_of_year(days: Days) -> Days:
    return days - start_of_year(days) + 1


def start_of_week(days: Days) -> Days:
    """The Monday on or before."""
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
    """The year of the week's Thursday."""
    return year(start_of_week(days) + 3)


def iso_week(days: Days) -> Days:
    thursday = start_of_week(days) + 3
    return (thursday - start_of_year(thursday)) // 7 + 1


@functools.cache
def _table(function: DayFunction) -> Days:
    return function(np.arange(_FIRST, _LAST, dtype=np.int64))


def not_far(days: Values) -> Days:
    """The days as int64; a batch with ±infinity or a day near the ends is undecided."""
    long: Days = days.astype(np.int64)
    refuse_if(beyond(long, FAR))
    return long


def by_day(function: DayFunction) -> Callable[[Values], Days]:
    """`function` over any finite days, through a table where they are near."""
    table = _table(function)

    def look_up(days: Values) -> Days:
        near = (days >= _FIRST) & (days < _LAST)
        if np.count_nonzero(near) == len(days):
            found: Days = table[days - _FIRST]
            return found
        return function(not_far(days))

    return look_up


@functools.cache
def _first_days() -> Days:
    return first_day(np.arange(_FIRST_MONTH, _LAST_MONTH, dtype=np.int64))


def _first_day(months: Days) -> Days:
    """As `first_day`, through a table where the months are near."""
    near = (months >= _FIRST_MONTH) & (months < _LAST_MONTH)
    if np.count_nonzero(near) < len(months):
        return first_day(months)
    found: Days = _first_days()[months - _FIRST_MONTH]
    return found


def add_months(days: Values, months: Values) -> Days:
    """The same day of the month `months` later, or that month's last day."""
    start = by_day(month_index)(days) + months
    first = _first_day(start)
    length = _first_day(start + 1) - first
    moved: Days = first + np.minimum(by_day(day)(days), length) - 1
    return moved
