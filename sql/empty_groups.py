"""What aggregates give over no row at all.

Law: DuckDB itself is asked, over an empty relation of the same types: COUNT is 0, most are NULL.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from ivm.sql.bind_types import typed_nulls
from ivm.sql.columns import cast, column, text
from ivm.sql.placeholders import is_free
from ivm.sql.plan import (
    Aggregate,
    Distinct,
    Expr,
    GroupRecompute,
    NotIncremental,
    Plan,
    SetOp,
    Union,
    inputs,
    types,
)
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


def refuse_lost_rows(plan: Plan, query: int, cursor: Cursor) -> None:
    """Refuse a nested query of which DuckDB loses rows, so that the view gives what DuckDB does.

    A correlated aggregate without groups, NULL over no rows, has no row there if it stands below a
    DISTINCT or a set operation (DuckDB 2.0; with COUNT it has one, as SQL wants it).

    Args:
        query: its number.

    Raises:
        NotIncremental: it may be one.
    """
    for node in _below(plan):
        if isinstance(node, Distinct | Union | SetOp):
            for part in _below(node):
                if _is_null_for_none(part, query, cursor):
                    raise NotIncremental(
                        "a correlated aggregate below DISTINCT or a set operation, which has no"
                        " row for no rows in DuckDB"
                    )


def _below(plan: Plan) -> Iterator[Plan]:
    """The plan and all below it."""
    yield plan
    for part in inputs(plan):
        yield from _below(part)


def _is_null_for_none(plan: Plan, query: int, cursor: Cursor) -> bool:
    if not isinstance(plan, Aggregate | GroupRecompute) or not without_groups(plan):
        return False
    return is_free(plan, query) and all(_is_null(v) for v in empty_values(plan, cursor))


def _is_null(value: Expr) -> bool:
    return isinstance(value, exp.Cast) and isinstance(value.this, exp.Null)


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
    if _is_null(value):
        return column(index)
    return exp.Coalesce(this=column(index), expressions=[value.copy()])
