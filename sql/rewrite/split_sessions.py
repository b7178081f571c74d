"""Groups of sessions: aggregates by their beginnings, joined with their ends.

Law: a session's end is a function of its partition and its beginning. So the aggregates of a group
by all three are those of a group by the first two, and only the rows where a session begins or ends
tell the end: a row that extends a session changes its end once, and not in each of its rows.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from ivm.sql.plan.expressions import cast, column, joined, position, text, used
from ivm.sql.plan.nodes import Aggregate, Filter, Join, Plan, Project, Window, types, width
from ivm.sql.plan.times.session_spans import bounds_of_sessions
from ivm.sql.plan.walks import with_inputs
from ivm.sql.rewrite.expand_joins import picked


def split_sessions(plan: Aggregate) -> Plan | None:
    """The groups of sessions as a join; None where other groups are asked for.

    The groups' keys are the partition, the beginning, the end and any others.
    """
    window = _sessions(plan.input)
    bounds = None if window is None else bounds_of_sessions(window)
    origin = None if bounds is None else _origins(plan.input, bounds[1])
    if window is None or bounds is None or origin is None:
        return None
    begin, end = bounds
    keys = [origin[i] for i in plan.groups]
    read = {i for call in plan.aggregates for i in (*call.arguments, call.filter) if i is not None}
    ordered = {key.column for call in plan.aggregates for key in call.order}
    wanted = [*[_base(window, i) for i in window.partition], _base(window, begin)]
    known = [None if i is None else _base(window, i) for i in keys]
    if keys.count(end) != 1 or any(origin[i] == end for i in read | ordered):
        return None
    if any(key not in known for key in wanted):
        return None
    groups = replace(plan, input=_with_no_end(plan.input, window, end))
    ends = picked(_ends(window), [*window.partition, begin, end])
    left_keys = tuple([known.index(key) for key in wanted])
    safe = (True,) * len(wanted)
    join = Join(groups, ends, "inner", left_keys, tuple(range(len(wanted))), safe)
    exprs: list[exp.Expr] = [column(i) for i in range(width(plan))]
    exprs[keys.index(end)] = column(width(join) - 1)
    return Project(join, tuple(exprs), plan.schema)


def _sessions(plan: Plan) -> Window | None:
    """The window below projections and filters."""
    while isinstance(plan, Project | Filter):
        plan = plan.input
    return plan if isinstance(plan, Window) else None


def _origins(plan: Plan, end: int) -> list[int | None] | None:
    """The window's column that each column is; None if the end is not merely passed on."""
    if isinstance(plan, Window):
        return list(range(width(plan)))
    assert isinstance(plan, Project | Filter)
    below = _origins(plan.input, end)
    if below is None:
        return None
    exprs = plan.exprs if isinstance(plan, Project) else (plan.predicate,)
    found = [position(expr) for expr in exprs]
    computed = [expr for expr, at in zip(exprs, found, strict=True) if at is None]
    if any(below[i] == end for expr in computed for i in used(expr)):
        return None
    return below if isinstance(plan, Filter) else [None if i is None else below[i] for i in found]


def _base(window: Window, at: int) -> str:
    """A column of the window by what it is computed of, so that copies are known as one."""
    marks = window.input
    if at >= width(marks) or not isinstance(marks, Project):
        return f"call {at}"
    spans, below = marks.input, position(marks.exprs[at])
    if below is None or not isinstance(spans, Window) or not isinstance(spans.input, Project):
        return f"mark {at}" if below is None else f"column {below}"
    return text(spans.input.exprs[below]) if below < width(spans.input) else f"time {below}"


def _with_no_end(plan: Plan, window: Window, end: int) -> Plan:
    """The plan with NULL in the place of the end."""
    if plan is not window:
        return with_inputs(plan, lambda part: _with_no_end(part, window, end))
    count, at = width(window.input), end - width(window.input)
    calls, schema = list(window.calls), list(window.schema)
    del calls[at], schema[end]
    rows = replace(window, calls=tuple(calls), schema=tuple(schema))
    exprs: list[exp.Expr] = [
        column(i if i < end else i - 1) for i in range(count + len(window.calls))
    ]
    exprs[end] = cast(exp.null(), types(window)[end])
    return Project(rows, tuple(exprs), window.schema)


def _ends(window: Window) -> Plan:
    """The window at the beginnings alone, of which each session has one."""
    marks = [position(call.function.expressions[0]) for call in window.calls]
    present = [_present(column(at)) for at in marks if at is not None]
    some = Filter(window.input, joined(exp.Or, present))
    begin = bounds_of_sessions(window)
    assert begin is not None
    first = marks[begin[0] - width(window.input)]
    assert first is not None
    return Filter(replace(window, input=some), _present(column(first)))


def _present(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=value, expression=exp.Null()))
