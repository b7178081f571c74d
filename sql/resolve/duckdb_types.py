"""Types of bound expressions, found by DuckDB over columns of the input's types.

Law: the type of an expression depends on the types of its columns alone (and on the macros and
types that the cursor sees), so one DESCRIBE over typed NULLs finds it without reading a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ivm.sql.statements.text.duckdb_tree import bound_plan, nodes
from ivm.storage.scratch import Scratch
from ivm.storage.values.key_codes import groupable
from ivm.storage.values.types import ColumnType, Schema, type_of
from ivm.storage.warehouse.duckdb.duck import Cursor, describe

probe = Scratch.of().borrow
"""Lends an empty database, for expressions that need none of the user's objects."""


def typed_nulls(types: Sequence[ColumnType]) -> str:
    """Makes a one-row query with columns c0, c1, … of the given types."""
    return "SELECT " + ", ".join(f"NULL::{t.sql} AS c{i}" for i, t in enumerate(types))


def types_of(
    cursor: Cursor, exprs: Sequence[str], schema: Schema, tail: str = ""
) -> tuple[ColumnType, ...]:
    """Returns DuckDB's types of expressions over columns of `schema`.

    Args:
        exprs: SQL over c0, c1, …
        tail: SQL after the FROM clause, e.g. a GROUP BY for aggregates.
    """
    if not exprs:
        return ()
    listed = ", ".join(f"{e} AS c{i}" for i, e in enumerate(exprs))
    source = typed_nulls([t for _, t in schema])
    described = describe(cursor, f"SELECT {listed} FROM ({source}) AS t {tail}")
    return tuple(t for _, t in described)


def comparison_type(cursor: Cursor, left: ColumnType, right: ColumnType) -> ColumnType | None:
    """Returns the type in which DuckDB compares two columns, read from its own bound plan.

    Returns:
        The type; None if the plan does not show it, or another one for `b = a` than for `a = b`,
        or if which of its values are equal is known to DuckDB alone.
    """
    found = left if left == right else _found_type(cursor, left, right)
    return found if found is not None and groupable(found) else None


def _found_type(cursor: Cursor, left: ColumnType, right: ColumnType) -> ColumnType | None:
    query = f"SELECT c0 = c1, c1 = c0 FROM ({typed_nulls([left, right])})"
    found = [n for n in nodes(bound_plan(query, cursor)) if n.get("type") == "COMPARE_EQUAL"]
    if len(found) != 2:
        return None
    sides = {_type_name(_compared(side)) for equal in found for side in equal["children"]}
    return type_of(sides.pop()) if len(sides) == 1 and None not in sides else None


def _compared(side: dict[str, Any]) -> dict[str, Any]:
    """The column, or its cast: without the function that DuckDB puts around both sides of a type
    whose values' bytes do not compare as the values do (BIT, TIME WITH TIME ZONE, …)."""
    is_cast = side["type"] == "OPERATOR_CAST"
    is_function = side["expression_class"] == "BOUND_FUNCTION" and not is_cast
    return _compared(side["children"][0]) if is_function else side


def _type_name(side: dict[str, Any]) -> str | None:
    """The SQL name of a plain or DECIMAL type in a serialized plan; None for other types."""
    type = side["return_type"]
    info = type["type_info"]
    if type["id"] == "DECIMAL":
        return f"DECIMAL({info['width']},{info['scale']})"
    return None if info else str(type["id"])
