"""The latest time of what a row of a table is part of, where that follows from the row alone.

Law: a plan's rows of a time are made of rows of which it is the time, and of no others. So with the
last window of a row all that it is part of is over. Not so with sessions, whose end other rows
move, with the first of a group, and with joins, by which a row may be part of any later one.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from ivm.sql.plan.built_in import call
from ivm.sql.plan.columns import origins
from ivm.sql.plan.expressions import column as column_of
from ivm.sql.plan.expressions import index_of, replace, used
from ivm.sql.plan.nodes import (
    Aggregate,
    Arrivals,
    Arrived,
    Distinct,
    Emit,
    Filter,
    GroupRecompute,
    Join,
    Plan,
    Project,
    Scan,
    TopK,
    Union,
    Unnest,
    ViewScan,
    Window,
    width,
)


class TimeOfRow(NamedTuple):
    """The latest time of what a row is part of.

    Attributes:
        scan: of the table.
        expr: the time, over the scan's columns.
    """

    scan: Scan
    expr: exp.Expr


def times_of_rows(plan: Plan, column: int) -> list[TimeOfRow] | None:
    """The times of the rows of all tables below; None if they do not follow from each row alone.

    Args:
        plan: of the rows that are made.
        column: tells their time.
    """
    return _over(plan, column_of(column))


def _over(plan: Plan, expr: exp.Expr) -> list[TimeOfRow] | None:
    """The times that an expression over one column of a plan tells."""
    read = used(expr)
    if len(read) != 1:
        return None
    (at,) = read
    match plan:
        case Scan():
            return [TimeOfRow(plan, expr)]
        case Project():
            return _over(plan.input, replace(expr, lambda node: plan.exprs[index_of(node)]))
        case Filter() | Distinct() | ViewScan() | TopK() | Window() | Aggregate():
            return _moved(plan.input, expr, origins(plan)[0].get(at))
        case Arrivals() | Arrived():
            return _over(plan.input, expr)
        case GroupRecompute():
            below = origins(plan)[0].get(at)
            return _moved(plan.input, expr, below if below in plan.partition else None)
        case Join() if plan.lookup and at < width(plan.left):
            return _over(plan.left, expr)
        case Unnest(ordinality=False, call=None):
            return _of_unnest(plan, expr, at)
        case Emit():  # what it is made of may go
            return []
        case Union():
            found = [_over(part, expr) for part in plan.inputs]
            return None if None in found else [each for part in found for each in part or ()]
        case _:
            return None


def _moved(plan: Plan, expr: exp.Expr, at: int | None) -> list[TimeOfRow] | None:
    return None if at is None else _over(plan, replace(expr, lambda _: column_of(at)))


def _of_unnest(plan: Unnest, expr: exp.Expr, at: int) -> list[TimeOfRow] | None:
    """Of the elements of a list the greatest counts."""
    if at < len(plan.kept):
        return _moved(plan.input, expr, plan.kept[at])
    listed = column_of(plan.lists[at - len(plan.kept)])
    greatest = call("list_max", listed)
    return _over(plan.input, replace(expr, lambda _: greatest.copy()))
