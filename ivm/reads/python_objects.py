"""Values of columns as the Python objects that DuckDB makes of them.

Contract: a list has the very values and types that DuckDB's `fetchall` has (the tests compare the
two), or None is returned, and DuckDB makes them: for dates outside of Python's years, infinite
ones, and times of 24 hours.
"""

from __future__ import annotations

import datetime
import decimal
import functools
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ivm.storage.values.canonical import interval_parts
from ivm.storage.values.column import ArrowColumn, Column, DictionaryColumn, FixedColumn
from ivm.storage.values.dictionary import words
from ivm.storage.values.types import INTEGER_NAMES, ColumnType

Values = list[Any]
Converter = Callable[[FixedColumn, ColumnType], Values | None]

_PLAIN = frozenset(
    [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.string(), pa.large_string()),
    ]
)
_NAMED = re.compile(r"JSON|ENUM|TUPLE|VARIANT|BIT|UNION")
"""Types that look like others in Arrow."""
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_FIRST_DAY, _LAST_DAY = (d.toordinal() - 719_163 for d in (datetime.date.min, datetime.date.max))
_DAY = 86_400_000_000  # microseconds


def has_python_values(type: ColumnType) -> bool:
    """Returns whether values of the type, or most of them, are converted here."""
    return _converter(type) is not None


@functools.cache
def _converter(type: ColumnType) -> Converter | None:
    if type.is_enum or _is_plain_nested(type):
        return _as_they_are
    return _decimals if type.is_decimal else _CONVERTERS.get(type.sql)


def _is_plain_nested(type: ColumnType) -> bool:
    """Returns whether values are lists and structs of numbers and strings."""
    nested = pa.types.is_list(type.arrow) or pa.types.is_struct(type.arrow)
    return nested and not _NAMED.search(type.sql) and _is_plain(type.arrow)


def _is_plain(arrow: pa.DataType) -> bool:
    if pa.types.is_list(arrow):
        return _is_plain(arrow.value_type)
    if pa.types.is_struct(arrow):
        return all(_is_plain(field.type) for field in arrow)
    return arrow in _PLAIN


def python_rows(columns: Sequence[Column], types: Sequence[ColumnType]) -> Values | None:
    """The rows as tuples; None if DuckDB must make them."""
    lists = []
    for column, type in zip(columns, types, strict=True):
        values = _values(column, type)
        if values is None:
            return None
        lists.append(values)
    return list(zip(*lists, strict=True))


def _values(column: Column, type: ColumnType) -> Values | None:
    if isinstance(column, DictionaryColumn):
        return words(column.codes)
    if isinstance(column, ArrowColumn):
        return column.array.to_pylist()  # type: ignore[no-any-return]
    convert = _converter(type)
    assert convert is not None
    values, valid = convert(column, type), column.valid
    if values is None or valid is None:
        return values
    return [v if ok else None for v, ok in zip(values, valid.tolist(), strict=True)]


def _as_they_are(column: FixedColumn, type: ColumnType) -> Values:
    return column.values.tolist()  # type: ignore[no-any-return]


def _wide(column: FixedColumn, type: ColumnType) -> Values:
    signed = type.sql != "UHUGEINT"
    high = column.values["hi"] if signed else column.values["hi"].view(np.uint64)
    return [(h << 64) | n for h, n in zip(high.tolist(), column.values["lo"].tolist(), strict=True)]


def _decimals(column: FixedColumn, type: ColumnType) -> Values:
    integers = column.values.tolist() if type.is_word else _wide(column, type)
    if not type.scale:
        return [decimal.Decimal(value) for value in integers]
    unit, product = decimal.Decimal((0, (1,), -type.scale)), _EXACT.multiply
    return [product(value, unit) for value in integers]


def _dates(column: FixedColumn, type: ColumnType) -> Values | None:
    values = column.values
    if len(values) and not (values.min() >= _FIRST_DAY and values.max() <= _LAST_DAY):
        return None
    return values.astype("M8[D]").tolist()  # type: ignore[no-any-return]


_UNITS = {"TIMESTAMP": 1, "TIMESTAMP_S": 1_000_000, "TIMESTAMP_MS": 1000}


def _timestamps(column: FixedColumn, type: ColumnType) -> Values | None:
    values, unit = column.values, _UNITS[type.sql]
    first, last = _FIRST_DAY * (_DAY // unit), (_LAST_DAY + 1) * (_DAY // unit)
    if len(values) and not (values.min() >= first and values.max() < last):
        return None
    return (values * unit).view("M8[us]").tolist()  # type: ignore[no-any-return]


def _times(column: FixedColumn, type: ColumnType) -> Values | None:
    values = column.values
    if len(values) and values.max() >= _DAY:
        return None
    moments = (values.view("M8[us]")).tolist()
    return [moment.time() for moment in moments]


def _uuids(column: FixedColumn, type: ColumnType) -> Values:
    data = column.values.tobytes()
    return [uuid.UUID(bytes=data[i : i + 16]) for i in range(0, len(data), 16)]


def _intervals(column: FixedColumn, type: ColumnType) -> Values | None:
    months, days, nanos = interval_parts(column.values)
    if (nanos % 1000).any() or (abs(months) > 10_000).any() or (abs(days) > 1_000_000).any():
        return None
    parts = zip((months * 30 + days).tolist(), (nanos // 1000).tolist(), strict=True)
    return [datetime.timedelta(days=day, microseconds=micros) for day, micros in parts]


_CONVERTERS: dict[str, Converter] = {
    **dict.fromkeys(INTEGER_NAMES, _as_they_are),
    **dict.fromkeys(("BOOLEAN", "FLOAT", "DOUBLE"), _as_they_are),
    **dict.fromkeys(("VARCHAR", "JSON", "BLOB"), _as_they_are),  # of Arrow's: see `_values`
    **dict.fromkeys(("HUGEINT", "UHUGEINT"), _wide),
    **dict.fromkeys(_UNITS, _timestamps),
    "DATE": _dates,
    "TIME": _times,
    "UUID": _uuids,
    "INTERVAL": _intervals,
}
