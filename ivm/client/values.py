"""What a program gives as it travels: parameters in JSON, rows in Arrow.

Law: it means there what it means to an open database. What has no form in JSON is a text, which SQL
casts; what has no such text either is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from ivm.ingest.rows import Rows, to_arrow
from ivm.ingest.values.python_parts import is_missing
from ivm.storage.errors import InputError

_TEXTS = (Decimal, date, time, UUID)
_NOT_ARROW = (pa.ArrowException, OverflowError, TypeError, ValueError)


def plain(params: Sequence[Any] | Mapping[str, Any]) -> Any:
    """Parameters as JSON has them.

    Raises:
        InputError: one of them cannot travel.
    """
    if isinstance(params, Mapping):
        return {str(name): _value(value) for name, value in params.items()}
    return [_value(value) for value in params]


def _value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | np.ndarray):
        return [_value(each) for each in value]
    if isinstance(value, dict):
        return {str(name): _value(each) for name, each in value.items()}
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64 | np.timedelta64):
        return _value(value.item())
    return _text(value)


def _text(value: Any) -> str | None:
    if is_missing(value):
        return None
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value)
    if isinstance(value, timedelta):
        of_day = datetime.min + timedelta(seconds=value.seconds, microseconds=value.microseconds)
        return f"{value.days} {'day' if abs(value.days) == 1 else 'days'} {of_day.time()}"
    if isinstance(value, _TEXTS):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        raise InputError("bytes are no parameters over HTTP: insert() takes them, in Arrow")
    raise InputError(
        f"{value!r} is no value over HTTP: give numbers, texts, dates, times or UUIDs, or lists or "
        "dicts of these"
    )


def table_of(rows: Rows) -> pa.Table:
    """Rows as they travel.

    Raises:
        InputError: they are none, or one of their values cannot travel.
    """
    given = to_arrow(rows)
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, pa.Table):
        return given
    try:
        return pa.table({name: _array(values) for name, values in given.items()})
    except _NOT_ARROW as error:
        raise InputError(f"the rows cannot be sent: {error}") from error


def _array(values: Any) -> pa.Array | pa.ChunkedArray:
    """The values of a column, as texts where Arrow has no type for them.

    It has none for integers of 128 bits, and for intervals one without days.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        found = pa.array(values)
        if not (isinstance(values, list) and pa.types.is_duration(found.type)):
            return found
    except _NOT_ARROW:
        pass
    return pa.array(list(_texts(values)), pa.string())


def _texts(values: Iterable[Any]) -> Iterable[str | None]:
    for value in map(_value, values):
        if isinstance(value, list | dict):
            raise InputError(f"{value!r} cannot be sent beside values of other types")
        yield value if value is None or isinstance(value, str) else str(value)
