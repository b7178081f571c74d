"""What aggregates give over no row at all.

Law: DuckDB itself is asked, over an empty relation of the same types: COUNT is 0, most are NULL.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.bind_types import typed_nulls
from ivm.sql.columns import cast, column, text
from ivm.sql.plan import Aggregate, Expr, GroupRecompute, NotIncremental, types
from ivm.sql.render import call_text
from ivm.storage.duck import Cursor, rows
from ivm.storage.types import ColumnType


def without_groups(plan: object) -> bool:
    """Whether the node is an aggregate that has its one row also over no rows."""
    if isinstance(plan, Aggregate):
        return not plan.groups
    return isinstance(plan, GroupRecompute) and plan.grouped and not plan.partition


def empty_values(plan: Aggregate | GroupRecompute, cursor: Cursor) -> list[Expr]:
    """The row of an aggregate without groups over no rows, as constants."""
    calls = (
        [call_text(call) for call in plan.aggregates]
        if isinstance(plan, Aggregate)
        else [text(e) for e in plan.exprs]
    )
    listed = ", ".join(f"CAST({call} AS VARCHAR)" for call in calls)
    given = typed_nulls(types(plan.input))
    found = rows(cursor, f"SELECT {listed} FROM ({given}) AS t WHERE FALSE")
    return [_constant(value, type) for value, type in zip(found[0], types(plan), strict=True)]


def _constant(value: str | None, type: ColumnType) -> Expr:
    if value is None:
        return cast(exp.Null(), type)
    if not (type.is_integer or type.is_float or type.is_decimal):
        raise NotIncremental(f"an aggregate that gives {value} for no rows, in a subquery")
    return cast(exp.Literal.string(value), type)


def filled(index: int, value: Expr) -> Expr:
    """A column of an outer join, with the empty group's value where there is no partner.

    An aggregate that is not NULL over no rows is never NULL.
    """
    if isinstance(value, exp.Cast) and isinstance(value.this, exp.Null):
        return column(index)
    return exp.Coalesce(this=column(index), expressions=[value.copy()])
