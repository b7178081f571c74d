"""Casts between fixed-width types, and to and from VARCHAR where the string form is simple.

Contract: a cast that DuckDB would refuse is undecided, so TRY_CAST is the same. Decimals are
rounded half away from zero, floats half to even.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sqlglot import exp

from ivm.sql.scalar.numbers.arithmetic import check_digits
from ivm.sql.scalar.numbers.decimal import decimal_to_double
from ivm.sql.scalar.operands import int128
from ivm.sql.scalar.operands.kernel import (
    NotListedError,
    Operand,
    UndecidedError,
    Values,
    beyond,
    is_128_bit,
    null_operand,
    refuse_if,
    round_half_away,
    unary,
)
from ivm.sql.scalar.operands.rules import ExpressionCompiler, Rules, rule
from ivm.sql.scalar.strings.string_casts import from_string
from ivm.sql.scalar.strings.string_forms import to_string
from ivm.sql.scalar.times.instants import time_of_day
from ivm.storage.values.types import WIDE, ColumnType

Convert = Callable[[Values], Values]
_DAY = 86_400_000_000
_INFINITE_DAY = 2**31 - 1
_INFINITE_TIME = 2**63 - 1
# Days whose midnight fits into int64 microseconds.
_LAST_DAY = 106_751_990
_LARGEST = 2**63 - 1


def cast(compiler: ExpressionCompiler, operand: Operand, type: ColumnType) -> Operand:
    """Casts an operand to another type.

    Raises:
        NotListedError: there is no kernel for this pair of types.
    """
    if operand.is_null:
        return null_operand(type)
    if type.sql == "VARCHAR":
        return to_string(operand)
    if operand.type.sql == "VARCHAR":
        return from_string(operand, type)
    if type.is_float or operand.type.is_float:
        compiler.inexact = True
    return unary(operand, type, _converter(operand.type, type))


def _converter(source: ColumnType, target: ColumnType) -> Convert:
    for family, find in _FAMILIES:
        if family(source):
            convert = find(source, target)
            if convert is not None:
                return convert
    raise NotListedError(f"cast of {source} to {target}")


def _from_integer(source: ColumnType, target: ColumnType) -> Convert | None:
    if source.sql == "UHUGEINT" or target.sql == "UHUGEINT":
        return None
    if target.is_integer:
        return lambda values: _to_integer(values, target)
    if target.is_decimal:
        digits = 39 if is_128_bit(source) else len(str(np.iinfo(source.dtype).max))
        return _rescaling(digits, target.scale, target)
    if target.sql == "BOOLEAN" and not is_128_bit(source):
        return lambda values: values != 0
    if target.sql == "DOUBLE" and is_128_bit(source):
        return lambda values: int128.to_double(int128.load(values))
    if target.is_float and not is_128_bit(source):
        return lambda values: values.astype(target.dtype)
    return None


def _from_decimal(source: ColumnType, target: ColumnType) -> Convert | None:
    if target.sql == "DOUBLE":
        if source.precision <= 15:  # below 2^53: value and power are exact doubles
            return lambda values: values.astype(np.float64) / float(10**source.scale)
        is_huge = is_128_bit(source)
        return lambda values: decimal_to_double(values, source.scale, is_huge)
    if target.is_decimal:
        shift = target.scale - source.scale
        if shift >= 0:
            return _rescaling(source.precision - source.scale, shift, target)
        return lambda values: check_digits(_round_off(values, -shift, target), target)
    if target.is_integer and target.sql != "UHUGEINT":
        return lambda values: _to_integer(_round_off(values, source.scale, source), target)
    return None


def _from_float(source: ColumnType, target: ColumnType) -> Convert | None:
    if target.is_integer and not is_128_bit(target):
        return lambda values: _float_to_integer(values, target)
    if target.sql == "BOOLEAN":
        return lambda values: values != 0
    if source.sql == "DOUBLE" and target.is_decimal and not is_128_bit(target):
        return lambda values: _double_to_decimal(values, target)
    if source.sql == "FLOAT" and target.sql == "DOUBLE":
        return lambda values: values.astype(np.float64)
    if source.sql == "DOUBLE" and target.sql == "FLOAT":
        return _double_to_float
    return None


def _from_boolean(source: ColumnType, target: ColumnType) -> Convert | None:
    if (target.is_integer or target.is_float) and not is_128_bit(target):
        return lambda values: values.astype(target.dtype)
    return None


def _from_time(source: ColumnType, target: ColumnType) -> Convert | None:
    if (source.sql, target.sql) == ("DATE", "TIMESTAMP"):
        return date_to_timestamp
    if (source.sql, target.sql) == ("TIMESTAMP", "DATE"):
        return timestamp_to_date
    if (source.sql, target.sql) == ("TIMESTAMP", "TIME"):
        return time_of_day
    return None


_FAMILIES: tuple[
    tuple[Callable[[ColumnType], bool], Callable[[ColumnType, ColumnType], Convert | None]],
    ...,
] = (
    (lambda type: type.is_integer, _from_integer),
    (lambda type: type.is_decimal, _from_decimal),
    (lambda type: type.is_float, _from_float),
    (lambda type: type.sql == "BOOLEAN", _from_boolean),
    (lambda type: type.sql in ("DATE", "TIMESTAMP"), _from_time),
)


def _to_integer(values: Values, target: ColumnType) -> Values:
    if is_128_bit(target):
        return values if values.dtype == WIDE else _narrow_if_it_fits(values)
    if values.dtype == WIDE and target.sql == "UBIGINT":
        refuse_if(values["hi"] != 0)
        low: Values = values["lo"]
        return low
    narrow = int128.narrow(values) if values.dtype == WIDE else values
    if narrow is None:
        raise UndecidedError
    assert target.dtype is not None
    if not np.can_cast(narrow.dtype, target.dtype):
        info = np.iinfo(target.dtype)
        refuse_if((narrow < info.min) | (narrow > info.max))
    return narrow.astype(target.dtype, copy=False)


def _narrow_if_it_fits(values: Values) -> Values:
    """Returns int64 if all values fit, which later kernels compute faster, else 128 bits."""
    narrow = int128.narrow(values)
    return int128.store(int128.load(values)) if narrow is None else narrow


def _rescaling(digits: int, shift: int, target: ColumnType) -> Convert:
    """Returns a cast that adds `shift` digits after the point; `digits` are before it at most."""
    if digits > target.precision - target.scale or is_128_bit(target):
        return lambda values: _rescale_up(values, shift, target)
    if shift == 0:
        return lambda values: values.astype(np.int64, copy=False)
    return lambda values: np.multiply(values, 10**shift, dtype=np.int64)


def _rescale_up(values: Values, shift: int, target: ColumnType) -> Values:
    """Computes values · 10^shift as decimals of `target`."""
    narrow = int128.narrow(values)
    if narrow is not None and not is_128_bit(target):
        bound = 10 ** (target.precision - shift)
        refuse_if((narrow >= bound) | (narrow <= -bound))
        scaled64: Values = narrow * 10**shift
        return scaled64
    if narrow is not None and shift <= 18:
        if not np.count_nonzero(beyond(narrow, _LARGEST // 10**shift)):
            return check_digits(narrow * 10**shift, target)
        scaled = int128.multiply_words(narrow, np.full(1, 10**shift, np.int64))
    else:
        scaled = int128.multiply(int128.load(values), int128.power_of_ten(shift))
    return _decimal_form(scaled, target)


def _decimal_form(scaled: int128.Int128, target: ColumnType) -> Values:
    stored = int128.store(scaled)
    if is_128_bit(target):
        return check_digits(stored, target)
    narrow = int128.narrow(stored)
    if narrow is None:
        raise UndecidedError
    return check_digits(narrow, target)


def _round_off(values: Values, shift: int, target: ColumnType) -> Values:
    """Computes values ÷ 10^shift, rounded half away from zero, as values of `target`."""
    if shift == 0:
        return values
    narrow = int128.narrow(values)
    if narrow is not None and shift <= 18:
        return _round_off_narrow(narrow, 10**shift)
    quotient = round_off_int128(int128.load(values), shift)
    return int128.store(quotient) if is_128_bit(target) else _need_narrow(int128.store(quotient))


def _need_narrow(values: Values) -> Values:
    narrow = int128.narrow(values)
    if narrow is None:
        raise UndecidedError
    return narrow


def _round_off_narrow(values: Values, factor: int) -> Values:
    refuse_if(beyond(values, _LARGEST))  # −2^63 has no absolute value
    size = np.abs(values)
    rounded = size // factor + (size % factor >= (factor + 1) // 2)
    return np.where(values < 0, -rounded, rounded)


def round_off_int128(values: int128.Int128, shift: int) -> int128.Int128:
    """Computes values ÷ 10^shift, rounded half away from zero."""
    quotient, rest = int128.divide_by_power_of_ten(values, shift)
    half = int128.from_int(10**shift // 2)
    up = ~int128.less(int128.magnitude(rest), half)
    step = int128.with_sign(int128.load(up.astype(np.int64)), values.hi < 0)
    return int128.wrap_add(quotient, step)


def _float_to_integer(values: Values, target: ColumnType) -> Values:
    assert target.dtype is not None
    info = np.iinfo(target.dtype)
    # NaN fails both comparisons. The double of 2^63 − 1 is 2^63, which does not fit: hence the <.
    refuse_if(~((values >= float(info.min)) & (values < float(info.max))))
    return np.rint(values).astype(target.dtype)


def _double_to_decimal(values: Values, target: ColumnType) -> Values:
    """Scales in floating point, then rounds half away from zero, as DuckDB does."""
    scaled = round_half_away(values * 10.0**target.scale)
    refuse_if(~(np.abs(scaled) < 10.0**target.precision))
    return scaled.astype(np.int64)


def _double_to_float(values: Values) -> Values:
    single = values.astype(np.float32)
    refuse_if(np.isinf(single) & ~np.isinf(values))
    return single


def date_to_timestamp(days: Values) -> Values:
    """The microseconds of each day's midnight; ±infinity remains infinite."""
    days64 = days.astype(np.int64)
    infinite = np.abs(days64) >= _INFINITE_DAY
    refuse_if((np.abs(days64) > _LAST_DAY) & ~infinite)
    times = days64 * _DAY
    return np.where(infinite, np.sign(days64) * _INFINITE_TIME, times) if infinite.any() else times


def timestamp_to_date(times: Values) -> Values:
    """The day of each timestamp; ±infinity remains infinite."""
    infinite = (times == _INFINITE_TIME) | (times == -_INFINITE_TIME)
    days = (times // _DAY).astype(np.int32)
    if not infinite.any():
        return days
    return np.where(infinite, np.sign(times) * _INFINITE_DAY, days).astype(np.int32)


def _explicit(compiler: ExpressionCompiler, node: exp.Expr) -> Operand:
    return compiler.cast(compiler.operand(node.this), compiler.type(node))


RULES: Rules = {
    exp.Cast: rule(_explicit, "this", "to"),
    exp.TryCast: rule(_explicit, "this", "to", safe=True),
    exp.Date: rule(_explicit, "this"),
}
