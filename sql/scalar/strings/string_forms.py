"""Values as strings: casts to VARCHAR, strftime, and the names of months and days.

Limit: floats, intervals, times and decimals of more than 18 digits after the point are cast by
DuckDB; dates outside the years 1 to 9999 are undecided. For timestamps and strftime the years are
1000 to 9999, which Arrow and DuckDB both print with four digits, and a format may contain only
%Y %m %d %H %M %S and plain characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ivm.sql.scalar.operands import int128
from ivm.sql.scalar.operands.kernel import (
    VARCHAR,
    NotListedError,
    Operand,
    UndecidedError,
    Values,
    beyond,
    computed,
    fixed,
    null_operand,
    refuse_if,
)
from ivm.sql.scalar.operands.rules import ExpressionCompiler, Rules, rule
from ivm.sql.scalar.times import calendar
from ivm.sql.scalar.times.calendar import MICROS_PER_DAY, by_day
from ivm.sql.scalar.times.instants import STEPS, need_date
from ivm.storage.values.calendar import Days
from ivm.storage.values.column import ArrowColumn, Column, FixedColumn, Mask
from ivm.storage.values.types import WIDE, ColumnType

_STRING = pa.large_string()
_MOST_PLACES = 18  # after the point: ten to that fits into 64 bits
_YEAR_1, _YEAR_10000 = -719162, 2932897


def to_string(operand: Operand) -> Operand:
    """Casts an operand to VARCHAR.

    Raises:
        NotListedError: DuckDB alone casts its type.
    """
    if operand.type.is_string or operand.type.base == "ENUM":
        return Operand(VARCHAR, operand.kernel, operand.constant)
    if operand.is_null:
        return null_operand(VARCHAR)
    if not _has_string_form(operand.type):
        raise NotListedError(f"cast of {operand.type} to VARCHAR")
    argument, type = fixed(operand), operand.type

    def kernel(columns: Sequence[Column], count: int) -> Column:
        return ArrowColumn(_strings(argument(columns, count), type))

    return computed(VARCHAR, kernel, operand)


def _has_string_form(type: ColumnType) -> bool:
    if type.is_decimal:
        return type.scale <= _MOST_PLACES
    if type.sql in ("UHUGEINT", "FLOAT", "DOUBLE"):
        return False
    return type.is_integer or type.sql in ("BOOLEAN", "DATE", "TIMESTAMP")


def _strings(column: FixedColumn, type: ColumnType) -> pa.Array:
    if type.sql == "BOOLEAN":
        return column.to_arrow(type).cast(pa.string()).cast(_STRING)
    if type.sql == "TIMESTAMP":
        return timestamp_strings(column, type)
    if type.sql == "DATE":
        refuse_if((column.values < _YEAR_1) | (column.values >= _YEAR_10000))
        return column.to_arrow(type).cast(_STRING)
    narrow = int128.narrow(column.values) if column.values.dtype == WIDE else column.values
    if narrow is None:
        raise UndecidedError
    if type.scale == 0:
        return _integers(FixedColumn(narrow, column.valid))
    return _decimals(narrow, column, type)


def _nulls(column: FixedColumn) -> Mask | None:
    """The rows with NULL, as Arrow wants them marked."""
    return None if column.valid is None else ~column.valid


def _integers(column: FixedColumn) -> pa.Array:
    return pa.array(column.values, mask=_nulls(column)).cast(_STRING)


def _decimals(values: Values, column: FixedColumn, type: ColumnType) -> pa.Array:
    scale = type.scale
    refuse_if(beyond(values, 2**63 - 1))
    size = np.abs(values)
    mask = _nulls(column)
    integers = pa.array(size // 10**scale, mask=mask).cast(_STRING)
    if type.precision == scale:  # DuckDB prints no zero before the point then
        integers = pa.array([""] * len(size), _STRING)
    rest = pa.array(size % 10**scale, mask=mask).cast(_STRING)
    digits = pc.utf8_lpad(rest, width=scale, padding="0")
    sign = pc.if_else(pa.array(values < 0), pa.scalar("-", _STRING), pa.scalar("", _STRING))
    unsigned = pc.binary_join_element_wise(integers, digits, pa.scalar(".", _STRING))
    return pc.binary_join_element_wise(sign, unsigned, pa.scalar("", _STRING))


_FOUR_DIGITS = (-354285 * MICROS_PER_DAY, 2932897 * MICROS_PER_DAY)  # years 1000 to 9999
_SECOND = 1_000_000
_DIRECTIVES = re.compile(r"(%[YmdHMS]|[^%])*")
_FEW = 32  # rows that are formatted sooner than told apart
_OF_DATES = {"Y", "m", "d"}
_STEPS = {"S": STEPS["second"], "M": STEPS["minute"], "H": STEPS["hour"]}
_MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August"]
_MONTHS += ["September", "October", "November", "December"]
_DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]


def _micros(values: Values, type: ColumnType) -> Values:
    """Microseconds since 1970; undecided outside the years 1000 to 9999."""
    times = values if type.sql == "TIMESTAMP" else values.astype(np.int64) * MICROS_PER_DAY
    refuse_if((times < _FOUR_DIGITS[0]) | (times >= _FOUR_DIGITS[1]))
    return times


def _formatted(times: Values, column: FixedColumn, format: str) -> pa.Array:
    """Formats each moment that the format tells apart once: Arrow needs 1 to 2 µs for one."""
    few = len(times) < _FEW
    seconds = (times if few else _told_apart(times, format)) // _SECOND
    moments = pa.array(seconds.view("M8[s]"), mask=_nulls(column))
    if few:
        return pc.strftime(moments, format=format).cast(_STRING)
    encoded = moments.dictionary_encode()
    return pc.strftime(encoded.dictionary, format=format).cast(_STRING).take(encoded.indices)


def _told_apart(times: Values, format: str) -> Values:
    """The times without what the format does not tell: parts of a minute, of a day; the day."""
    fields = set(re.findall("%(.)", format))
    if not fields & _OF_DATES:
        times = times % MICROS_PER_DAY
    step = min([step for field, step in _STEPS.items() if field in fields], default=MICROS_PER_DAY)
    told: Values = times - times % step
    return told


def timestamp_strings(column: FixedColumn, type: ColumnType) -> pa.Array:
    """Formats as YYYY-MM-DD HH:MM:SS, and the fraction without zeros at its end."""
    times = _micros(column.values, type)
    seconds = pa.array((times // _SECOND).view("M8[s]"), mask=_nulls(column)).cast(_STRING)
    micros = times % _SECOND
    if not np.count_nonzero(micros):
        return seconds
    digits = pc.utf8_lpad(pa.array(micros).cast(_STRING), width=6, padding="0")
    fraction = pc.utf8_rtrim(digits, characters="0")
    point = pc.if_else(pa.array(micros > 0), pa.scalar(".", _STRING), pa.scalar("", _STRING))
    return pc.binary_join_element_wise(seconds, point, fraction, pa.scalar("", _STRING))


def _strftime(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    operand, format = compiler.operand(node.this), compiler.operand(node.args["format"])
    if operand.type.sql == "VARCHAR":  # DuckDB takes them in either order
        operand, format = format, operand
    need_date(operand)
    if format.constant is None or format.is_null or format.type.sql != "VARCHAR":
        raise NotListedError("strftime() with a computed format")
    pattern = format.constant.array[0].as_py()  # type: ignore[union-attr]
    if not _DIRECTIVES.fullmatch(pattern) or not pattern.isascii() or "\0" in pattern:
        raise NotListedError(f"strftime() with the format {pattern!r}")
    argument, type = fixed(operand), operand.type

    def kernel(columns: Sequence[Column], count: int) -> Column:
        column = argument(columns, count)
        return ArrowColumn(_formatted(_micros(column.values, type), column, pattern))

    return computed(VARCHAR, kernel, operand)


def _name(
    number: calendar.DayFunction, names: list[str]
) -> Callable[[ExpressionCompiler, exp.Expr], Operand]:
    strings = pa.array(names, _STRING)

    def compile(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
        operand = compiler.operand(node.this)
        need_date(operand)
        argument, type, look_up = fixed(operand), operand.type, by_day(number)

        def kernel(columns: Sequence[Column], count: int) -> Column:
            column = argument(columns, count)
            days = column.values if type.sql == "DATE" else column.values // MICROS_PER_DAY
            mask = _nulls(column)
            return ArrowColumn(strings.take(pa.array(look_up(days), mask=mask)))

        return computed(VARCHAR, kernel, operand)

    return compile


def _month_number(days: Days) -> Days:
    return calendar.month(days) - 1


RULES: Rules = {
    exp.TimeToStr: rule(_strftime, "this", "format"),
    exp.Monthname: rule(_name(_month_number, _MONTHS), "this"),
    exp.Dayname: rule(_name(calendar.day_of_week, _DAYS), "this"),
}
