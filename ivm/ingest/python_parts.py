"""Which Python values of a list are alike enough to be converted together.

Arrow infers one type for all values of a list: of a `date` and a `datetime` it makes dates, of
times with a zone times without, of 2.50 and 1 the decimals 2.50 and 1.00, of dicts structs with the
keys of all of them. DuckDB looks at each parameter alone.

Law: DuckDB's cast of a part's Arrow form gives what its cast of each parameter does.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any

import pyarrow as pa

from ivm.storage.values.types import ColumnType

_NESTED = (dict, list, tuple)
_INTERVAL = pa.month_day_nano_interval()
_SHOWN = ("VARCHAR", "JSON", "VARIANT", "MAP")  # types whose values show the form of what was cast
_BOUND = ("UUID", "TIME WITH TIME ZONE", "UNION(")  # inside other types, Arrow has no form of them


def parts_of(values: Sequence[Any], type: ColumnType) -> list[list[int]]:
    """The numbers of the values, in parts of one form each."""
    kinds = set(map(builtins.type, values))
    kinds.discard(NoneType)
    shown = type.base in _SHOWN
    if len(kinds) > 1 or any(_varies(kind, shown) for kind in kinds):
        forms = [_form(value, shown) for value in values]
        distinct = dict.fromkeys(forms)
        if len(distinct.keys() - {NoneType}) > 1:
            return [[i for i, form in enumerate(forms) if form == one] for one in distinct]
    return [list(range(len(values)))]


def _varies(kind: builtins.type, shown: bool) -> bool:
    """Whether values of one Python type may differ in form."""
    return issubclass(kind, (datetime, time)) or (shown and issubclass(kind, (Decimal, *_NESTED)))


def _form(value: object, shown: bool) -> object:
    kind = type(value)
    if isinstance(value, (datetime, time)):
        return kind, value.tzinfo is None
    if shown and isinstance(value, Decimal):
        return kind, value.as_tuple().exponent
    return (kind, _keys(value)) if shown else kind


def _keys(value: object) -> object:
    """The keys of the dicts in a value."""
    if isinstance(value, dict):
        return tuple([(key, _keys(inner)) for key, inner in value.items()])
    return frozenset(map(_keys, value)) if isinstance(value, (list, tuple)) else None


def arrow_form(
    values: Any, type: ColumnType | None, *, as_strings: bool = True
) -> pa.Array | pa.ChunkedArray | None:
    """The values in the Arrow type that is their own.

    Args:
        values: one part of a list (see `parts_of`), or an array or Series.
        type: of the column; None if the values are no list.
        as_strings: values that Arrow does not take may become their strings.

    Returns:
        An array; None if DuckDB is to cast the values as parameters.
    """
    kind = _kind(values) if type is not None else None
    shown = type is not None and type.base in _SHOWN
    if (type is not None and _is_bound(type)) or (kind is time and _has_zone(values)):
        return None
    try:
        array = pa.array(values, _INTERVAL if kind is timedelta else None)
    except UnicodeError:
        raise
    except pa.ArrowNotImplementedError:
        return None
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):  # of several types, or too large
        exact = kind is Decimal or (shown and kind in _NESTED)
        return _strings(values) if as_strings and not exact else None
    except (TypeError, ValueError):  # an infinite Decimal, a datetime64 of days
        return None
    return None if pa.types.is_decimal256(array.type) else array


def _kind(values: Sequence[Any]) -> builtins.type | None:
    return next((builtins.type(value) for value in values if value is not None), None)


def _has_zone(values: Sequence[Any]) -> bool:
    return any(value.tzinfo is not None for value in values if value is not None)


def _is_bound(type: ColumnType) -> bool:
    return type.dtype is None and any(word in type.sql for word in _BOUND)


def _strings(values: Sequence[Any]) -> pa.Array | pa.ChunkedArray | None:
    try:
        return pa.array([None if v is None else str(v) for v in values], pa.large_string())
    except UnicodeError:
        raise
    except ValueError:  # an int of more digits than Python prints
        return None
