"""Values that Arrow does not carry exactly: DuckDB's answer fails where it holds one.

DuckDB exports intervals to Arrow with nanoseconds in 64 bits, and larger ones wrap round; a UNION
whose member is NULL arrives as a NULL of the whole UNION. DuckDB notices neither: they are
DuckDB's fault `intervals_to_arrow` and DuckDB's fault `members_to_arrow`. It does notice what a
VARIANT of Arrow has no form for, but names neither the VARIANT nor a way out. The state of an
aggregate can end the process, even where there is no row: DuckDB's fault `states_to_arrow`.

Contract: a query whose answer holds such a value fails while it is read, and a change that makes
one is refused. An answer without these types is passed on unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

import duckdb
from duckdb.sqltypes import DuckDBPyType

from ivm.storage.identifiers import literal, quote

Relation: TypeAlias = duckdb.DuckDBPyRelation

_MOST_HOURS = 2562046  # 2^63 nanoseconds are 2562047 hours and 47 minutes
_STATE = re.compile(r"\bAGGREGATE_STATE(?=[\[\]),]|$)")
_QUOTED = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
_WHY = {
    "INTERVAL": f"an INTERVAL may have up to {_MOST_HOURS} hours beside its months and days: write "
    "more of them as days",
    "UNION": "a UNION may be NULL itself, but not the member that it holds: cast NULL to the UNION",
    "VARIANT": "a VARIANT may hold integers of up to 64 bits with a sign, and no INTERVAL, BIT, "
    "BIGNUM or TIMESTAMP of whole seconds: cast such a part to DOUBLE, TIMESTAMP or VARCHAR",
}


def carried(relation: Relation) -> Relation:
    """The same rows; reading them fails where Arrow would not carry a value exactly.

    Raises:
        duckdb.InvalidInputException: later, while they are read; at once as `refuse_states` does.
    """
    refuse_states(map(str, relation.types))
    types, conditions = relation.types, _conditions(relation)
    if not any(conditions):
        return relation
    columns = enumerate(zip(relation.columns, types, conditions, strict=True), 1)
    return relation.project(
        ", ".join([f"{_checked(i, *column[1:])} AS {quote(column[0])}" for i, column in columns])
    )


def refuse_states(types: Iterable[str]) -> None:
    """Refuses an answer with columns of these types if one is, or holds, an aggregate's state.

    Raises:
        duckdb.InvalidInputException: one does.
    """
    for type in types:
        if _STATE.search(_QUOTED.sub("", type)):
            raise duckdb.InvalidInputException(
                f"a value of type {type} cannot be read here: write finalize(…) around the state "
                "of an aggregate, or leave out EXPORT_STATE"
            )


def only_carried(value: str, type: str) -> str:
    """SQL of a value, NULL where Arrow would not carry it exactly.

    Args:
        value: SQL of it.
        type: SQL of its type.
    """
    unfit = _unfit(value, duckdb.sqltype(type)) if may_be_unfit(type) else None
    return value if unfit is None else f"CASE WHEN {unfit} THEN NULL ELSE {value} END"


def may_be_unfit(type: str) -> bool:
    """Returns whether a type has values that Arrow does not carry; it may be wrong with True."""
    return "AGGREGATE_STATE" in type or any(word in type for word in _WHY)


def unfit_type(relation: Relation) -> str | None:
    """The type of a column that holds a value which Arrow does not carry; None if there is none."""
    for type, unfit in zip(relation.types, _conditions(relation), strict=True):
        if unfit and relation.project(f"{unfit} AS unfit").filter("unfit").limit(1).fetchall():
            return str(type)
    return None


def why_unfit(type: str) -> str:
    """The sentence that names the values of a type that are not carried, and the way out."""
    reasons = "; ".join([why for word, why in _WHY.items() if word in type])
    return f"a value of type {type} cannot be followed: {reasons}"


def _conditions(relation: Relation) -> list[str | None]:
    return [_unfit(f"#{i}", type) for i, type in enumerate(relation.types, 1)]


def _checked(position: int, type: DuckDBPyType, unfit: str | None) -> str:
    if unfit is None:
        return f"#{position}"
    why = literal(why_unfit(str(type)))
    return f"CASE WHEN {unfit} THEN system.main.error({why}) ELSE #{position} END"


def _unfit(value: str, type: DuckDBPyType, depth: int = 0) -> str | None:
    """SQL that tests a value for parts that Arrow does not carry; None if its type has none."""
    if not may_be_unfit(str(type)):
        return None
    if type.id == "interval":
        return f"system.main.abs(system.main.hour({value})) > {_MOST_HOURS}"
    found = _UNFIT[type.id](value, type, depth) if type.id in _UNFIT else []
    return " OR ".join([f"({condition})" for condition in found if condition is not None]) or None


def _in_list(value: str, type: DuckDBPyType, depth: int) -> list[str | None]:
    return [_any(value, _parts(type)[0][1], depth)]


def _any(values: str, type: DuckDBPyType, depth: int) -> str | None:
    element = f"_ivm_{depth}"
    unfit = _unfit(element, type, depth + 1)
    if unfit is None:
        return None
    return f"system.main.len(system.main.list_filter({values}, lambda {element}: {unfit})) > 0"


def _in_map(value: str, type: DuckDBPyType, depth: int) -> list[str | None]:
    (_, keys), (_, values) = _parts(type)
    return [
        _any(f"system.main.map_keys({value})", keys, depth),
        _any(f"system.main.map_values({value})", values, depth),
    ]


def _in_struct(value: str, type: DuckDBPyType, depth: int) -> list[str | None]:
    fields = enumerate(_parts(type), 1)
    return [
        _unfit(f"system.main.struct_extract_at({value}, {i})", field, depth)
        for i, (_, field) in fields
    ]


def _in_union(value: str, type: DuckDBPyType, depth: int) -> list[str | None]:
    members = [
        (f"system.main.union_extract({value}, {literal(name)})", member)
        for name, member in _parts(type)[1:]  # the first one is the tag
    ]
    empty = " AND ".join([f"{member} IS NULL" for member, _ in members])
    inside = [_unfit(member, type, depth) for member, type in members]
    return [f"{value} IS NOT NULL AND {empty}", *inside]


def _in_variant(value: str, type: DuckDBPyType, depth: int) -> list[str | None]:
    form = f"TRY(system.main.variant_to_parquet_variant({value}))"  # in which Arrow gets it
    return [f"{value} IS NOT NULL AND {form} IS NULL"]


def _parts(type: DuckDBPyType) -> list[tuple[str, DuckDBPyType]]:
    """The types inside of a type (of an array, its size too)."""
    return [(name, part) for name, part in type.children if isinstance(part, DuckDBPyType)]


_UNFIT = {
    "list": _in_list,
    "array": _in_list,
    "map": _in_map,
    "struct": _in_struct,
    "tuple": _in_struct,
    "union": _in_union,
    "variant": _in_variant,
}
