"""Columns of Arrow as rows of PostgreSQL's protocol, in text and binary, without a loop over rows.

Law: a batch of n rows becomes n DataRow messages that follow each other in one buffer. Each column
becomes its values' bytes and lengths, and one join puts them together row by row. What is not an
integer or a text as it stands is written as text by DuckDB, in one statement a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ivm.serve.batch_sql import BATCH, computed
from ivm.serve.pg.values import types
from ivm.serve.pg.values.text_sql import text_sql
from ivm.serve.pg.values.types import element_of, is_json, pg_type
from ivm.serve.pg.values.values import numeric
from ivm.storage.errors import EvaluationError

_DAYS = 10_957  # from 1970 to 2000
_MICROS = _DAYS * 86_400_000_000
_BYTES = pa.large_binary()
_AS_THEY_STAND = frozenset(
    (
        *("TINYINT", "UTINYINT", "SMALLINT", "USMALLINT", "INTEGER", "UINTEGER", "BIGINT"),
        *("UBIGINT", "VARCHAR", "OID"),
    )
)
_INTEGERS = {types.INT2: ">i2", types.INT4: ">i4", types.INT8: ">i8", types.OID: ">u4"}
_FLOATS = {types.FLOAT4: ">f4", types.FLOAT8: ">f8"}
_PACKED_DIGITS = 18  # of a DECIMAL in 64 bits


class Wanted(NamedTuple):
    """A column as the client wants it.

    Attributes:
        type: DuckDB's.
        binary: its format.
    """

    type: str
    binary: bool


def data_rows(table: pa.Table, wanted: Sequence[Wanted], zone: str, tag: bytes = b"D") -> pa.Array:
    """Rows as DataRow messages, a binary value each.

    Args:
        table: the rows, in DuckDB's lossless types.
        wanted: its columns.
        zone: the session's time zone.
        tag: of the messages; COPY's rows have the same form in the format binary.
    """
    columns = _bytes(table, wanted, zone)
    count, size = len(table), np.full(len(table), 6, np.int64)
    parts: list[pa.Array] = []
    for column in columns:
        lengths, column = _lengths(column)
        size += 4 + np.maximum(lengths, 0)
        parts += [_fixed(lengths.astype(">i4")), column]
    head = np.empty(count, np.dtype([("tag", "S1"), ("size", ">i4"), ("columns", ">i2")]))
    head["tag"], head["size"], head["columns"] = tag, size, len(columns)
    return pc.binary_join_element_wise(_fixed(head), *parts, pa.scalar(b"", _BYTES))


def framed(tag: bytes, bodies: pa.Array) -> pa.Array:
    """A message of each body."""
    head = np.empty(len(bodies), np.dtype([("tag", "S1"), ("size", ">i4")]))
    head["tag"], head["size"] = tag, np.asarray(pc.binary_length(bodies)) + 4
    return pc.binary_join_element_wise(_fixed(head), bodies, pa.scalar(b"", _BYTES))


def one_buffer(messages: pa.Array) -> bytes:
    """The messages of an array, which follow each other in its buffer."""
    _, offsets, data = messages.buffers()
    ends = memoryview(offsets).cast("q")
    return bytes(memoryview(data)[ends[messages.offset] : ends[messages.offset + len(messages)]])


def value_bytes(table: pa.Table, wanted: Sequence[Wanted], zone: str) -> list[pa.Array]:
    """The columns as binary arrays of their values' bytes, with their NULLs."""
    return _bytes(table, wanted, zone)


def _bytes(table: pa.Table, wanted: Sequence[Wanted], zone: str) -> list[pa.Array]:
    columns = [_whole(column) for column in table.columns]
    told = [i for i, column in enumerate(wanted) if _needs_text(column)]
    if told:
        texts = _texts(table.select(told), [wanted[i].type for i in told], zone)
        for i, text in zip(told, texts, strict=True):
            columns[i] = _from_text(text, wanted[i])
    for i in set(range(len(wanted))) - set(told):
        columns[i] = _plain(columns[i], wanted[i])
    return columns


def _needs_text(column: Wanted) -> bool:
    """Returns whether DuckDB writes a column's values as text first."""
    if not column.binary:
        return column.type not in _AS_THEY_STAND
    type = column.type
    if is_json(type):
        return True
    oid = pg_type(type).oid
    if oid in types.ELEMENTS:
        return False
    packed = type.startswith("DECIMAL(") and _digits(type)[0] <= _PACKED_DIGITS
    if oid == types.NUMERIC:
        return not packed
    return oid in (types.TIMETZ, types.VARBIT) or (
        oid == types.TEXT and not type.startswith(("VARCHAR", "ENUM("))
    )


def _texts(table: pa.Table, types: Sequence[str], zone: str) -> list[pa.Array]:
    """Columns as DuckDB writes them in PostgreSQL's form."""
    names = [f"c{i}" for i in range(len(types))]
    sql = ", ".join(
        [f"{text_sql(type, name)} AS {name}" for name, type in zip(names, types, strict=True)]
    )
    found = computed(f"SELECT {sql} FROM {BATCH}", table, zone)
    return [_whole(column).cast(_BYTES) for column in found.columns]


def _from_text(text: pa.Array, column: Wanted) -> pa.Array:
    """What a text is in the column's format."""
    oid = pg_type(column.type).oid
    if not column.binary or oid in (types.TEXT, types.JSON):
        return text
    write = {types.NUMERIC: _numeric, types.TIMETZ: _timetz, types.VARBIT: _varbit}[oid]
    values = [None if value is None else write(value.decode()) for value in text.to_pylist()]
    return pa.array(values, _BYTES)


def _plain(array: pa.Array, column: Wanted) -> pa.Array:
    if not column.binary:
        return array.cast(pa.string()).cast(_BYTES)
    return _binary(array, column.type)


def _binary(array: pa.Array, type: str) -> pa.Array:
    """The binary values of an array, none of which needs a text."""
    oid = pg_type(type).oid
    if oid in types.ELEMENTS:
        return _arrays(array, str(element_of(type)), types.ELEMENTS[oid])
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    nulls = np.asarray(array.is_null())
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), _BYTES)
    if oid in (types.TEXT, types.JSON, types.BYTEA, types.UUID):
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        return array.cast(_BYTES)
    return _masked(_fixed(_numbers(array, oid, type)), nulls)


def _numbers(array: pa.Array, oid: int, type: str) -> npt.NDArray[Any]:
    """Values of a fixed size, in the bytes of the protocol; anything where they are NULL."""
    if oid == types.NUMERIC:
        return _decimals(array, *_digits(type))
    if oid == types.INTERVAL:
        return _intervals(array)
    if oid == types.BOOL:
        return _filled(array, pa.int8()).astype("u1")
    if oid in _INTEGERS:
        return _filled(array, pa.int64()).astype(_INTEGERS[oid])
    if oid in _FLOATS:
        return _filled(array, array.type).astype(_FLOATS[oid])
    if oid == types.DATE:
        return _shifted(_filled(array.view(pa.int32()), pa.int32()), _DAYS, ">i4")
    if oid == types.TIME:
        micros = array.cast(pa.time64("us"), safe=False).view(pa.int64())
        return _filled(micros, pa.int64()).astype(">i8")
    return _shifted(_micros(array), _MICROS, ">i8")


def _micros(array: pa.Array) -> npt.NDArray[np.int64]:
    """The microseconds of timestamps; infinities stay what they are in any unit."""
    values = _filled(array.view(pa.int64()), pa.int64())
    most = np.iinfo(np.int64).max
    endless = np.abs(values) == most
    unit = array.type.unit
    factor = {"s": 1_000_000, "ms": 1000, "us": 1}.get(unit)
    scaled = values // 1000 if factor is None else np.where(endless, 0, values) * factor
    return np.where(endless, values, scaled)


def _shifted(values: npt.NDArray[Any], origin: int, form: str) -> npt.NDArray[Any]:
    """Times since PostgreSQL's origin; its -infinity is the least integer.

    Raises:
        EvaluationError: one lies before all that an integer counts from that origin.
    """
    limits = np.iinfo(values.dtype)
    endless = np.abs(values) == limits.max
    if (~endless & (values <= limits.min + origin)).any():
        raise EvaluationError(
            "a time is out of range: PostgreSQL's binary values do not reach so far back; "
            "cast it to VARCHAR, or ask for it as text"
        )
    shifted = np.where(endless, values, values - origin)
    return np.where(values == -limits.max, limits.min, shifted).astype(form)


def _intervals(array: pa.Array) -> npt.NDArray[Any]:
    form = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
    buffer = array.buffers()[1]
    found = np.frombuffer(buffer, form, len(array), array.offset * form.itemsize)
    out = np.zeros(len(array), np.dtype([("micros", ">i8"), ("days", ">i4"), ("months", ">i4")]))
    out["micros"], out["days"], out["months"] = (
        found["nanos"] // 1000,
        found["days"],
        found["months"],
    )
    return out


def _decimals(array: pa.Array, digits: int, scale: int) -> npt.NDArray[Any]:
    """Decimals of up to 18 digits as numerics with one count of digits, zeros before them."""
    words = np.frombuffer(array.buffers()[1], "<i8")[2 * array.offset :: 2][: len(array)]
    values = np.abs(words).astype(np.uint64)
    power = np.uint64(10**scale)
    whole, part = values // power, values % power * np.uint64(10 ** (-scale % 4))
    wholes, parts = -(-(digits - scale) // 4), -(-scale // 4)
    out = np.zeros((len(array), 4 + wholes + parts), ">i2")
    out[:, 0], out[:, 1], out[:, 3] = wholes + parts, wholes - 1, scale
    out[:, 2] = np.where(words < 0, 0x4000, 0)
    base = np.uint64(10_000)
    for i in range(wholes):
        out[:, 3 + wholes - i] = whole % base
        whole = whole // base
    for i in range(parts):
        out[:, 3 + wholes + parts - i] = part % base
        part = part // base
    return out


def _digits(type: str) -> tuple[int, int]:
    digits, scale = type[type.index("(") + 1 : -1].split(",")
    return int(digits), int(scale)


def _arrays(array: pa.Array, element: str, oid: int) -> pa.Array:
    """Lists as arrays of one dimension."""
    nulls = np.asarray(array.is_null())
    if pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    counts = np.asarray(pc.fill_null(pc.list_value_length(array), 0)).astype(np.int64)
    values = _value_bytes(array.flatten(), element)
    has_nulls = np.zeros(len(array), bool)
    lengths, values = _lengths(values)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    if (lengths < 0).any():
        owners = np.repeat(np.arange(len(array)), counts)
        has_nulls[owners[lengths < 0]] = True
    items = pc.binary_join_element_wise(
        _fixed(lengths.astype(">i4")), values, pa.scalar(b"", _BYTES)
    )
    joined = pc.binary_join(
        pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), items), pa.scalar(b"", _BYTES)
    )
    form = np.dtype([(n, ">i4") for n in ("dimensions", "nulls", "oid", "count", "first")])
    head = np.zeros(len(array), form)
    head["dimensions"], head["nulls"], head["oid"] = counts > 0, has_nulls, oid
    head["count"], head["first"] = counts, 1
    whole, short = _fixed(head), _fixed(head[["dimensions", "nulls", "oid"]].astype(_SHORT_HEAD))
    begins = pc.if_else(pa.array(counts > 0), whole, short)
    return _masked(pc.binary_join_element_wise(begins, joined, pa.scalar(b"", _BYTES)), nulls)


_SHORT_HEAD = np.dtype([(n, ">i4") for n in ("dimensions", "nulls", "oid")])


def _value_bytes(array: pa.Array, type: str) -> pa.Array:
    (found,) = _bytes(pa.table({"c": array}), [Wanted(type, True)], "UTC")
    return found


def _numeric(text: str) -> bytes:
    from decimal import Decimal

    return numeric(Decimal(text))


def _timetz(text: str) -> bytes:
    import datetime

    ends = text.startswith("24:")  # a day; Python has no such time
    time = datetime.time.fromisoformat(f"00{text[2:]}" if ends else text)
    offset = time.utcoffset() or datetime.timedelta()
    hour = 24 if ends else time.hour
    micros = ((hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond
    return (
        np.array([micros], ">i8").tobytes()
        + np.array([-int(offset.total_seconds())], ">i4").tobytes()
    )


def _varbit(text: str) -> bytes:
    padded = text + "0" * (-len(text) % 8)
    bits = int(padded, 2).to_bytes(len(padded) // 8, "big") if padded else b""
    return np.array([len(text)], ">i4").tobytes() + bits


def _filled(array: pa.Array, type: pa.DataType) -> npt.NDArray[Any]:
    cast = array if array.type == type else array.cast(type)
    return np.asarray(pc.fill_null(cast, 0)) if cast.null_count else np.asarray(cast)


def _fixed(values: npt.NDArray[Any]) -> pa.Array:
    """An array of binary values of one size, from the rows of a numpy array."""
    values = np.ascontiguousarray(values)
    width = values.dtype.itemsize * int(np.prod(values.shape[1:], dtype=int))
    offsets = np.arange(len(values) + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values.tobytes())]
    return pa.Array.from_buffers(_BYTES, len(values), buffers)


def _masked(array: pa.Array, nulls: npt.NDArray[np.bool_]) -> pa.Array:
    return pc.if_else(pa.array(~nulls), array, pa.scalar(None, _BYTES)) if nulls.any() else array


def _lengths(column: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """The lengths of values, -1 for NULL, and the values with nothing for NULL."""
    lengths = pc.binary_length(column)
    if not column.null_count:
        return np.asarray(lengths).astype(np.int64), column
    return np.asarray(pc.fill_null(lengths, -1)).astype(np.int64), pc.fill_null(column, b"")


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else found.chunk(0)
