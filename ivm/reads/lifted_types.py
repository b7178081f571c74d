"""The types in which a query computes with literals that were lifted out of its text.

Law: in its place, a literal means what a value of the type found here means, as long as the literal
is within the type's bound. DuckDB gives an integer in a query the smallest type that holds it, and
a string the type of what it is compared with; a place where that can matter has no type here.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence

from sqlglot import exp

from ivm.sql.plan.expressions import position
from ivm.storage.values.types import ColumnType

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between)
_SUMS = (exp.Add, exp.Sub, exp.Mul)
_ARITHMETIC = (*_SUMS, exp.Mod, exp.IntDiv)
_COMPUTED = ("INTEGER", "BIGINT", "DOUBLE")
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}( [0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?)?")
BOUNDS: Mapping[str, int] = {"INTEGER": (1 << 31) - 1, "DOUBLE": 1 << 53}
"""The greatest integers that are values of these types like any other; others have room for all."""


def literal_type(value: int | str) -> str:
    """The type of a lifted literal; a string that is a date or time can be a VARCHAR, too."""
    if isinstance(value, int):
        return "BIGINT"
    if not _MOMENT.fullmatch(value):
        return "VARCHAR"
    try:
        datetime.datetime.fromisoformat(value)
    except ValueError:
        return "VARCHAR"
    return "DATE" if len(value) == len("2024-01-01") else "TIMESTAMP"


def type_in_place(node: exp.Expr, kind: str, types: Sequence[ColumnType]) -> str | None:
    """Returns the type that a literal is to be given.

    Args:
        node: the literal, in an expression over columns by position.
        kind: the literal's own type.
        types: of these columns.

    Returns:
        The type's name; None if the literal's own type, or its value, may matter.
    """
    above = node.parent
    while isinstance(above, exp.Paren):
        node, above = above, above.parent
    if isinstance(above, _COMPARISONS):
        return _compared(above, kind, types)
    if not isinstance(above, _ARITHMETIC) or kind != "BIGINT":
        return None
    found = _computed(above, types)
    return found or None


def _compared(node: exp.Expr, kind: str, types: Sequence[ColumnType]) -> str | None:
    """The type of the columns that a comparison compares."""
    sides = (node.this,) if isinstance(node, exp.Between) else (node.this, node.expression)
    compared = {types[i] for i in map(position, sides) if i is not None}
    if len(compared) != 1 or not _fits(kind, *compared):
        return None
    (type,) = compared
    return "BIGINT" if type.is_integer else type.sql


def _fits(kind: str, column: ColumnType) -> bool:
    """Returns whether a literal is compared with a column as a value of the column's type is."""
    if kind == "BIGINT":
        return column.sql == "DOUBLE" or (column.is_integer and column.is_word)
    moments = {"DATE": ("DATE", "TIMESTAMP"), "TIMESTAMP": ("TIMESTAMP",)}
    return column.sql == "VARCHAR" or column.sql in moments.get(kind, ())


def _computed(node: exp.Expr, types: Sequence[ColumnType]) -> str | None:
    """The type of an expression of columns of one type and integers: "" of an integer alone, None
    of any other expression."""
    if isinstance(node, exp.Paren):
        return _computed(node.this, types)
    at = position(node)
    if at is not None:
        return types[at].sql if types[at].sql in _COMPUTED else None
    if isinstance(node, exp.Literal):
        small = node.name.isdecimal() and int(node.name) <= BOUNDS["INTEGER"]
        return "" if small and not node.is_string else None
    if not isinstance(node, _ARITHMETIC):
        return None
    found = {_computed(node.this, types), _computed(node.expression, types)} - {""}
    type = found.pop() if len(found) == 1 else None  # DuckDB computes integers alone by itself
    return None if type == "DOUBLE" and not isinstance(node, _SUMS) else type
