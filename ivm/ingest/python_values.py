"""Rules that turn values of one kind into a column of a table's type, as DuckDB's cast would.

Law: a rule gives None for whatever it is not sure to convert bit for bit like DuckDB.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ivm.sql.scalar.compile import cast_column
from ivm.storage.values.column import ArrowColumn, Column, FixedColumn, column_from_arrow
from ivm.storage.values.types import ColumnType, type_of

Rule = Callable[[Sequence[Any], ColumnType], Column | None]


def _strings(values: Sequence[Any], type: ColumnType) -> Column | None:
    try:
        return ArrowColumn(pa.array(values, pa.large_string()))
    except (UnicodeEncodeError, pa.ArrowInvalid):
        return None  # a lone surrogate


def _bytes(values: Sequence[Any], type: ColumnType) -> Column | None:
    return ArrowColumn(pa.array(values, pa.large_binary()))


def _plain(values: Sequence[Any], type: ColumnType) -> Column | None:
    """Python booleans, or integers for an integer type of at most 64 bits."""
    try:
        return FixedColumn(np.array(values, type.dtype))
    except OverflowError:
        return None


def joined(cells: Sequence[str]) -> str:
    """All cells in one text, to look for a character in all of them at once."""
    return ",".join(cells)


def _number_to_integer(cells: Sequence[str], type: ColumnType) -> Column | None:
    text = joined(cells)
    if "." in text or "e" in text or "E" in text or max(map(len, cells)) > _LONGEST_INTEGER:
        return None
    return _plain(list(map(int, cells)), type)


_LONGEST_INTEGER = 20
_EXACT_CELL = 16  # characters: up to 15 digits and a point, or 16 digits: one rounding, as DuckDB's


def _number_to_float(cells: Sequence[str], type: ColumnType) -> Column | None:
    text = joined(cells).upper()
    exponents = text.count("E")
    if exponents < len(cells) and (exponents or max(map(len, cells)) > _EXACT_CELL):
        return None
    values = np.array(list(map(float, cells)), np.float64)
    if not exponents:
        values = values + 0.0  # -0.0 is the DECIMAL 0 there
    return _floats(values, type)


def _floats(values: Sequence[float] | np.ndarray[Any, Any], type: ColumnType) -> Column | None:
    exact = np.asarray(values, np.float64)
    if type.sql == "DOUBLE":
        return FixedColumn(exact)
    with np.errstate(over="ignore"):
        single = exact.astype(np.float32)
    return FixedColumn(single) if (np.isinf(single) == np.isinf(exact)).all() else None


def _literal_floats(cells: Sequence[str], type: ColumnType) -> Column | None:
    column = _number_to_float(cells, type)
    if isinstance(column, FixedColumn) and np.isinf(column.values).any():
        return None  # 1e999
    return column


def _number_to_decimal(cells: Sequence[str], type: ColumnType) -> Column | None:
    if "E" in joined(cells).upper():
        return None
    try:
        return column_from_arrow(pa.array(cells, pa.string()).cast(type.arrow), type)
    except pa.ArrowInvalid:
        return None  # digits beyond the scale are to be rounded, or it does not fit


_DATES = re.compile(r"(?:(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2},)*")
_TIMES = re.compile(
    r"(?:(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)?,)*"
)


def _texts_to_dates(values: Sequence[str], type: ColumnType) -> Column | None:
    return _times(values, type, _DATES, "datetime64[D]")


def _texts_to_timestamps(values: Sequence[str], type: ColumnType) -> Column | None:
    return _times(values, type, _TIMES, "datetime64[us]")


def _times(
    values: Sequence[str], type: ColumnType, pattern: re.Pattern[str], unit: str
) -> Column | None:
    if pattern.fullmatch(joined(values) + ",") is None:
        return None
    try:
        return FixedColumn(np.array(values, unit).astype(type.dtype))
    except ValueError:
        return None  # a 13th month


def _dates(values: Sequence[date], type: ColumnType) -> Column | None:
    return FixedColumn(np.array(values, "datetime64[D]").astype(np.int32))


def _datetimes(values: Sequence[datetime], type: ColumnType) -> Column | None:
    if any(map(operator.attrgetter("tzinfo"), values)):
        return None
    return FixedColumn(np.array(values, "datetime64[us]").astype(np.int64))


def _integers(values: Sequence[int]) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return None


def _from_integers(values: Sequence[int], type: ColumnType) -> Column | None:
    integers = _integers(values)
    return None if integers is None else cast_column(FixedColumn(integers), type_of("BIGINT"), type)


def _from_floats(values: Sequence[float], type: ColumnType) -> Column | None:
    return cast_column(FixedColumn(np.array(values, np.float64)), type_of("DOUBLE"), type)


def _decimals(values: Sequence[Decimal], type: ColumnType) -> Column | None:
    try:
        return column_from_arrow(pa.array(values, type.arrow), type)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
RULES: dict[tuple[str, str], Rule] = {
    ("text", "VARCHAR"): _strings,
    ("text", "DATE"): _texts_to_dates,
    ("DATE", "DATE"): _texts_to_dates,
    ("text", "TIMESTAMP"): _texts_to_timestamps,
    ("TIMESTAMP", "TIMESTAMP"): _texts_to_timestamps,
    ("boolean", "BOOLEAN"): _plain,
    ("number", "DOUBLE"): _literal_floats,
    ("number", "FLOAT"): _literal_floats,
    ("number", "DECIMAL"): _number_to_decimal,
    ("python str", "VARCHAR"): _strings,
    ("python bytes", "BLOB"): _bytes,
    ("python bool", "BOOLEAN"): _plain,
    ("python float", "DOUBLE"): _floats,
    ("python float", "FLOAT"): _floats,
    ("python int", "DOUBLE"): _from_integers,
    ("python int", "FLOAT"): _from_integers,
    ("python int", "DECIMAL"): _from_integers,
    ("python float", "DECIMAL"): _from_floats,
    ("python Decimal", "DECIMAL"): _decimals,
    ("python date", "DATE"): _dates,
    ("python datetime", "TIMESTAMP"): _datetimes,
    ("python str", "DATE"): _texts_to_dates,
    ("python str", "TIMESTAMP"): _texts_to_timestamps,
}
for _name in _INTEGERS:
    for _sql in (_name, "U" + _name):
        RULES["number", _sql] = _number_to_integer
        RULES["python int", _sql] = _plain
