"""Converts values of one Python type to a column of a table's type, by a rule for each.

Law: a rule gives None for values that it is not sure to convert bit for bit like DuckDB's cast.

Any list could go through `pa.array` and `arrow_values`, and what no rule covers does; but for one
value that takes three to eight times as long.
"""

from __future__ import annotations

import builtins
import itertools
import operator
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivm.sql.scalar.compile import cast_column
from ivm.sql.scalar.strings.string_casts import are_of, plain_form
from ivm.storage.values.column import (
    ArrowColumn,
    Column,
    FixedColumn,
    Mask,
    column_from_arrow,
    null_column,
)
from ivm.storage.values.types import WIDE, ColumnType, type_of

Rule: TypeAlias = Callable[[Sequence[Any], ColumnType], Column | None]

_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)
_BIGINT, _BOOLEAN, _DATE, _DOUBLE = map(type_of, ("BIGINT", "BOOLEAN", "DATE", "DOUBLE"))


class Values(NamedTuple):
    """The values of one column that are not NULL.

    Attributes:
        kind: the key of their rule, which is their Python type; `NoneType` if there are no values,
            `object` if they are of several types.
        values: the values in the order of their rows.
        valid: which rows have a value; None if all have.
    """

    kind: object
    values: Sequence[Any]
    valid: Mask | None

    def by_rule(self, rules: dict[object, Rule], type: ColumnType, count: int) -> Column | None:
        """The column of `count` rows, None if no rule covers the values."""
        if self.kind is NoneType:
            return null_column(type, count)
        rule = rules.get(self.kind)
        dense = None if rule is None else rule(self.values, type)
        return None if dense is None else self.spread(dense)

    def spread(self, dense: Column) -> Column:
        """A column of the values at their rows, NULL elsewhere."""
        if self.valid is None:
            return dense
        if isinstance(dense, FixedColumn):
            values = np.zeros(len(self.valid), dense.values.dtype)
            values[self.valid] = dense.values
            return FixedColumn(values, self.valid)
        return ArrowColumn(self.spread_array(dense.array))

    def spread_array(self, dense: pa.Array) -> pa.Array:
        """An array of the values at their rows, NULL elsewhere."""
        if self.valid is None:
            return dense
        # The number of values before a row is the index of its own; the mask hides the others.
        return dense.take(pa.array(np.cumsum(self.valid) - 1, mask=~self.valid))


def python_values(values: Sequence[Any]) -> Values:
    """Python values without the None among them."""
    kinds = set(map(type, values))
    valid = None
    if NoneType in kinds:
        kinds.discard(NoneType)
        present = map(operator.is_not, values, itertools.repeat(None))
        valid = np.fromiter(present, np.bool_, len(values))
        values = list(itertools.compress(values, valid))
    if not kinds:
        return Values(NoneType, (), None)
    return Values(object if len(kinds) > 1 else kinds.pop(), values, valid)


def python_column(values: Sequence[Any], type: ColumnType) -> Column | None:
    """Python values as a column, None if no rule covers them."""
    kinds = set(map(builtins.type, values))
    if len(kinds) == 1:  # the usual case, without the steps that NULLs need
        rule = RULES.get(*kinds)
        if rule is not None:
            return rule(values, type)
    return python_values(values).by_rule(RULES, type, len(values))


def booleans(values: Sequence[bool], type: ColumnType) -> Column | None:
    return _from(_BOOLEAN, np.array(values, np.bool_), type)


def integers(values: Sequence[int], type: ColumnType) -> Column | None:
    try:
        if type.is_word and type.is_integer:  # numpy itself refuses a number out of range
            return FixedColumn(np.array(values, type.dtype))
        return _from(_BIGINT, np.array(values, np.int64), type)
    except OverflowError:
        return None


def floats(values: Sequence[float] | npt.NDArray[np.float64], type: ColumnType) -> Column | None:
    return _from(_DOUBLE, np.asarray(values, np.float64), type)


def _from(source: ColumnType, values: npt.NDArray[Any], type: ColumnType) -> Column | None:
    """Casts values of a source type by a kernel."""
    column = FixedColumn(values)
    return column if type.sql == source.sql else cast_column(column, source, type)


def _decimals(values: Sequence[Decimal], type: ColumnType) -> Column | None:
    if not type.is_decimal:
        return None
    try:
        return column_from_arrow(pa.array(values, type.arrow), type)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None  # digits beyond the scale are to be rounded, or it does not fit


_UNITS = {"DATE": "datetime64[D]", "TIMESTAMP": "datetime64[us]"}
_UUIDS = re.compile("(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12},)*+")


def strings(values: Sequence[str], type: ColumnType) -> Column | None:
    if type.sql == "VARCHAR":
        try:
            return ArrowColumn(pa.array(values, pa.large_string()))
        except (UnicodeEncodeError, pa.ArrowInvalid):
            return None  # a lone surrogate
    if type.sql == "UUID":
        text = joined(values)
        if not are_of(_UUIDS, text + ",", len(values)):
            return None
        digits = text.replace("-", "").replace(",", "")
        return FixedColumn(np.frombuffer(bytes.fromhex(digits), WIDE))
    unit, form = _UNITS.get(type.sql), plain_form(type)
    if unit is None or form is None or not are_of(form, joined(values) + ",", len(values)):
        return None
    try:
        return FixedColumn(np.array(values, unit).astype(type.dtype))
    except ValueError:
        return None  # a 13th month


def joined(strings: Sequence[str]) -> str:
    """All strings in one, to look for a character in all of them at once."""
    return ",".join(strings)


def _bytes(values: Sequence[bytes], type: ColumnType) -> Column | None:
    return ArrowColumn(pa.array(values, pa.large_binary())) if type.sql == "BLOB" else None


def _uuids(values: Sequence[UUID], type: ColumnType) -> Column | None:
    if type.sql != "UUID":
        return None
    return FixedColumn(np.frombuffer(b"".join([value.bytes for value in values]), WIDE))


def _dates(values: Sequence[date], type: ColumnType) -> Column | None:
    first = _EPOCH.toordinal()
    days = [value.toordinal() - first for value in values]
    return _from(_DATE, np.array(days, np.int32), type)


def _datetimes(values: Sequence[datetime], type: ColumnType) -> Column | None:
    if type.sql != "TIMESTAMP" or any(map(operator.attrgetter("tzinfo"), values)):
        return None
    times = [(value - _EPOCH) // _MICROSECOND for value in values]
    return FixedColumn(np.array(times, np.int64))


RULES: dict[object, Rule] = {
    bool: booleans,
    int: integers,
    float: floats,
    Decimal: _decimals,
    str: strings,
    bytes: _bytes,
    date: _dates,
    datetime: _datetimes,
    UUID: _uuids,
}
