"""Dates and timestamps: parts, truncation, differences, shifts by days and intervals.

In DuckDB a part of ±infinity is NULL, and a shifted or truncated infinity remains infinite: batches
with such values, or with results near the ends of the ranges, are undecided. Types with a time zone
are not on the list, but for shifts of TIMESTAMPTZ by hours and less: they are alike in all zones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sqlglot import exp

from ivm.sql.scalar.operands.kernel import (
    NotListedError,
    Operand,
    Values,
    beyond,
    binary,
    refuse_if,
    unary,
)
from ivm.sql.scalar.operands.rules import ExpressionCompiler, FunctionRules, Rules, arguments, rule
from ivm.sql.scalar.times import calendar
from ivm.sql.scalar.times.calendar import (
    DAY_LIMIT,
    MICROS_PER_DAY,
    DayFunction,
    by_day,
    within_limit,
)
from ivm.sql.scalar.times.instants import (
    STEPS,
    TIME_LIMIT,
    TIMESTAMP,
    ZONED,
    need_date,
    refuse_beyond_limit,
    steps,
)
from ivm.storage.values.calendar import month_index
from ivm.storage.values.canonical import interval_parts
from ivm.storage.values.column import FixedColumn
from ivm.storage.values.types import WIDE, ColumnType

_PARTS: dict[str, DayFunction] = {
    "year": calendar.year,
    "month": calendar.month,
    "day": calendar.day,
    "quarter": calendar.quarter,
    "dow": calendar.day_of_week,
    "dayofweek": calendar.day_of_week,
    "isodow": calendar.iso_day_of_week,
    "doy": calendar.day_of_year,
    "dayofyear": calendar.day_of_year,
    "week": calendar.iso_week,
    "isoyear": calendar.iso_year,
}
# Parts of the time of day: microseconds of the unit, and of its period. DuckDB's milliseconds and
# microseconds contain the seconds, thus their period is the minute.
_CLOCK: dict[str, tuple[int, int]] = {
    "hour": (3_600_000_000, MICROS_PER_DAY),
    "minute": (60_000_000, 3_600_000_000),
    "second": (1_000_000, 60_000_000),
    "millisecond": (1_000, 60_000_000),
    "microsecond": (1, 60_000_000),
}
_STARTS: dict[str, DayFunction] = {
    "week": calendar.start_of_week,
    "month": calendar.start_of_month,
    "quarter": calendar.start_of_quarter,
    "year": calendar.start_of_year,
}


def _days(values: Values, type: ColumnType) -> Values:
    return values if type.sql == "DATE" else values // MICROS_PER_DAY


def part(unit: str, operand: Operand, output: ColumnType) -> Operand:
    """Compiles a part of a date or timestamp, by its lower-case name."""
    need_date(operand)
    type = operand.type
    if unit in _PARTS:
        look_up = by_day(_PARTS[unit])
        return unary(operand, output, lambda values: look_up(_days(values, type)))
    if unit == "epoch":
        return unary(operand, output, lambda values: _epoch(values, type))
    if unit not in _CLOCK:
        raise NotListedError(f"date part {unit}")
    step, period = _CLOCK[unit]
    if type.sql == "DATE":
        return unary(operand, output, _midnight)
    return unary(operand, output, lambda values: _clock(values, step, period))


def _midnight(days: Values) -> Values:
    return np.zeros(len(within_limit(days)), np.int64)


def _clock(times: Values, step: int, period: int) -> Values:
    refuse_beyond_limit(times)
    return times % period // step


def _epoch(values: Values, type: ColumnType) -> Values:
    if type.sql == "DATE":
        return within_limit(values) * 86400.0
    refuse_beyond_limit(values)
    return values / 1e6


def _extract(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    operand = compiler.operand(node.expression)
    return part(node.this.name.lower(), operand, compiler.type(node))


def _named(unit: str) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        return part(unit, compiler.operand(node.this), compiler.type(node))

    return compile


def _date_part(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    unit, argument = node.expressions
    if not (isinstance(unit, exp.Literal) and unit.is_string):
        raise NotListedError("date_part() of a computed unit")
    return part(unit.name.lower(), compiler.operand(argument), compiler.type(node))


def _truncate(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    operand, unit = compiler.operand(node.this), node.args["unit"].name.lower()
    need_date(operand)
    output, type = compiler.type(node), operand.type
    if output.sql != "TIMESTAMP":
        raise NotListedError(f"date_trunc() to {output}")
    if unit in _STARTS:
        start = by_day(_STARTS[unit])
        return unary(operand, output, lambda values: start(_days(values, type)) * MICROS_PER_DAY)
    if unit not in STEPS:
        raise NotListedError(f"date_trunc() to {unit}")
    step = STEPS[unit]
    return unary(compiler.cast(operand, TIMESTAMP), output, lambda times: _floor(times, step))


def _floor(times: Values, step: int) -> Values:
    refuse_beyond_limit(times)
    return times // step * step


def _last_day(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    operand = compiler.operand(node.this)
    need_date(operand)
    last, type = by_day(calendar.last_day_of_month), operand.type
    return unary(
        operand, compiler.type(node), lambda values: last(_days(values, type)).astype(np.int32)
    )


def _difference(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    """Compiles date_diff(), which counts the boundaries of the unit between its arguments."""
    unit = node.args["unit"].name.lower()
    start, end = compiler.operand(node.expression), compiler.operand(node.this)
    need_date(start)
    need_date(end)
    if start.type.sql != end.type.sql:
        start, end = compiler.cast(start, TIMESTAMP), compiler.cast(end, TIMESTAMP)
    count = _boundaries(unit, start.type)
    return binary(start, end, compiler.type(node), lambda a, b: count(b) - count(a))


def _boundaries(unit: str, type: ColumnType) -> Callable[[Values], Values]:
    if unit in ("month", "year", "quarter"):
        months, size = by_day(month_index), {"month": 1, "quarter": 3, "year": 12}[unit]
        return lambda values: months(_days(values, type)) // size
    if unit == "day":
        return lambda values: within_limit(_days(values, type))
    count = steps(unit)
    return count if type.sql != "DATE" else lambda days: count(within_limit(days) * MICROS_PER_DAY)


def is_shift(left: ColumnType, right: ColumnType) -> bool:
    """Returns whether the operands are for `shift`: one is a date or a timestamp."""
    times = ("DATE", "TIMESTAMP", ZONED)
    return left.sql in times or right.sql in times


def shift(
    compiler: ExpressionCompiler, left: Operand, right: Operand, sign: str, output: ColumnType
) -> Operand:
    """Adds or subtracts days, intervals, dates and timestamps."""
    kinds = (left.type.sql, sign, right.type.sql)
    if kinds == ("DATE", "-", "DATE"):
        return binary(left, right, output, lambda a, b: within_limit(a) - within_limit(b))
    if kinds == ("TIMESTAMP", "-", "TIMESTAMP"):
        return binary(left, right, output, _elapsed)
    if sign == "+" and left.type.sql not in ("DATE", "TIMESTAMP", ZONED):
        left, right = right, left
    if left.type.sql == ZONED and _is_below_days(right):
        factor = 1 if sign == "+" else -1
        return binary(left, right, output, lambda a, b: _add_interval(a, b, factor))
    if left.type.sql == "DATE" and right.type.is_integer and right.type.dtype != WIDE:
        return binary(left, right, output, _add_days if sign == "+" else _subtract_days)
    if left.type.sql in ("DATE", "TIMESTAMP") and right.type.sql == "INTERVAL":
        times = compiler.cast(left, TIMESTAMP)
        factor = 1 if sign == "+" else -1
        return binary(times, right, output, lambda a, b: _add_interval(a, b, factor))
    raise NotListedError(f"{left.type} {sign} {right.type}")


def _is_below_days(operand: Operand) -> bool:
    """Returns whether an operand is an interval that no time zone gives another length."""
    constant = operand.constant
    if operand.type.sql != "INTERVAL" or not isinstance(constant, FixedColumn):
        return False
    return constant.valid is None and not constant.values["lo"].any()


def _add_days(days: Values, count: Values) -> Values:
    total = within_limit(days) + within_limit(count)
    refuse_if(np.abs(total) > DAY_LIMIT)
    return total.astype(np.int32)


def _subtract_days(days: Values, count: Values) -> Values:
    return _add_days(days, -within_limit(count))


def _elapsed(end: Values, start: Values) -> Values:
    """The interval between timestamps: full days and a rest, both truncated towards zero."""
    refuse_if(beyond(end, TIME_LIMIT // 4) | beyond(start, TIME_LIMIT // 4))
    delta = end - start
    size = np.abs(delta)
    signs = np.sign(delta)
    return _interval(signs * (size // MICROS_PER_DAY), signs * (size % MICROS_PER_DAY))


def _interval(days: Values, micros: Values) -> Values:
    # Arrow's form of an interval: months and days, 32 bits each, then nanoseconds in 64.
    values = np.empty(len(days), WIDE)
    values["lo"] = (days << 32).view(np.uint64)
    values["hi"] = micros * 1000
    return values


def _add_interval(times: Values, intervals: Values, factor: int) -> Values:
    refuse_beyond_limit(times)
    months, days, nanos = interval_parts(intervals)
    months, rest = months * factor, nanos // 1000
    refuse_if((np.abs(months) > 1_000_000) | (np.abs(days) > DAY_LIMIT // 4))
    moved = times
    if months.any():
        full_days = times // MICROS_PER_DAY
        moved = times + (calendar.add_months(full_days, months) - full_days) * MICROS_PER_DAY
    refuse_beyond_limit(moved)
    moved = moved + days * factor * MICROS_PER_DAY
    refuse_if(np.abs(moved) > TIME_LIMIT // 2)
    result: Values = moved + rest * factor
    return result


def _add_interval_node(sign: str) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        left, right = [compiler.operand(argument) for argument in arguments(node)]
        return shift(compiler, left, right, sign, compiler.type(node))

    return compile


_NAMED: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.Year, "year"),
    (exp.Month, "month"),
    (exp.Day, "day"),
    (exp.DayOfMonth, "day"),
    (exp.Quarter, "quarter"),
    (exp.Week, "week"),
    (exp.WeekOfYear, "week"),
    (exp.DayOfWeek, "dow"),
    (exp.DayOfWeekIso, "isodow"),
    (exp.DayOfYear, "doy"),
    (exp.Hour, "hour"),
    (exp.Minute, "minute"),
    (exp.Second, "second"),
    (exp.TimeToUnix, "epoch"),
)

RULES: Rules = {
    **{kind: rule(_named(unit), "this") for kind, unit in _NAMED},
    exp.Extract: rule(_extract, "this", "expression"),
    exp.TimestampTrunc: rule(_truncate, "this", "unit"),
    exp.DateTrunc: rule(_truncate, "this", "unit"),
    exp.LastDay: rule(_last_day, "this"),
    exp.DateDiff: rule(_difference, "this", "expression", "unit", date_part_boundary=True),
    exp.DateAdd: rule(_add_interval_node("+"), "this", "expression"),
    exp.DateSub: rule(_add_interval_node("-"), "this", "expression"),
}
FUNCTIONS: FunctionRules = {
    "date_part": _date_part,
    "datepart": _date_part,
    "date_add": _add_interval_node("+"),
}
