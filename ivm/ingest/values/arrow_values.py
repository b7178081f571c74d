"""Casts Arrow arrays to a column's type, by one table of conversions from type to type.

Law: the result is that of DuckDB's cast, or None where that is not sure; then DuckDB casts, and
words the error if there is one. So the usual values (a float for a DECIMAL, a string for a DATE, a
time with a zone) cost no DuckDB statement.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivm.sql.scalar.compile import cast_column
from ivm.sql.scalar.operands.kernel import masked
from ivm.storage.values.column import Column, FixedColumn, column_from_arrow
from ivm.storage.values.types import ColumnType, type_of

Array: TypeAlias = pa.Array | pa.ChunkedArray
Convert: TypeAlias = Callable[[Array, ColumnType], Column | None]

_STRINGS = (pa.string(), pa.large_string())
_BYTES = (pa.binary(), pa.large_binary())
_NAMES = str.split(
    "TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT FLOAT DOUBLE DATE"
)
_NUMBERS = {type_of(name).arrow: type_of(name) for name in _NAMES} | {
    pa.bool_(): type_of("BOOLEAN")
}
_DAY = "[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_HEX = "[0-9a-fA-F]"


def is_own(given: pa.DataType, type: ColumnType) -> bool:
    """Whether values of an Arrow type are the column's own."""
    if type.is_enum or type.sql == "JSON":
        return False  # not every string is a value: `column_of` or DuckDB's cast decides
    if type.sql == "VARCHAR":
        return given in _STRINGS
    if type.sql == "BLOB":
        return given in _BYTES
    return given == type.arrow or (type.sql == "BOOLEAN" and given == pa.bool_())


def column_of(array: Array, type: ColumnType) -> Column | None:
    """The values as a column of the type, None if DuckDB must cast them."""
    given = array.type
    if is_own(given, type) or pa.types.is_null(given):
        return column_from_arrow(array, type)
    if given in _STRINGS:
        rule = _FROM_STRING.get(type.base)
        return None if rule is None else rule(array, type)
    if pa.types.is_timestamp(given):
        return _from_time(array, type)
    source = _number(given)
    return None if source is None else cast_column(column_from_arrow(array, source), source, type)


def _number(given: pa.DataType) -> ColumnType | None:
    if pa.types.is_decimal128(given) and 0 <= given.scale <= given.precision:
        return type_of(f"DECIMAL({given.precision},{given.scale})")
    return _NUMBERS.get(given)


def _cast(array: Array, type: ColumnType) -> Column | None:
    """Casts by Arrow, which refuses to round; None where it refuses."""
    try:
        return column_from_arrow(pc.cast(array, type.arrow), type)
    except pa.ArrowInvalid:
        return None


def _from_time(array: Array, type: ColumnType) -> Column | None:
    """Casts times that keep or lack a zone; None where the session's zone would count."""
    wanted = type.arrow
    same = pa.types.is_timestamp(wanted) and (array.type.tz is None) == (wanted.tz is None)
    return _cast(array, type) if same else None


def _matches(array: Array, pattern: str) -> bool:
    found = pc.all(pc.match_substring_regex(array, f"^{pattern}$"), min_count=0)
    return bool(found.as_py())


def _to_date(array: Array, type: ColumnType) -> Column | None:
    return _cast(array, type) if _matches(array, _DAY) else None


def _to_timestamp(array: Array, type: ColumnType) -> Column | None:
    return _cast(array, type) if _matches(array, f"{_DAY}[ T]{_TIME}") else None


def _to_enum(array: Array, type: ColumnType) -> Column | None:
    known = pc.is_in(array, pa.array(type.labels, array.type), skip_nulls=False)
    fits = pc.all(pc.or_(known, pc.is_null(array)), min_count=0).as_py()
    return column_from_arrow(array, type) if fits else None


def _to_uuid(array: Array, type: ColumnType) -> Column | None:
    if not _matches(array, f"{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"):
        return None
    valid = np.asarray(pc.is_valid(array))
    # All digits in one string: one call decodes them, and each 16 bytes are a value.
    digits = "".join(pc.replace_substring(pc.drop_null(array), "-", "").to_pylist())
    words = np.zeros((len(array), 16), np.uint8)
    words[valid] = np.frombuffer(bytes.fromhex(digits), np.uint8).reshape(-1, 16)
    values = pa.Array.from_buffers(pa.binary(16), len(array), [None, pa.py_buffer(words)])
    column = column_from_arrow(pa.ExtensionArray.from_storage(type.arrow, values), type)
    assert isinstance(column, FixedColumn)
    return masked(column.values, None if valid.all() else valid)


_FROM_STRING: dict[str, Convert] = {
    "DATE": _to_date,
    "TIMESTAMP": _to_timestamp,
    "ENUM": _to_enum,
    "UUID": _to_uuid,
}
