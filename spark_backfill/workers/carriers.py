"""Carriers: the Spark type in which values of a DuckDB type travel, and the way there and back.

Law: `back(out(v))` is v, bit for bit, for every value of the type that does not make `out` fail.
A type is plain if Spark computes with its carrier what DuckDB computes with the values, and equal
if two values are one key (by grouping equality) exactly where their carriers are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import duckdb
from duckdb.sqltypes import DuckDBPyType

from ivm.sql.plan.built_in import MAIN
from ivm.storage.identifiers import literal
from ivm.storage.scratch import Scratch
from ivm.storage.values.types import ColumnType

Wrap = Callable[[str], str]
"""From SQL of a value to SQL of another, for DuckDB."""

_PLAIN = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "VARCHAR": "STRING",
    "BLOB": "BINARY",
    "DATE": "DATE",
    "TIMESTAMP": "TIMESTAMP_NTZ",
}
_AS_NUMBERS = {
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INT",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20,0)",
}
_FLOATS = {"FLOAT": "FLOAT", "DOUBLE": "DOUBLE"}
# Types whose values DuckDB writes as text and reads again without loss: equal exactly where the
# texts are, or not. (HUGEINTs have 39 digits, Spark's DECIMALs 38.)
_AS_TEXT = {
    "HUGEINT": True,
    "UHUGEINT": True,
    "UUID": True,
    "BIT": True,
    "BIGNUM": True,
    "TIME": True,
    "TIME_NS": True,
    "TIMESTAMP_S": True,
    "TIMESTAMP_MS": True,
    "TIMESTAMP_NS": True,
    "JSON": True,
    "TIME WITH TIME ZONE": False,
    "INTERVAL": False,
}
_types = Scratch()


class NotCarriedError(Exception):
    """Values of a type have no carrier in Spark; its text names the type."""


@dataclass(frozen=True)
class Carrier:
    """How values of one DuckDB type travel.

    Attributes:
        spark: the carrier's type, as Spark's DDL spells it.
        out: from a value to its carrier.
        back: from a carrier to the value.
        plain: Spark computes with the carrier as DuckDB does with the value.
        equal: the carrier is its own key of grouping.
    """

    spark: str
    out: Wrap
    back: Wrap
    plain: bool
    equal: bool


def carrier(type: ColumnType) -> Carrier:
    """The carrier of a type.

    Raises:
        NotCarriedError: it has none.
    """
    with _types.borrow() as scratch:
        try:
            return _carrier(scratch.sqltype(type.sql))
        except duckdb.Error as error:
            raise NotCarriedError(type.sql) from error


def _carrier(type: DuckDBPyType) -> Carrier:
    name = str(type)
    if name == '"NULL"':
        return _cast("INT", "INTEGER", name, plain=False, equal=True)
    if name in _PLAIN:
        return Carrier(_PLAIN[name], _same, _same, plain=True, equal=True)
    if name in _FLOATS:
        return Carrier(_FLOATS[name], _same, _same, plain=True, equal=False)
    if type.id == "decimal":
        return Carrier(name, _same, _same, plain=True, equal=True)
    if name in _AS_NUMBERS:
        return _cast(_AS_NUMBERS[name], _AS_NUMBERS[name], name, plain=False, equal=True)
    if name in _AS_TEXT:
        return _cast("STRING", "VARCHAR", name, plain=False, equal=_AS_TEXT[name])
    if type.id == "enum":
        return _cast("STRING", "VARCHAR", name, plain=False, equal=True)
    if name in ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"):
        return _instant(name)
    if type.id in _NESTED:
        return _NESTED[type.id](type)
    raise NotCarriedError(name)


def _same(value: str) -> str:
    return value


def _cast(spark: str, out: str, back: str, *, plain: bool, equal: bool) -> Carrier:
    return Carrier(
        spark, lambda v: f"CAST({v} AS {out})", lambda v: f"CAST({v} AS {back})", plain, equal
    )


def _instant(name: str) -> Carrier:
    """An instant travels as the time at UTC; one with nanoseconds as that time's text."""
    if name == "TIMESTAMPTZ_NS":
        return Carrier(
            "STRING",
            lambda v: f"CAST(CAST({v} AS TIMESTAMP_NS) AS VARCHAR)",
            lambda v: f"CAST(CAST({v} AS TIMESTAMP_NS) AS {name})",
            plain=False,
            equal=True,
        )
    at = f"{MAIN}timezone('UTC', "
    return Carrier("TIMESTAMP_NTZ", lambda v: f"{at}{v})", lambda v: f"{at}{v})", False, True)


def _list(type: DuckDBPyType) -> Carrier:
    inner = _carrier(_children(type)["child"])
    known = f"CAST({{}} AS {type})" if type.id == "array" else "{}"
    return Carrier(
        f"ARRAY<{inner.spark}>",
        _each(inner.out, lambda v: f"CAST({v} AS {_children(type)['child']}[])"),
        _each(inner.back, lambda v: v, known),
        plain=False,
        equal=inner.equal,
    )


def _each(wrap: Wrap, before: Wrap, after: str = "{}") -> Wrap:
    """Lifts a way of elements to one of lists; lists of elements that stay the same stay."""

    def of_list(value: str) -> str:
        inner = f"x{len(value)}"
        given = before(value)
        if wrap(inner) == inner:
            return after.format(given)
        return after.format(f"{MAIN}list_transform({given}, lambda {inner}: {wrap(inner)})")

    return of_list


def _struct(type: DuckDBPyType) -> Carrier:
    """A struct or tuple travels as a struct whose fields are named by their positions."""
    children = [(name, part) for name, part in type.children if isinstance(part, DuckDBPyType)]
    inner = [_carrier(child) for _, child in children]
    fields = ", ".join(f"f{i}: {c.spark}" for i, c in enumerate(inner))

    def part(value: str, i: int) -> str:
        return f"{MAIN}struct_extract_at({value}, {i + 1})"

    def out(value: str) -> str:
        parts = [f"f{i} := {c.out(part(value, i))}" for i, c in enumerate(inner)]
        return _unless_null(value, f"{MAIN}struct_pack({', '.join(parts)})")

    def back(value: str) -> str:
        parts = [c.back(part(value, i)) for i, c in enumerate(inner)]
        if type.id == "tuple":
            return _unless_null(value, f"CAST({MAIN}row({', '.join(parts)}) AS {type})")
        named = [f"{literal(name)}: {p}" for (name, _), p in zip(children, parts, strict=True)]
        return _unless_null(value, f"CAST({{{', '.join(named)}}} AS {type})")

    return Carrier(f"STRUCT<{fields}>", out, back, False, all(c.equal for c in inner))


def _map(type: DuckDBPyType) -> Carrier:
    """A map travels as the list of its entries: Spark's maps have rules of their own for keys."""
    parts = _children(type)
    key, value = _carrier(parts["key"]), _carrier(parts["value"])

    def pairs(entries: str, of_key: Wrap, of_value: Wrap) -> str:
        x = f"x{len(entries)}"
        first, second = (f"{MAIN}struct_extract_at({x}, {i})" for i in (1, 2))
        pair = f"{MAIN}struct_pack(k := {of_key(first)}, v := {of_value(second)})"
        return f"{MAIN}list_transform({entries}, lambda {x}: {pair})"

    def out(given: str) -> str:
        return _unless_null(given, pairs(f"{MAIN}map_entries({given})", key.out, value.out))

    def back(given: str) -> str:
        made = f"{MAIN}map_from_entries({pairs(given, key.back, value.back)})"
        return f"CAST({_unless_null(given, made)} AS {type})"

    spark = f"ARRAY<STRUCT<k: {key.spark}, v: {value.spark}>>"
    return Carrier(spark, out, back, plain=False, equal=False)


def _unless_null(value: str, made: str) -> str:
    return f"CASE WHEN {value} IS NOT NULL THEN {made} END"


def _children(type: DuckDBPyType) -> dict[str, DuckDBPyType]:
    return {name: part for name, part in type.children if isinstance(part, DuckDBPyType)}


_NESTED: dict[str, Callable[[DuckDBPyType], Carrier]] = {
    "list": _list,
    "array": _list,
    "struct": _struct,
    "tuple": _struct,
    "map": _map,
}
