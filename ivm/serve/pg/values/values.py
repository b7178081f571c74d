"""Single Python values as PostgreSQL's text and binary values, for results of few rows.

Contract: what is written has the bytes that `columns` writes for the same value. Types that are not
here (dates, whose infinities Python does not have; FLOAT as text, which DuckDB at times gives a
digit more than Python; nested values) go that way alone.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

Encoder: TypeAlias = Callable[[Any], bytes]

_BASE = 10_000  # a digit of PostgreSQL's numeric
_EXACT = (1 << 53, -(1 << 53))


def encoder(duckdb: str, *, binary: bool) -> Encoder | None:
    """The function that encodes a value of a type other than NULL; None if there is none."""
    found = (_BINARY if binary else _TEXT).get(duckdb)
    if found is None and duckdb.endswith(")"):  # else it is a list of them
        if duckdb.startswith("DECIMAL("):
            return numeric if binary else _decimal
        if duckdb.startswith("ENUM("):
            return _string
    return found


def numeric(value: Decimal | int) -> bytes:
    """PostgreSQL's binary numeric."""
    sign, digits, exponent = Decimal(value).as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is no number")
    scale = max(-exponent, 0)
    whole = int("".join(map(str, digits)) or "0") * 10 ** max(exponent, 0)
    fraction_digits = -(-scale // 4)
    whole *= 10 ** (4 * fraction_digits - scale)
    found: list[int] = []
    while whole:
        whole, digit = divmod(whole, _BASE)
        found.append(digit)
    weight = len(found) - 1 - fraction_digits
    while found and not found[0]:
        found.pop(0)
    found.reverse()
    signs = 0x4000 if sign and found else 0
    return struct.pack(
        f"!hhHh{len(found)}h", len(found), weight if found else 0, signs, scale, *found
    )


def float_text(value: float) -> bytes:
    """A DOUBLE as DuckDB writes it, but with PostgreSQL's names of infinities and NaN."""
    if value != value:
        return b"NaN"
    if value in (float("inf"), float("-inf")):
        return b"Infinity" if value > 0 else b"-Infinity"
    return repr(value).encode()


def _string(value: str) -> bytes:
    return value.encode(errors="surrogatepass")


def _integer(value: int) -> bytes:
    return b"%d" % value


def _boolean(value: bool) -> bytes:
    return b"t" if value else b"f"


def _decimal(value: Decimal) -> bytes:
    return format(value, "f").encode()


def _packed(format: str) -> Encoder:
    return struct.Struct(format).pack


_SMALL, _MIDDLE, _BIG = _packed("!h"), _packed("!i"), _packed("!q")

_TEXT: dict[str, Encoder] = {
    **dict.fromkeys(
        (
            *("TINYINT", "UTINYINT", "SMALLINT", "USMALLINT", "INTEGER", "UINTEGER", "BIGINT"),
            *("UBIGINT", "HUGEINT", "UHUGEINT", "OID"),
        ),
        _integer,
    ),
    "BOOLEAN": _boolean,
    "DOUBLE": float_text,
    "VARCHAR": _string,
    "JSON": _string,
    "UUID": lambda value: str(value).encode(),
}
_BINARY: dict[str, Encoder] = {
    **dict.fromkeys(("TINYINT", "UTINYINT", "SMALLINT"), _SMALL),
    **dict.fromkeys(("USMALLINT", "INTEGER"), _MIDDLE),
    **dict.fromkeys(("UINTEGER", "BIGINT"), _BIG),
    **dict.fromkeys(("UBIGINT", "HUGEINT", "UHUGEINT"), numeric),
    "OID": _packed("!I"),
    "BOOLEAN": lambda value: b"\x01" if value else b"\0",
    "DOUBLE": _packed("!d"),
    "FLOAT": _packed("!f"),
    "VARCHAR": _string,
    "JSON": _string,
    "UUID": lambda value: bytes(value.bytes),
}
