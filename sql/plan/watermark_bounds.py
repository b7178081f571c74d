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

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from sqlglot import exp

from ivm.sql.plan.calls import WindowCall
from ivm.sql.plan.columns import origins
from ivm.sql.plan.expressions import column, position, replace, text, used
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
    time = _time_of_window(expr, zoned=bound.zoned)
    if time is not None and _kind(time, zoned=bound.zoned) == "strict":
        return bound._replace(expr=replace(time, lambda _: bound.expr.copy()), inclusive=True)
    kind = _kind(expr, zoned=bound.zoned)
    if kind is None:
        return None
    over = replace(expr, lambda _: bound.expr.copy())
    return bound._replace(expr=over, inclusive=bound.inclusive and kind == "strict")


def _time_of_window(expr: exp.Expr, *, zoned: bool) -> exp.Expr | None:
    """The time of which an expression is the end of its window; None for others.

    That end is after the time, in local time too: of one that comes twice DuckDB takes the later.
    """
    end, zone = _at_zone(expr)
    if not isinstance(end, exp.Add) or (zone is not None and not zoned):
        return None
    begin, width = _bare(end.this), _bare(end.expression)
    if not isinstance(begin, exp.DateBin) or _is_shifted(begin):
        return None
    if (
        text(_bare(begin.this)) != text(width)
        or _length(width, zoned=zoned and zone is None) is None
    ):
        return None
    local, same = _at_zone(begin.expression)
    return local if zone == same else None


def _at_zone(expr: exp.Expr) -> tuple[exp.Expr, str | None]:
    """What is brought to or from a constant time zone, and the zone."""
    expr = _bare(expr)
    if not isinstance(expr, exp.AtTimeZone) or not isinstance(expr.args["zone"], exp.Literal):
        return expr, None
    return _bare(expr.this), expr.args["zone"].name


def _bare(expr: exp.Expr) -> exp.Expr:
    while isinstance(expr, exp.Paren):
        expr = expr.this
    return expr


def _kind(expr: exp.Expr, *, zoned: bool) -> str | None:
    """Whether a function rises with its column ("strict"), or does not fall ("weak"); else None."""
    if isinstance(expr, exp.Paren):
        return _kind(expr.this, zoned=zoned)
    if isinstance(expr, exp.Column):
        return "strict"
    argument, kind = _step(expr, zoned=zoned)
    inner = None if argument is None or kind is None else _kind(argument, zoned=zoned)
    return inner and ("weak" if "weak" in (inner, kind) else "strict")


def _step(expr: exp.Expr, *, zoned: bool) -> tuple[exp.Expr | None, str | None]:
    """The argument with which an expression rises, all others being constants, and how."""
    match expr:
        case exp.Add():
            left, right = expr.this, expr.expression
            moving, other = (left, right) if used(left) else (right, left)
            return moving, _shift(moving, other, zoned=zoned)
        case exp.Sub():
            return expr.this, _shift(expr.this, expr.expression, zoned=zoned)
        case exp.DateBin() if not used(expr.this) and not _is_shifted(expr):
            fixed = _length(expr.this, zoned=zoned)
            return expr.expression, fixed and "weak"
        case exp.Anonymous() if expr.name.lower() == "time_bucket" and len(expr.expressions) == 3:
            width, moving, origin = expr.expressions
            offset = used(width) or used(origin) or isinstance(_bare(origin), exp.Interval)
            fixed = None if offset else _length(width, zoned=zoned)
            return moving, fixed and "weak"
        case exp.TimestampTrunc() | exp.DateTrunc() if not zoned:
            return expr.this, "weak"
        case exp.Cast() if text(expr.to) in _ZONED and zoned:  # it has the type
            return expr.this, "strict"
        case exp.Cast() if text(expr.to) == "TIMESTAMP" and not (zoned or expr.args.get("safe")):
            return expr.this, "strict"
        case exp.Cast() if text(expr.to) == "DATE" and not (zoned or expr.args.get("safe")):
            return expr.this, "weak"
        case _:
            return None, None


def _is_shifted(bucket: exp.DateBin) -> bool:
    """Returns whether buckets begin elsewhere by an offset or an origin."""
    return any(bucket.args.get(part) for part in ("unit", "zone", "origin"))


def _shift(moving: exp.Expr, by: exp.Expr, *, zoned: bool) -> str | None:
    """How a time rises with the one that a constant is added to.

    With months only days do: the 30th of January at noon and the 31st at ten come to one day.
    """
    kind = _length(by, zoned=zoned)
    whole = exp.DateBin | exp.TimestampTrunc | exp.DateTrunc
    begin = _bare(moving)
    days = isinstance(begin, whole) and _unit(_width(begin)) in _DAYS | _MONTHS
    return None if kind == "weak" and not days else kind


def _width(begin: exp.Expr) -> exp.Expr:
    """The unit, or the interval, whose beginning an expression is."""
    found = begin.this if isinstance(begin, exp.DateBin) else begin.args["unit"]
    assert isinstance(found, exp.Expr)
    return found


def _unit(width: exp.Expr) -> str:
    unit = width.args.get("unit") if isinstance(width, exp.Interval) else width
    return str(unit or "").upper().strip("'").removesuffix("S")


_ZONED = frozenset(["TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE"])
_FIXED = frozenset(["HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"])
_DAYS = frozenset(["DAY", "WEEK"])
_MONTHS = frozenset(["MONTH", "QUARTER", "YEAR"])


def _length(expr: exp.Expr, *, zoned: bool) -> str | None:
    """How a time rises with the one that an interval is added to; None if that is not known."""
    expr = _bare(expr)
    if not isinstance(expr, exp.Interval) or not isinstance(expr.this, exp.Literal):
        return None
    unit = _unit(expr)
    if unit in _FIXED or (unit in _DAYS and not zoned):
        return "strict"
    return "weak" if unit in _MONTHS and not zoned else None


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
    spans = _spans_of_sessions(plan)
    if spans is None:
        return found
    end, time, below = spans
    return [
        Bounded(each.relation, {**each.columns, **({end: at[time]} if time in at else {})})
        for each, at in zip(found, [b.columns for b in bounds(below, times)], strict=True)
    ]


_SESSION_END = re.compile(
    r"CASE WHEN (c(\d+) \+ INTERVAL '\d+' \w+) >= c(\d+) THEN NULL ELSE \1 END"
)
"""The end of a session, in the last of its rows."""
_SESSION_BEGIN = re.compile(
    r"CASE WHEN (c(\d+)) - INTERVAL '\d+' \w+ <= c(\d+) THEN NULL ELSE \1 END"
)
"""The begin of a session, in the first of its rows."""


def _spans_of_sessions(plan: Window) -> tuple[int, int, Plan] | None:
    """The end of sessions among a window's columns, as `ivm.sql.statements.own.windows` writes it.

    A row joins a session if its time is at most the session's end. So a session whose end is before
    all times that come is final, and so are the rows in it. Nothing else may be computed by the two
    windows, since their partitions go on.

    Returns:
        The column of the end, and the time's in the plan below the two windows; None if it is no
        such window.
    """
    project = plan.input
    if not isinstance(project, Project) or not isinstance(project.input, Window):
        return None
    spans, moved = project.input, [position(e) for e in project.exprs]
    if [moved[i] for i in plan.partition] != list(spans.partition) or len(spans.order) != 1:
        return None
    time, count = spans.order[0].column, width(spans.input)
    order = [(moved[key.column], key.descending) for key in plan.order]
    if order != [(time, False)] or spans.order[0].descending:
        return None
    sides = [_neighbour(call, time) for call in spans.calls]
    marks = [_mark(expr, time, count, sides) for expr in project.exprs]
    if None in sides or "other" in marks:
        return None
    ends = [_span(call, marks) for call in plan.calls]
    if None in ends or "end" not in ends:
        return None
    return width(project) + ends.index("end"), time, spans.input


def _neighbour(call: WindowCall, time: int) -> str | None:
    """Which row's time a call gives: that of the one before ("lag") or behind ("lead")."""
    name = call.function.name.lower()
    plain = call.frame is None and not call.ignore_nulls
    known = [position(e) for e in call.function.expressions] == [time]
    return name if plain and known and name in ("lag", "lead") else None


def _mark(expr: exp.Expr, time: int, count: int, sides: Sequence[str | None]) -> str:
    """What an expression tells of sessions: their "begin", their "end", "nothing", or "other".

    Args:
        expr: over the columns of the lower window.
        time: the column of the time.
        count: the columns below its calls.
        sides: the row whose time each of them gives.
    """
    if all(i < count for i in used(expr)):
        return "nothing"
    for pattern, what, side in ((_SESSION_BEGIN, "begin", "lag"), (_SESSION_END, "end", "lead")):
        told = pattern.fullmatch(text(expr))
        if told and int(told[2]) == time and sides[int(told[3]) - count] == side:
            return what
    return "other"


def _span(call: WindowCall, marks: Sequence[str]) -> str | None:
    """The side of the session that a call gives to its rows; None if it gives anything else."""
    at = position(call.function.expressions[0]) if len(call.function.expressions) == 1 else None
    what = None if at is None else marks[at]
    frame = "" if call.frame is None else text(call.frame).upper()
    wanted = {
        "begin": ("last_value", ""),
        "end": ("first_value", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"),
    }
    told = call.function.name.lower(), frame
    return what if what in wanted and call.ignore_nulls and told == wanted[what] else None


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
        if (end := _end_of_range(plan.input.exprs[at])) is not None
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


def _end_of_range(expr: exp.Expr) -> exp.Expr | None:
    """Where a range that goes down ends, exclusively; None for other expressions."""
    down = isinstance(expr, exp.GenerateSeries) and isinstance(expr.args.get("step"), exp.Neg)
    if not down or not expr.args.get("is_end_exclusive"):
        return None
    end, step = expr.args["end"], _bare(expr.args["step"].this)
    if _length(step, zoned=False) is None or not step.name.isdecimal():
        return None  # the name of an interval is that of its number, which may be negative
    assert isinstance(end, exp.Expr)
    return end
