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

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from sqlglot import exp

from ivm.sql.plan.columns import origins
from ivm.sql.plan.expressions import column, replace, used
from ivm.sql.plan.monotone import end_of_range, rise, time_of_window
from ivm.sql.plan.nodes import (
    Aggregate,
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
    inputs,
    width,
)
from ivm.sql.plan.session_spans import spans_of_sessions


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


def bounds(plan: Plan, times: Times) -> list[Bounded]:
    """The bounds of a plan's columns, for each scan of a table with a watermark."""
    match plan:
        case Scan():
            return _of_scan(plan, times)
        case ViewScan() | Filter() | Distinct():
            return bounds(plan.input, times)
        case Emit():  # its rows come when that one column is passed
            return [each.only(plan.by) for each in bounds(plan.input, times)]
        case Project():
            return _mapped(bounds(plan.input, times), plan.exprs)
        case Join():
            return _of_join(plan, times)
        case Aggregate():
            return _of_group(plan, plan.groups, times)
        case GroupRecompute() | TopK():
            return _of_group(plan, plan.partition, times)
        case Window():
            return _of_window(plan, times)
        case Union(negated=()) | SetOp():
            return [each for part in inputs(plan) for each in bounds(part, times)]
        case Unnest():
            return _of_unnest(plan, times)
        case _:
            found = [each for part in inputs(plan) for each in bounds(part, times)]
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


def _of_join(plan: Join, times: Times) -> list[Bounded]:
    """A pair is final when both of its rows are; a row without a match when none can come."""
    left, right = bounds(plan.left, times), bounds(plan.right, times)
    split = width(plan.left)
    keys = dict(zip(plan.left_keys, plan.right_keys, strict=True))
    equal = {right: left for left, right in keys.items()}
    if plan.kind == "full":
        return [Bounded(each.relation, {}) for each in (*left, *right)]
    passed = [
        Bounded(
            each.relation,
            _with(each.columns, keys, split) if plan.kind == "inner" else each.columns,
        )
        for each in left
    ]
    for each in right:
        met = {equal[i]: bound for i, bound in each.columns.items() if i in equal}
        own = {split + i: bound for i, bound in each.columns.items()}
        passed.append(Bounded(each.relation, {**met, **(own if plan.kind == "inner" else {})}))
    return passed


def _with(columns: Mapping[int, Bound], keys: Mapping[int, int], split: int) -> Mapping[int, Bound]:
    """The bounds of the left side, of the right columns that are equal to its own too."""
    return {**columns, **{split + keys[i]: bound for i, bound in columns.items() if i in keys}}


def _of_group(
    plan: Aggregate | GroupRecompute | TopK | Window, by: Sequence[int], times: Times
) -> list[Bounded]:
    """A group is final when none of its rows can change: only the bounds of its keys tell."""
    (own,) = origins(plan)
    return [
        Bounded(
            each.relation,
            {i: each.columns[at] for i, at in own.items() if at in by and at in each.columns},
        )
        for each in bounds(plan.input, times)
    ]


def _of_window(plan: Window, times: Times) -> list[Bounded]:
    found = _of_group(plan, plan.partition, times)
    spans = spans_of_sessions(plan)
    if spans is None:
        return found
    end, time, below = spans
    return [
        Bounded(each.relation, {**each.columns, **({end: at[time]} if time in at else {})})
        for each, at in zip(found, [b.columns for b in bounds(below, times)], strict=True)
    ]


def _of_unnest(plan: Unnest, times: Times) -> list[Bounded]:
    """Elements of a range that ends at a bounded time are after that time."""
    below = bounds(plan.input, times)
    found = []
    for each, elements in zip(below, _ranges(plan, times), strict=True):
        kept = {i: each.columns[at] for i, at in enumerate(plan.kept) if at in each.columns}
        found.append(Bounded(each.relation, {**kept, **elements.columns}))
    return found


def _ranges(plan: Unnest, times: Times) -> list[Bounded]:
    """The bounds of the elements of the lists."""
    if plan.call is not None or plan.outer or not isinstance(plan.input, Project):
        return [Bounded(each.relation, {}) for each in bounds(plan.input, times)]
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
        for each in bounds(plan.input.input, times)
    ]
