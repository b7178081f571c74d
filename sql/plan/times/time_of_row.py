"""The latest time of what a row of a table is part of, where that follows from the row alone.

Law: whether a row is there makes no difference to rows of a plan that are of a later time. So with
the last window of a row all that it is part of is over, and with the last time to which the
condition of a join lets it look. Not so with sessions, whose end other rows move, with the first of
a group, and with the last row before a time, which is the one for any later time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from sqlglot import exp

from ivm.sql.plan.built_in import call
from ivm.sql.plan.columns import origins
from ivm.sql.plan.expressions import closed, index_of, position, remap, replace, text, used
from ivm.sql.plan.expressions import column as column_of
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
    SetOp,
    TopK,
    Union,
    Unnest,
    ViewScan,
    Window,
    width,
)
from ivm.sql.plan.times.compared_times import at_most
from ivm.sql.plan.times.monotone import column_at_most, rise, start_of_range
from ivm.sql.plan.walks import inputs, with_inputs
from ivm.storage.values.types import ColumnType

_Time: TypeAlias = exp.Expr | None
"""A time over the columns of a plan; None if it does not follow from the row alone."""


_GREATEST = "list_max"


class TimeOfRow(NamedTuple):
    """The latest time of what a row is part of.

    Attributes:
        scan: of the table.
        expr: the time, over the scan's columns.
    """

    scan: Scan
    expr: exp.Expr


def times_of_rows(plan: Plan, column: int) -> list[TimeOfRow]:
    """The times of the rows of the tables below, where they follow from each row alone.

    Args:
        plan: of the rows that are made.
        column: tells their time.
    """
    found = list[TimeOfRow]()

    def look(relation: Scan | ViewScan, time: _Time) -> Plan:
        if isinstance(relation, ViewScan):
            with_times(relation.input, time, look)
        elif time is not None:
            found.append(TimeOfRow(relation, time))
        return relation

    with_times(plan, column_of(column), look)
    return found


def with_times(plan: Plan, time: _Time, image: Callable[[Scan | ViewScan, _Time], Plan]) -> Plan:
    """Returns the plan over images of its relations, made by the time of their rows.

    Args:
        plan: of the rows that are made.
        time: of these, over their columns.
        image: gives for a relation, and the time over its columns, what comes in its place.
    """
    known = dict[tuple[int, str], Plan]()  # a node may be read in many ways

    def made(plan: Plan, time: _Time) -> Plan:
        wanted = id(plan), "" if time is None else text(time)
        if wanted not in known:
            known[wanted] = over(plan, time)
        return known[wanted]

    def over(plan: Plan, time: _Time) -> Plan:
        match plan:
            case Scan() | ViewScan():
                return image(plan, time)
            case Arrivals() | Arrived():
                made(plan.input, time)
                return plan  # what is below is made for it
            case Emit():
                return plan  # what it is made of may go
        times = iter(_below(plan, time))
        return with_inputs(plan, lambda part: made(part, next(times)))

    return made(plan, time)


def _below(plan: Plan, time: _Time) -> list[_Time]:
    """The times of the rows of each input."""
    unknown: list[_Time] = [None for _ in inputs(plan)]
    read = set() if time is None else used(time)
    if time is None or len(read) != 1:
        return unknown
    (at,) = read
    match plan:
        case Project():
            over = replace(time, lambda node: plan.exprs[index_of(node)])
            return [over.transform(_start_of_greatest, copy=False)]
        case Filter() | Distinct() | SetOp() | Union():
            return [time for _ in inputs(plan)]
        case Aggregate() if at < len(plan.groups):
            return [_moved(time, plan.groups[at])]
        case TopK() | Window() if at in plan.partition:
            return [time]
        case GroupRecompute() if (below := origins(plan)[0].get(at)) in plan.partition:
            return [_moved(time, below)]
        case Join():
            return _of_join(plan, time, at)
        case Unnest() if at < len(plan.kept):
            return [_moved(time, plan.kept[at])]
        case Unnest(ordinality=False, call=None) if _rises(time, plan.schema[at]):
            listed = column_of(plan.lists[at - len(plan.kept)])
            return [_of(call(_GREATEST, listed), time)]  # of its elements the greatest counts
    return unknown


def _of(value: exp.Expr, time: exp.Expr) -> exp.Expr:
    """A time, of a value in the place of its column."""
    return replace(time, lambda _: value)


def _start_of_greatest(node: exp.Expr) -> exp.Expr:
    """An expression, or the start of a range that goes down where it is its greatest element."""
    if not isinstance(node, exp.Anonymous) or node.name != _GREATEST:
        return node
    start = start_of_range(node.expressions[0].unnest())
    return node if start is None else closed(start)


def _moved(time: exp.Expr, at: int) -> exp.Expr:
    return _of(column_of(at), time)


def _is_zoned(column: tuple[str, ColumnType]) -> bool:
    return column[1].sql == "TIMESTAMP WITH TIME ZONE"


def _rises(time: exp.Expr, column: tuple[str, ColumnType]) -> bool:
    """Returns whether a later value of a column has no earlier time."""
    return rise(time, zoned=_is_zoned(column)) is not None


def _of_join(plan: Join, time: exp.Expr, at: int) -> list[_Time]:
    """A row of the other side is part of what the condition lets it meet.

    The right side of a join that is made once is met by any later row.
    """
    split = width(plan.left)
    if plan.kind == "full" or (at >= split and plan.kind != "inner"):
        return [None, None]
    met = None if plan.lookup or not _rises(time, plan.schema[at]) else _met(plan, at)
    other = None if met is None else _of(met, time)
    if at < split:
        return [time, other and remap(other, lambda i: i - split)]
    return [other, remap(time, lambda i: i - split)]


def _met(plan: Join, at: int) -> _Time:
    """What a column of one side is at most, over the columns of the other."""
    split = width(plan.left)
    side, start = (plan.left, 0) if at < split else (plan.right, split)
    for known, value in at_most(plan):
        if (known < split) == (at < split):
            found = _limited(side, at - start, known - start, value)
            if found is not None:
                return found
    return None


def _limited(plan: Plan, at: int, known: int, value: exp.Expr) -> _Time:
    """What a column of a plan is at most, in rows where another one is at most a value."""
    if at == known:
        return value
    match plan:
        case Project():
            own, zoned = plan.exprs[at], _is_zoned(plan.schema[known])
            base = column_at_most(plan.exprs[known], value, zoned=zoned)
            if base is None:
                return None
            if used(own) == {base[0]} and _rises(own, plan.input.schema[base[0]]):
                return _of(base[1], own)
            below = position(own)
            return None if below is None else _limited(plan.input, below, *base)
        case Filter() | Distinct() | ViewScan():
            return _limited(plan.input, at, known, value)
    return None
