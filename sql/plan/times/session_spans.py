"""Sessions in a plan: the two windows that `ivm.sql.statements.own.windows` writes for them.

Law: a row joins a session if its time is at most the session's end. So a session whose end is
before all times that come is final, and so are the rows in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from ivm.sql.plan.calls import WindowCall
from ivm.sql.plan.expressions import position, text, used
from ivm.sql.plan.nodes import Plan, Project, Window, width

_SESSION_END = re.compile(
    r"CASE WHEN (c(\d+) \+ INTERVAL '\d+' \w+) >= c(\d+) THEN NULL ELSE \1 END"
)
"""The end of a session, in the last of its rows."""
_SESSION_BEGIN = re.compile(
    r"CASE WHEN (c(\d+)) - INTERVAL '\d+' \w+ <= c(\d+) THEN NULL ELSE \1 END"
)
"""The begin of a session, in the first of its rows."""


def spans_of_sessions(plan: Window) -> tuple[int, int, Plan] | None:
    """The end of sessions among a window's columns, as `ivm.sql.statements.own.windows` writes it.

    Nothing else may be computed by the two windows, since their partitions go on.

    Returns:
        The column of the end, and the time's in the plan below the two windows; None if it is no
        such window.
    """
    spans = _spans(plan)
    if spans is None or "end" not in spans:
        return None
    below = plan.input
    assert isinstance(below, Project)
    assert isinstance(below.input, Window)
    return width(below) + spans.index("end"), below.input.order[0].column, below.input.input


def bounds_of_sessions(plan: Window) -> tuple[int, int] | None:
    """The columns of the begin and the end of sessions; None if a window has not just these."""
    spans = _spans(plan) or []
    if sorted(filter(None, spans)) != ["begin", "end"]:
        return None
    count = width(plan.input)
    return count + spans.index("begin"), count + spans.index("end")


def _spans(plan: Window) -> list[str | None] | None:
    """The side of the session that each call of a window gives; None if it is no such window."""
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
    found = [_span(call, marks) for call in plan.calls]
    return None if None in sides or "other" in marks or None in found else found


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
