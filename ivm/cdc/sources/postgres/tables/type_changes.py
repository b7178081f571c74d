"""Which changes of a column's type leave its values as they were.

Law: by `ALTER TABLE … ALTER COLUMN … TYPE` PostgreSQL rewrites the rows without a word in the
stream. A change is here only if the value, cast as PostgreSQL casts it, is equal, and its text too
where the column holds the text. What USING computes cannot be told from the types: see `retyped`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ivm.cdc.sources.postgres.connections.types import PostgresType, reading, without_domains

_INTEGERS = ("int2", "int4", "int8")
_EXACT = {("int2", "float4"), ("int2", "float8"), ("int4", "float8"), ("float4", "float8")}
_FRACTIONS = ("time", "timetz", "timestamp", "timestamptz")
_TEXTS = ("text", "varchar", "citext")
_AS_TEXT = (*_TEXTS, "name", "xml", "json", "jsonb")

Types = Mapping[int, PostgresType]


def keeps(types: Types, old: tuple[int, int], new: tuple[int, int]) -> bool:
    """Whether values keep their meaning when their type becomes another one.

    Args:
        types: of the database, by oid.
        old: oid and modifier of the type.
        new: oid and modifier of the other one.
    """
    (a, given), (b, wanted) = without_domains(types, *old), without_domains(types, *new)
    if a is None or b is None or (a.oid, given) == (b.oid, wanted):
        return (a, given) == (b, wanted)
    if a.element and b.element:
        return keeps(types, (a.element, given), (b.element, wanted))
    if b.name in _TEXTS and (a.name in _AS_TEXT or a.kind == "e"):
        return wanted < 0 or (a.name == b.name and _is_longer(given, wanted))
    if b.name == "numeric":
        return _keeps_digits(types, (a, given), (b, wanted))
    pair = a.name, b.name
    if a.name in _INTEGERS and b.name in _INTEGERS:
        return _INTEGERS.index(a.name) <= _INTEGERS.index(b.name)
    if pair in (("bit", "varbit"), ("varbit", "varbit")) or set(pair) <= set(_FRACTIONS):
        return (a.name == b.name or b.name == "varbit") and _is_longer(given, wanted)
    return pair in _EXACT or pair == ("jsonb", "json") or (pair == ("interval",) * 2 and wanted < 0)


def _is_longer(given: int, wanted: int) -> bool:
    """Whether a modifier that is a length, or a number of digits, leaves all values as they are."""
    return wanted < 0 or 0 <= given <= wanted


def _keeps_digits(
    types: Types, old: tuple[PostgresType, int], new: tuple[PostgresType, int]
) -> bool:
    (a, given), (b, wanted) = old, new
    theirs = reading(types, b.oid, wanted).type
    if a.name in _INTEGERS:
        return theirs != "VARCHAR" and _scale(wanted) >= 0
    if a.name != "numeric":
        return False
    if reading(types, a.oid, given).type != "VARCHAR":
        return theirs != "VARCHAR" and _scale(wanted) >= _scale(given)
    return theirs == "VARCHAR" and (wanted < 0 or (given >= 0 and _scale(given) == _scale(wanted)))


def _scale(modifier: int) -> int:
    scale = (modifier - 4) & 0x7FF  # eleven bits in two's complement
    return scale - 2048 if scale > 1000 else scale
