"""Splits a list of Python values into parts that can be converted together.

Arrow infers one type for all values of a list: of a `date` and a `datetime` it makes dates, of
times with a zone times without, of 2.50 and 1 the decimals 2.50 and 1.00, of dicts structs with the
keys of all of them. DuckDB casts each parameter by itself, and a dict of two lists, `key` and
`value`, is a MAP to it.

Law: DuckDB's cast of a part's Arrow form gives what its cast of each parameter does.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence, Sized
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any, TypeGuard

import pyarrow as pa

from ivm.storage.values.types import MOST_DIGITS, ColumnType

_NESTED = (dict, list, tuple)
_NO_DIGITS = ("BOOLEAN", "DOUBLE", "FLOAT", "BLOB")  # hold no integers as such
_INTERVAL = pa.month_day_nano_interval()
_SHOWN = ("VARCHAR", "JSON", "VARIANT", "MAP")
"""Types, and those inside of others, whose values show the form of what was cast."""
_OF_TIME = (date, time, timedelta)
_TIMES = ("date", "time", "duration")  # in the names of Arrow's types
_MISSING = {"NAType": "<NA>", "NaTType": "NaT", "datetime64": "NaT", "timedelta64": "NaT"}
"""How the types whose values may stand for NULL write those that do."""
_BOUND = ("UUID", "TIME WITH TIME ZONE", "UNION(")  # inside other types, Arrow has no form of them


def parts_of(values: Sequence[Any], type: ColumnType) -> list[list[int]]:
    """The indexes of the values, in parts of one form each."""
    kinds = set(map(builtins.type, values))
    kinds.discard(NoneType)
    shown = _shows(type)
    if len(kinds) > 1 or any(_varies(kind, shown) for kind in kinds):
        parts: dict[object, list[int]] = {}
        for i, value in enumerate(values):
            parts.setdefault(_form(value, shown), []).append(i)
        if len(parts.keys() - {NoneType}) > 1:
            return list(parts.values())
    return [list(range(len(values)))]


def without_missing(values: list[Any]) -> list[Any]:
    """The values with None for what stands for NULL in pandas and NumPy, as DuckDB takes it."""
    if not any(kind.__name__ in _MISSING for kind in set(map(builtins.type, values))):
        return values
    return [None if is_missing(value) else value for value in values]


def is_missing(value: object) -> bool:
    """Returns whether a value stands for NULL in pandas or NumPy."""
    written = _MISSING.get(type(value).__name__)
    return written is not None and str(value) == written


def _shows(type: ColumnType) -> bool:
    return any(word in type.sql for word in _SHOWN)


def _varies(kind: builtins.type, shown: bool) -> bool:
    """Whether values of one Python type may differ in form."""
    return issubclass(kind, (datetime, time)) or (shown and issubclass(kind, (Decimal, *_NESTED)))


def _form(value: object, shown: bool) -> object:
    kind = type(value)
    if isinstance(value, (datetime, time)):
        return kind, value.tzinfo is None
    if not shown:
        return kind
    if isinstance(value, Decimal):
        return kind, value.as_tuple().exponent, _lacks_zero(value)
    if isinstance(value, dict):
        return kind, tuple(value), tuple([_form(one, shown) for one in value.values()])
    if isinstance(value, _NESTED):
        return kind, frozenset([_form(one, shown) for one in value if one is not None])
    return kind


def _lacks_zero(value: Decimal) -> bool:
    """Returns whether DuckDB writes a value such as .25, whose digits all are behind the point."""
    _, digits, exponent = value.as_tuple()
    return isinstance(exponent, int) and len(digits) == -exponent


def arrow_form(
    values: Sequence[Any], type: ColumnType, *, as_strings: bool = True
) -> pa.Array | pa.ChunkedArray | None:
    """One part of a list (see `parts_of`) in the Arrow type that is its own.

    Args:
        values: Python values and None.
        type: of the column.
        as_strings: values that Arrow does not take may become their strings.

    Returns:
        An array; None if DuckDB must cast the values as parameters.
    """
    first = next((value for value in values if value is not None), None)
    if _is_bound(type) or (isinstance(first, time) and first.tzinfo is not None):
        return None
    if type.base == "BIT" and isinstance(first, int):
        return None  # an integer has as many bits as the type that DuckDB gives the parameter
    # Arrow's own choice for a timedelta, a duration, has no days.
    given = _INTERVAL if isinstance(first, timedelta) else None
    array = inferred(values, given, as_strings=as_strings and _has_text(first, type))
    if array is None or pa.types.is_decimal256(array.type):
        return None
    if _shows(type) and "decimal" in str(array.type):
        return _as_shown(array, first)
    if not pa.types.is_nested(array.type):
        return array
    if _shows(type) and "STRUCT(" not in type.sql and any(map(_has_map, values)):
        return None
    has_times = any(word in str(array.type) for word in _TIMES)
    return None if has_times and _changes_times(values) else array


def _has_text(value: object, type: ColumnType) -> bool:
    """Whether a value's string may stand for it: not those of arrays, and of objects without one.

    The strings of Decimals and nested values in Python are not DuckDB's, and those of integers are
    cast otherwise to what has no digits of them: too large ones become infinite, and none is true.
    In a VARIANT a string stays one.
    """
    if type.base == "VARIANT":
        return False
    kind = builtins.type(value)
    if isinstance(value, int):
        return type.base not in _NO_DIGITS
    has_own = kind.__str__ is not object.__str__
    return has_own and not isinstance(value, Decimal) and not hasattr(value, "__iter__")


def _as_shown(
    array: pa.Array | pa.ChunkedArray, first: object
) -> pa.Array | pa.ChunkedArray | None:
    """Decimals with a digit before the point where DuckDB's parameters have one; None of nested."""
    if not isinstance(first, Decimal):
        return None
    if _lacks_zero(first) or array.type.precision > array.type.scale:
        return array
    scale = array.type.scale
    return array.cast(pa.decimal128(scale + 1, scale)) if scale < MOST_DIGITS else None


def _changes_times(values: Sequence[Any]) -> bool:
    """Whether Arrow makes other times of those inside of nested values.

    It gives them all the type and the zone, or none, of the first one, and makes such of numbers
    beside them; it has no times of day with a zone, and knows no days of a timedelta.
    """
    if any(map(_has_numbers_beside_times, values)):
        return True
    forms = {(type(one), getattr(one, "tzinfo", None) is None) for one in _times(values)}
    return len(forms) > 1 or any(
        issubclass(kind, timedelta) or (kind is time and not plain) for kind, plain in forms
    )


def _has_map(value: object) -> bool:
    """Whether a value, or one inside of it, is what DuckDB takes for a MAP."""
    if isinstance(value, dict):
        lists = [value.get("key"), value.get("value")] if len(value) == 2 else []
        sizes = {len(each) for each in lists if _is_sized(each)}
        return (len(sizes) == 1 and all(map(_is_sized, lists))) or any(
            map(_has_map, value.values())
        )
    return isinstance(value, _NESTED) and any(map(_has_map, value))


def _is_sized(value: object) -> TypeGuard[Sized]:
    return isinstance(value, Sized) and not isinstance(value, (str, bytes, dict))


def _has_numbers_beside_times(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_numbers_beside_times, value.values()))
    if not isinstance(value, _NESTED):
        return False
    kinds = {isinstance(one, _OF_TIME) for one in value if one is not None}
    return len(kinds) > 1 or any(map(_has_numbers_beside_times, value))


def _times(value: object) -> Iterator[date | time | timedelta]:
    """The times inside of a value."""
    if isinstance(value, _OF_TIME):
        yield value
    elif isinstance(value, _NESTED):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _times(inner)


def _is_bound(type: ColumnType) -> bool:
    return type.dtype is None and any(word in type.sql for word in _BOUND)


def inferred(
    values: Any, type: pa.DataType | None = None, *, as_strings: bool = True
) -> pa.Array | pa.ChunkedArray | None:
    """Values of any sequence as Arrow reads them, or as strings; None if it cannot."""
    try:
        return pa.array(values, type)
    except UnicodeError:
        raise
    except pa.ArrowNotImplementedError:
        return None
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # of several types, or too large
        return _strings(values) if as_strings else None
    except (TypeError, ValueError):  # an infinite Decimal, a datetime64 of days
        return None


def _strings(values: Sequence[Any]) -> pa.Array | pa.ChunkedArray | None:
    try:
        return pa.array([None if v is None else str(v) for v in values], pa.large_string())
    except UnicodeError:
        raise
    except ValueError:  # an int of more digits than Python prints
        return None
