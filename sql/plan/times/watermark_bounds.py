"""Bounds: what a watermark says of the columns of a plan.

Law: if all further rows of a table have times from W on, then a change of the table changes only
rows of the plan whose values in the columns of `bounds` are from the bound's value at W on (after
it, where the bound is inclusive). So a row whose value is before it is final, as far as this table
goes. A bound is a function of W that never falls as W rises: sums with constants, buckets, and
casts to less precise types. Each node passes on what the law allows: a filter all bounds, a
projection those of its functions of one column, a join those of both sides, a group those of its
keys, a partition likewise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from sqlglot import exp

from ivm.sql.plan.columns import origins
from ivm.sql.plan.expressions import column, replace, used
from ivm.sql.plan.nearest_row import Nearest, nearest_row
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
from ivm.sql.plan.times.compared_times import AtLeast, at_least
from ivm.sql.plan.times.monotone import column_at_least, end_of_range, rise, time_of_window
from ivm.sql.plan.times.session_spans import spans_of_sessions
from ivm.sql.plan.walks import inputs


class Bound(NamedTuple):
    """What the values of a column are from.

    Attributes:
        expr: over W, which is `c0`.
        inclusive: whether a value that is the bound is passed too: the values are after it.
        zoned: whether W is a TIMESTAMPTZ: its days, and its local times, do not rise with it.
    """

    expr: exp.Expr
    inclusive: bool = False
    zoned: bool = False


class Bounded(NamedTuple):
    """The bounds of the columns of a plan by one table; of a table that is read twice, two.

    Attributes:
        relation: of the scan.
        columns: by position.
    """

    relation: str
    columns: Mapping[int, Bound]

    def only(self, column: int) -> Bounded:
        """The bound of one column alone."""
        return Bounded(self.relation, {i: b for i, b in self.columns.items() if i == column})


Times: TypeAlias = Callable[[Scan], int | None]
"""The position of the time column of a scan; -1 if the scan has not got it; None if the relation
has no watermark."""
Known: TypeAlias = Callable[[Plan], list[Bounded] | None]
"""The bounds of a plan where they are given; None for those that follow from what is below."""


def bounds(plan: Plan, times: Times) -> list[Bounded]:
    """The bounds of a plan's columns, for each scan of a table with a watermark."""
    return _bounds(plan, lambda node: _of_scan(node, times) if isinstance(node, Scan) else None)


def _bounds(plan: Plan, known: Known) -> list[Bounded]:
    given = known(plan)
    if given is not None:
        return given
    match plan:
        case ViewScan() | Filter() | Distinct():
            return _bounds(plan.input, known)
        case Emit():  # its rows come when that one column is passed
            return [each.only(plan.by) for each in _bounds(plan.input, known)]
        case Arrived():  # its rows come with those of one relation, whatever others do
            return _bounds(plan.input, known)
        case Arrivals():
            return _bounds(plan.input, known)
        case Project():
            return _of_project(plan, known)
        case Join() if plan.lookup:
            return _bounds(plan.left, known)
        case Join():
            return _of_join(plan, known)
        case Aggregate():
            return _of_aggregate(plan, known)
        case GroupRecompute() | TopK():
            return _of_group(plan, plan.partition, _bounds(plan.input, known))
        case Window():
            return _of_window(plan, known)
        case Union(negated=()) | SetOp():
            return [each for part in inputs(plan) for each in _bounds(part, known)]
        case Unnest():
            return _of_unnest(plan, known)
        case _:
            found = [each for part in inputs(plan) for each in _bounds(part, known)]
            return [Bounded(each.relation, {}) for each in found]


def _of_scan(plan: Scan, times: Times) -> list[Bounded]:
    at = times(plan)
    if at is None:
        return []
    if at < 0:
        return [Bounded(plan.relation, {})]
    zoned = plan.schema[at][1].sql == "TIMESTAMP WITH TIME ZONE"
    return [Bounded(plan.relation, {at: Bound(column(0), zoned=zoned)})]


def _mapped(found: Iterable[Bounded], exprs: Sequence[exp.Expr]) -> list[Bounded]:
    """The bounds of expressions over columns."""
    return [
        Bounded(
            each.relation,
            {
                i: bound
                for i, expr in enumerate(exprs)
                if (bound := _of_expression(expr, each.columns)) is not None
            },
        )
        for each in found
    ]


def _of_expression(expr: exp.Expr, columns: Mapping[int, Bound]) -> Bound | None:
    """The bound of a function that never falls as its only column rises; None if it is none."""
    read = used(expr)
    if len(read) != 1 or not read <= columns.keys():
        return None
    (bound,) = [columns[i] for i in read]
    time = time_of_window(expr, zoned=bound.zoned)
    if time is not None and rise(time, zoned=bound.zoned) == "strict":
        return bound._replace(expr=replace(time, lambda _: bound.expr.copy()), inclusive=True)
    kind = rise(expr, zoned=bound.zoned)
    if kind is None:
        return None
    over = replace(expr, lambda _: bound.expr.copy())
    return bound._replace(expr=over, inclusive=bound.inclusive and kind == "strict")


def _of_project(plan: Project, known: Known) -> list[Bounded]:
    last = nearest_row(plan) if known(plan.input) is None else None
    if last is None or not last.is_last or not isinstance(plan.input, Join):
        return _mapped(_bounds(plan.input, known), plan.exprs)
    return _mapped(_of_join(plan.input, known, last), plan.exprs)


def _of_join(plan: Join, known: Known, last: Nearest | None = None) -> list[Bounded]:
    """A pair is final when both of its rows are; a row without a match when none can come.

    What the condition of the join says of one side's times by the other's bounds those too.

    Args:
        plan: the join.
        known: see `Known`.
        last: the right side, if it is an ASOF join.
    """
    left = _bounds(plan.left, known)
    right = (
        _bounds(plan.right, known)
        if last is None
        else _mapped(_bounds(last.rows, known), last.exprs)
    )
    if plan.kind == "full":
        return [Bounded(each.relation, {}) for each in (*left, *right)]
    split, told, inner = width(plan.left), at_least(plan), plan.kind == "inner"
    of_right = [(at - split, expr) for at, expr in told if at >= split]
    changed = plan if last is None else dataclasses.replace(plan, residual=last.begins)
    of_left = [(at, expr) for at, expr in at_least(changed) if at < split]
    found = []
    for each in left:
        met = _across(plan.right, each.columns, of_right) if inner else {}
        found.append(Bounded(each.relation, {**each.columns, **_moved(met, split)}))
    for each in right:
        own = _moved(each.columns, split)
        passed = own if inner and last is None else {}
        found.append(Bounded(each.relation, {**_across(plan.left, own, of_left), **passed}))
    return found


def _moved(columns: Mapping[int, Bound], by: int) -> Mapping[int, Bound]:
    return {by + i: bound for i, bound in columns.items()}


def _across(
    side: Plan, columns: Mapping[int, Bound], told: Sequence[AtLeast]
) -> Mapping[int, Bound]:
    """The bounds of one side of a join by those of the other.

    Args:
        side: the plan of that side.
        columns: the bounds of the other, by the positions in the join.
        told: what the columns of the side are at least, by those positions.
    """
    found = dict[int, Bound]()
    for at, expr in told:
        bound = _of_expression(expr, columns)
        if bound is not None:
            found = {**_spread(side, at, bound), **found}
    return found


def _spread(plan: Plan, at: int, bound: Bound) -> Mapping[int, Bound]:
    """The bounds of the columns of rows of which one column is bounded, by what is made of it."""
    below, column, base = _made_of(plan, at, bound)
    given = [Bounded("", {column: base})]
    (found,) = _bounds(plan, lambda node: given if node is below else _none_of(node))
    return {**found.columns, at: bound}


def _made_of(plan: Plan, at: int, bound: Bound) -> tuple[Plan, int, Bound]:
    """The plan, and its column, of which a bounded column is made row by row, and its bound."""
    if isinstance(plan, Project):
        found = column_at_least(plan.exprs[at], bound.expr, zoned=bound.zoned)
        if found is not None:
            return _made_of(plan.input, found[0], bound._replace(expr=found[1]))
    elif isinstance(plan, Filter | Distinct | ViewScan | Unnest):
        below = origins(plan)[0].get(at)
        if below is not None:
            return _made_of(plan.input, below, bound)
    return plan, at, bound


def _none_of(plan: Plan) -> list[Bounded] | None:
    return [] if isinstance(plan, Scan) else None


def _of_group(
    plan: Aggregate | GroupRecompute | TopK | Window, by: Sequence[int], below: list[Bounded]
) -> list[Bounded]:
    """A group is final when none of its rows can change: only the bounds of its keys tell."""
    (own,) = origins(plan)
    return [
        Bounded(
            each.relation,
            {i: each.columns[at] for i, at in own.items() if at in by and at in each.columns},
        )
        for each in below
    ]


def _of_aggregate(plan: Aggregate, known: Known) -> list[Bounded]:
    """The least time of a group, alone, changes only from and to one that is not before a bound."""
    below = _bounds(plan.input, known)
    found = _of_group(plan, plan.groups, below)
    calls = [(call.function, len(call.arguments), call.parameters) for call in plan.aggregates]
    if calls != [("min", 1, ())]:
        return found
    at, (least,) = len(plan.groups), plan.aggregates[0].arguments
    return [
        Bounded(each.relation, {**each.columns, **({at: rows[least]} if least in rows else {})})
        for each, rows in zip(found, [each.columns for each in below], strict=True)
    ]


def _of_window(plan: Window, known: Known) -> list[Bounded]:
    found = _of_group(plan, plan.partition, _bounds(plan.input, known))
    spans = spans_of_sessions(plan)
    if spans is None:
        return found
    end, time, below = spans
    return [
        Bounded(each.relation, {**each.columns, **({end: at[time]} if time in at else {})})
        for each, at in zip(found, [b.columns for b in _bounds(below, known)], strict=True)
    ]


def _of_unnest(plan: Unnest, known: Known) -> list[Bounded]:
    """Elements of a range that ends at a bounded time are after that time."""
    below = _bounds(plan.input, known)
    found = []
    for each, elements in zip(below, _ranges(plan, known), strict=True):
        kept = {i: each.columns[at] for i, at in enumerate(plan.kept) if at in each.columns}
        found.append(Bounded(each.relation, {**kept, **elements.columns}))
    return found


def _ranges(plan: Unnest, known: Known) -> list[Bounded]:
    """The bounds of the elements of the lists."""
    if plan.call is not None or plan.outer or not isinstance(plan.input, Project):
        return [Bounded(each.relation, {}) for each in _bounds(plan.input, known)]
    ends = {
        len(plan.kept) + i: end
        for i, at in enumerate(plan.lists)
        if (end := end_of_range(plan.input.exprs[at])) is not None
    }
    return [
        Bounded(
            each.relation,
            {
                i: bound._replace(inclusive=True)
                for i, end in ends.items()
                if (bound := _of_expression(end, each.columns)) is not None
            },
        )
        for each in _bounds(plan.input.input, known)
    ]
