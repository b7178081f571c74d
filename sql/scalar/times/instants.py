"""Instants as counts of a unit: epoch_ms and its kind, time_bucket, differences in hours and less.

Law: units of days and less are counted in microseconds since 1970, thus alike in all time zones;
time_bucket counts days and less from 2000-01-03, and months from 2000-01, as DuckDB does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sqlglot import exp

from ivm.sql.scalar.operands.kernel import (
    BIGINT,
    BOOLEAN,
    NotListedError,
    Operand,
    Values,
    beyond,
    refuse_if,
    unary,
)
from ivm.sql.scalar.operands.rules import ExpressionCompiler, FunctionRules, Rules, arguments, rule
from ivm.sql.scalar.times.calendar import DAY_LIMIT, MICROS_PER_DAY, by_day
from ivm.storage.values.calendar import first_day, month_index
from ivm.storage.values.canonical import interval_parts
from ivm.storage.values.column import FixedColumn
from ivm.storage.values.types import type_of

TIMESTAMP = type_of("TIMESTAMP")
ZONED = "TIMESTAMP WITH TIME ZONE"
TIME_LIMIT = DAY_LIMIT * MICROS_PER_DAY
STEPS = {
    "day": MICROS_PER_DAY,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_MONDAY = 10_959 * MICROS_PER_DAY  # 2000-01-03
_JANUARY = 360  # 2000-01, in months from 1970


def refuse_beyond_limit(times: Values) -> None:
    """A batch with ±infinity, or a time near the ends of the range, is undecided."""
    refuse_if(beyond(times, TIME_LIMIT))


def need_date(operand: Operand) -> None:
    """Raises NotListedError for what is no date and no timestamp without a zone."""
    if operand.type.sql not in ("DATE", "TIMESTAMP"):
        raise NotListedError(f"the calendar of {operand.type}")


def instant(compiler: ExpressionCompiler, expr: exp.Expr) -> Operand:
    """Compiles a timestamp, or a date as its midnight."""
    operand = compiler.operand(expr)
    if operand.type.sql == ZONED:
        return operand
    need_date(operand)
    return compiler.cast(operand, TIMESTAMP)


def steps(unit: str) -> Callable[[Values], Values]:
    """Returns the count of a unit's beginnings up to each time; raises NotListedError."""
    if unit not in STEPS:  # before 1970 DuckDB's weeks begin on Tuesday
        raise NotListedError(f"a difference in {unit}")
    step = STEPS[unit]

    def count(times: Values) -> Values:
        refuse_beyond_limit(times)
        return times // step

    return count


def _epoch_us(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    (argument,) = arguments(node)
    return unary(instant(compiler, argument), compiler.type(node), steps("microsecond"))


def _make_timestamptz(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    """Compiles make_timestamptz() of microseconds."""
    (argument,) = arguments(node)

    def compute(counts: Values) -> Values:
        refuse_if(beyond(counts, TIME_LIMIT))
        return counts

    return unary(compiler.cast_to(argument, BIGINT), compiler.type(node), compute)


def _epoch_ns(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    (argument,) = arguments(node)

    def compute(times: Values) -> Values:
        refuse_if(beyond(times, 2**63 // 1000 - 1))
        return times * 1000

    return unary(instant(compiler, argument), compiler.type(node), compute)


def _epoch_ms(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    """Compiles epoch_ms(), which makes milliseconds of a time, and a time of milliseconds."""
    scale = node.args.get("scale")
    if scale is None or scale.name != "3":
        raise NotListedError("to_timestamp()")
    if not compiler.type(node.this).is_integer:
        return unary(instant(compiler, node.this), compiler.type(node), _milliseconds)
    output = compiler.type(node)
    if output.sql != "TIMESTAMP":
        raise NotListedError(f"epoch_ms() to {output}")

    def compute(counts: Values) -> Values:
        refuse_if(beyond(counts, TIME_LIMIT // 1000))
        return counts * 1000

    return unary(compiler.cast_to(node.this, BIGINT), output, compute)


def _milliseconds(times: Values) -> Values:
    """Rounds half away from zero."""
    refuse_beyond_limit(times)
    rounded: Values = np.sign(times) * ((np.abs(times) + 500) // 1000)
    return rounded


def _time_bucket(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    months, micros = _width(compiler.operand(node.this))
    operand, output = instant(compiler, node.expression), compiler.type(node)
    if micros and operand.type.sql == output.sql:
        return unary(operand, output, lambda times: _bucket(times, micros))
    if months and operand.type.sql == output.sql == "TIMESTAMP":
        return unary(operand, output, lambda times: _bucket_of_months(times, months))
    raise NotListedError(f"time_bucket() to {output}")


def _width(operand: Operand) -> tuple[int, int]:
    """The months of an interval, or the microseconds of one without months; one of them is 0."""
    column = operand.constant
    if not isinstance(column, FixedColumn) or column.valid is not None:
        raise NotListedError("time_bucket() of a computed width")
    parts = months, days, nanos = [int(part[0]) for part in interval_parts(column.values)]
    if min(parts) < 0 or parts.count(0) != 2:  # DuckDB takes one of the three
        raise NotListedError("time_bucket() of such a width")
    return months, days * MICROS_PER_DAY + nanos // 1000


def _bucket(times: Values, width: int) -> Values:
    refuse_beyond_limit(times)
    begin: Values = times - (times - _MONDAY) % width
    return begin


def _bucket_of_months(times: Values, width: int) -> Values:
    refuse_beyond_limit(times)
    months = by_day(month_index)(times // MICROS_PER_DAY)
    begin: Values = months - (months - _JANUARY) % width
    return first_day(begin) * MICROS_PER_DAY


def is_finite(operand: Operand) -> Operand:
    """Compiles isfinite() of a date or timestamp."""
    assert operand.type.dtype is not None
    infinity = np.iinfo(operand.type.dtype).max
    return unary(operand, BOOLEAN, lambda times: (times != infinity) & (times != -infinity))


def time_of_day(times: Values) -> Values:
    """The microseconds since midnight."""
    refuse_beyond_limit(times)
    return times % MICROS_PER_DAY


RULES: Rules = {
    exp.DateBin: rule(_time_bucket, "this", "expression"),
    exp.UnixToTime: rule(_epoch_ms, "this", "scale"),
}
FUNCTIONS: FunctionRules = {
    "epoch_us": _epoch_us,
    "epoch_ns": _epoch_ns,
    "make_timestamptz": _make_timestamptz,
}
