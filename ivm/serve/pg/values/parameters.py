"""Parameters of a statement: PostgreSQL's text and binary values as Python's.

Contract: what no Python value stands for exactly (infinite dates, years before our era, the end of
a day, intervals, json) becomes a value of DuckDB's, with its type.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import struct
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import duckdb

from ivm.serve.pg.values import types
from ivm.serve.pg.wire.codec import ProtocolError
from ivm.storage.errors import EvaluationError
from ivm.storage.values.types import MOST_DIGITS

_EPOCH = datetime.datetime(2000, 1, 1)
_DAY = datetime.date(2000, 1, 1)
_ENDLESS = {(1 << 31) - 1: "infinity", -(1 << 31): "-infinity"}
_ENDLESS |= {(1 << 63) - 1: "infinity", -(1 << 63): "-infinity"}
_DAYS_OF_400_YEARS = 146_097
_MICROS_OF_A_DAY = 86_400_000_000
_BEFORE_OUR_ERA = re.compile(r"(\S+)(.*) BC")


_NO_NUMBERS = {0xC000: Decimal("NaN"), 0xD000: Decimal("Infinity"), 0xF000: Decimal("-Infinity")}


class OutOfRangeError(ValueError):
    """A value of its type that DuckDB does not have."""


Decoder: TypeAlias = Callable[[bytes], Any]


def values_of(
    values: Sequence[bytes | None], formats: Sequence[int], oids: Sequence[int]
) -> list[Any]:
    """The values of parameters.

    Args:
        values: as they came.
        formats: of each, or one for all, or none for text.
        oids: their types.

    Raises:
        ProtocolError: there are more or fewer than the statement has.
        EvaluationError: one is no value of its type.
    """
    if len(values) != len(oids):
        raise ProtocolError(f"{len(values)} values for {len(oids)} parameters")
    if len(formats) not in (0, 1, len(values)):
        raise ProtocolError(f"{len(formats)} formats for {len(values)} parameters")
    if not {0, 1}.issuperset(formats):
        raise ProtocolError(f"values are text (0) or binary (1), not {max(formats)}", "22023")
    binary = list(formats) if len(formats) == len(values) else list(formats or [0]) * len(values)
    return [
        None if value is None else _value(value, format == 1, oid, i)
        for i, (value, format, oid) in enumerate(zip(values, binary, oids, strict=True), 1)
    ]


def _value(value: bytes, binary: bool, oid: int, number: int) -> Any:
    try:
        if binary:
            return binary_value(value, oid)
        return _from_text(value.decode(), oid)
    except OutOfRangeError as error:
        raise EvaluationError(f"parameter ${number} is out of range: {error}") from error
    except (ValueError, ArithmeticError, struct.error, IndexError, KeyError) as error:
        raise EvaluationError(
            f"invalid value for parameter ${number}, which is no {_name(oid)}: "
            f"{value[:100].decode(errors='replace')!r}"
        ) from error


def _name(oid: int) -> str:
    return (types.duckdb_type(oid) or "VARCHAR").lower()


def _from_text(text: str, oid: int) -> Any:
    if oid in types.ELEMENTS:
        if text.startswith("["):  # as DuckDB writes a list, which it casts itself
            return text
        return array_from_text(text, types.ELEMENTS[oid])
    if oid in (types.TIME, types.TIMESTAMP) and _NANOSECONDS.search(text):
        return text  # DuckDB casts it itself: Python's times end with microseconds
    read = _TEXT.get(oid)
    if read is None:
        return text
    try:
        return read(text)
    except ValueError:
        if oid not in _CAST:
            raise
        return _duckdb(text, oid)


def _duckdb(text: str, oid: int) -> Any:
    """A value of DuckDB's, cast from its text when it is bound."""
    type = str(types.duckdb_type(oid))
    before = _BEFORE_OUR_ERA.fullmatch(text)
    text = text if before is None else f"{before[1]} (BC){before[2]}"
    with duckdb.connect() as connection:
        try:
            connection.execute(f"SELECT CAST(? AS {type})", [text])
        except duckdb.Error as error:
            raise ValueError(str(error)) from error
    return duckdb.Value(text, type)  # type: ignore[arg-type]


def binary_value(value: bytes, oid: int) -> Any:
    """A value of a type from its binary form."""
    if oid in types.ELEMENTS:
        return _array_from_binary(value)
    read = _BINARY.get(oid)
    if read is None:
        return value.decode()
    return read(value)


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word in ("t", "true", "1", "y", "yes", "on"):
        return True
    if word in ("f", "false", "0", "n", "no", "off"):
        return False
    raise ValueError(text)


def bytes_from_text(text: str) -> bytes:
    """The bytes of a text such as `\\x00ff`, or with escapes as older servers write them."""
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    data = text.encode()
    if _ESCAPED_BYTES.fullmatch(data) is None:
        raise ValueError("a backslash of bytes is doubled, or has three octal digits behind it")
    return _ESCAPED_BYTE.sub(lambda found: bytes([int(found[1] or b"134", 8)]), data)


def _json(text: str) -> Any:
    """As json, of which DuckDB makes a value that is nested; it takes a text by its own rules."""
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()  # half a surrogate is no text
    except RecursionError as error:
        raise ValueError("json that is nested too deeply") from error
    return duckdb.Value(text, "JSON")  # type: ignore[arg-type]


def _double(text: str) -> float:
    number = float(text)
    if math.isinf(number) and "inf" not in text.lower():
        raise OutOfRangeError(text)
    return number


def _single(text: str) -> float:
    """The FLOAT of a text: a DOUBLE that lies near it would equal no FLOAT."""
    return float(_BINARY[types.FLOAT4](struct.pack("!f", _double(text))))


def _date(value: bytes) -> Any:
    (days,) = struct.unpack("!i", value)
    if days in _ENDLESS:
        return _duckdb(_ENDLESS[days], types.DATE)
    try:
        return _DAY + datetime.timedelta(days)
    except OverflowError:
        return _duckdb(_date_text(days), types.DATE)


def _date_text(days: int) -> str:
    """DuckDB's text of a day in any year, counted from 2000: years repeat themselves."""
    cycles, days = divmod(days, _DAYS_OF_400_YEARS)
    day = _DAY + datetime.timedelta(days)
    year = day.year + 400 * cycles
    return f"{year:04}-{day:%m-%d}" if year > 0 else f"{1 - year:04}-{day:%m-%d} (BC)"


def _time_text(micros: int) -> str:
    """DuckDB's text of a time, of which a day's end is one, too."""
    if not 0 <= micros <= _MICROS_OF_A_DAY:
        raise ValueError(f"no time of a day: {micros} microseconds")
    return _clock_text(micros)


def _clock_text(micros: int) -> str:
    seconds, micros = divmod(micros, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"


def _moment_text(micros: int) -> str:
    days, micros = divmod(micros, _MICROS_OF_A_DAY)
    return f"{_date_text(days)} {_time_text(micros)}"


def _timestamp(value: bytes) -> Any:
    (micros,) = struct.unpack("!q", value)
    if micros in _ENDLESS:
        return _duckdb(_ENDLESS[micros], types.TIMESTAMP)
    try:
        return _EPOCH + datetime.timedelta(microseconds=micros)
    except OverflowError:
        return _duckdb(_moment_text(micros), types.TIMESTAMP)


def _timestamptz(value: bytes) -> Any:
    (micros,) = struct.unpack("!q", value)
    if micros in _ENDLESS:
        return _duckdb(_ENDLESS[micros], types.TIMESTAMPTZ)
    try:
        moment = _EPOCH.replace(tzinfo=datetime.UTC)
        return moment + datetime.timedelta(microseconds=micros)
    except OverflowError:
        return _duckdb(f"{_moment_text(micros)}+00", types.TIMESTAMPTZ)


def _time(value: bytes) -> Any:
    (micros,) = struct.unpack("!q", value)
    text = _time_text(micros)
    if micros == _MICROS_OF_A_DAY:
        return _duckdb(text, types.TIME)
    return datetime.time.fromisoformat(text)


def _timetz(value: bytes) -> Any:
    micros, west = struct.unpack("!qi", value)
    hours, minutes = abs(west) // 3600, abs(west) // 60 % 60
    zone = f"{'-' if west > 0 else '+'}{hours:02}:{minutes:02}:{abs(west) % 60:02}"
    return _zoned_time(_time_text(micros) + zone)


def _zoned_time(text: str) -> Any:
    """Python's times with a zone do not reach DuckDB where the zone is west of Greenwich."""
    return _duckdb(text, types.TIMETZ)


def _interval(value: bytes) -> Any:
    micros, days, months = struct.unpack("!qii", value)  # Python makes other days of such micros
    clock = f"{'-' if micros < 0 else ''}{_clock_text(abs(micros))}"
    return duckdb.Value(f"{months} months {days} days {clock}", "INTERVAL")  # type: ignore[arg-type]


def _numeric(value: bytes) -> Decimal | int:
    count, weight, sign, scale = struct.unpack_from("!hhHh", value)
    if sign in _NO_NUMBERS:
        return _NO_NUMBERS[sign]  # a DOUBLE has them
    if sign not in (0, 0x4000) or not 0 <= scale <= 0x3FFF or abs(weight) > 0x3FFF:
        raise ValueError("a number that is none, or without an end")
    digits = struct.unpack_from(f"!{count}h", value, 8)
    whole = 0
    if not all(0 <= digit < 10_000 for digit in digits):
        raise ValueError("a number with what is no digit")
    for digit in digits:
        whole = whole * 10_000 + digit
    shift = 4 * (weight + 1 - count) + scale  # from the last digit to the last one that is meant
    whole = whole * 10**shift if shift >= 0 else whole // 10**-shift
    return _fitting(Decimal((int(sign != 0), tuple(map(int, str(whole))), -scale)))


def _fitting(number: Decimal) -> Decimal | int:
    """A number that a DECIMAL or an integer of 128 bits holds: DuckDB takes larger ones for
    DOUBLEs, which are others."""
    _, digits, exponent = number.as_tuple()
    if exponent == 0 and len(digits) > MOST_DIGITS and -(1 << 127) <= number < 1 << 128:
        return int(number)
    if isinstance(exponent, int) and max(len(digits) + max(exponent, 0), -exponent) > MOST_DIGITS:
        raise OutOfRangeError(f"numbers have up to {MOST_DIGITS} digits")
    return number


def _varbit(value: bytes) -> Any:
    (count,) = struct.unpack_from("!i", value)
    bits = "".join(f"{byte:08b}" for byte in value[4:])[:count]
    return _duckdb(bits, types.VARBIT)


def _array_from_binary(value: bytes) -> list[Any]:
    dimensions, _, oid = struct.unpack_from("!iii", value)
    if dimensions == 0:
        return []
    if dimensions != 1:
        raise ValueError("arrays have one dimension")
    (count,) = struct.unpack_from("!i", value, 12)
    found: list[Any] = []
    at = 20
    for _ in range(count):
        (length,) = struct.unpack_from("!i", value, at)
        at += 4
        end = at + max(length, 0)
        if end > len(value):
            break
        found.append(None if length < 0 else binary_value(value[at:end], oid))
        at = end
    if at != len(value) or len(found) != count:
        raise ValueError("an array of another length than it says")
    return found


def array_from_text(text: str, oid: int) -> list[Any]:
    """The values of an array such as `{1,NULL,"a b"}`."""
    text = text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(text)
    inner = text[1:-1]
    found: list[Any] = []
    at, more = 0, bool(inner.strip())
    while more:
        item = _ITEM.match(inner, at)
        if item is None:
            is_nested = inner[at:].lstrip().startswith("{")
            raise ValueError("arrays have one dimension" if is_nested else text)
        found.append(_item(item["quoted"], item["plain"], oid))
        at, more = item.end(), item["end"] == ","
    return found


def _item(quoted: str | None, plain: str | None, oid: int) -> Any:
    written = quoted if plain is None else plain
    if written is None or (quoted is None and written.upper() == "NULL"):
        return None
    return _from_text(_ESCAPED_SIGN.sub(r"\1", written), oid)


def _unpacked(format: str) -> Decoder:
    read = struct.Struct(format).unpack
    return lambda value: read(value)[0]


_ESCAPED_SIGN = re.compile(r"\\(.)", re.DOTALL)
_ITEM = re.compile(
    r"""\s*+(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<plain>(?:[^\s",{}\\]|\\.|\s++(?=[^\s,]))++))"""
    r"\s*+(?P<end>,|\Z)",
    re.DOTALL,
)
"""A value of an array's text; blanks around it have no meaning."""
_ESCAPED_BYTES = re.compile(rb"(?:[^\\]|\\\\|\\[0-3][0-7]{2})*+", re.DOTALL)
_ESCAPED_BYTE = re.compile(rb"\\(?:\\|([0-7]{3}))")
_NANOSECONDS = re.compile(r"\.\d{7}")
_CAST = frozenset((types.DATE, types.TIME, types.TIMESTAMP, types.TIMESTAMPTZ, types.TIMETZ))
_TEXT: dict[int, Callable[[str], Any]] = {
    **dict.fromkeys((types.INT2, types.INT4, types.INT8, types.OID), int),
    types.FLOAT4: _single,
    types.FLOAT8: _double,
    types.BOOL: _boolean,
    types.BYTEA: bytes_from_text,
    types.NUMERIC: lambda text: _fitting(Decimal(text)),
    types.DATE: datetime.date.fromisoformat,
    types.TIME: datetime.time.fromisoformat,
    types.TIMETZ: _zoned_time,
    types.TIMESTAMP: lambda text: datetime.datetime.fromisoformat(text).replace(tzinfo=None),
    types.TIMESTAMPTZ: datetime.datetime.fromisoformat,
    types.INTERVAL: lambda text: _duckdb(text, types.INTERVAL),
    types.UUID: uuid.UUID,
    types.VARBIT: lambda text: _duckdb(text, types.VARBIT),
    **dict.fromkeys((types.JSON, types.JSONB), _json),
}
_BINARY: dict[int, Decoder] = {
    types.BOOL: lambda value: value[0] != 0,
    types.BYTEA: bytes,
    types.INT2: _unpacked("!h"),
    types.INT4: _unpacked("!i"),
    types.INT8: _unpacked("!q"),
    types.OID: _unpacked("!I"),
    types.FLOAT4: _unpacked("!f"),
    types.FLOAT8: _unpacked("!d"),
    types.NUMERIC: _numeric,
    types.DATE: _date,
    types.TIME: _time,
    types.TIMETZ: _timetz,
    types.TIMESTAMP: _timestamp,
    types.TIMESTAMPTZ: _timestamptz,
    types.INTERVAL: _interval,
    types.UUID: lambda value: uuid.UUID(bytes=value),
    types.JSON: lambda value: _json(value.decode()),
    types.JSONB: lambda value: _json(value[1:].decode()),
    types.VARBIT: _varbit,
}
