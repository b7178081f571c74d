"""Renders window nodes as SQL.

Law: ties are broken by all columns ascending: in the window's own order if the function depends on
row numbers, in an order of the arguments if peers must stay peers.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ivm.sql.plan.built_in import duck_text
from ivm.sql.plan.calls import WindowCall, key_text
from ivm.sql.plan.expressions import column
from ivm.sql.plan.nodes import Window, width
from ivm.sql.plan.render_split import split_text, with_row_numbers
from ivm.storage.values.ordering.order import OrderKey


def render_window(plan: Window, source: str) -> str:
    """Renders the node as a SELECT over a FROM item."""
    count = width(plan.input)
    parts = [f"t.c{i}" for i in plan.partition]
    calls = [window_text(plan, call, parts) for call in plan.calls]
    items = [*[f"t.c{i}" for i in range(count)], *calls]
    listed = ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
    bound = "" if plan.max_rank is None else f" QUALIFY {calls[0]} <= {plan.max_rank}"
    return f"SELECT {listed} FROM {window_source(plan, plan.calls, source, parts)} AS t{bound}"


def window_source(
    plan: Window, calls: Sequence[WindowCall], source: str, partition: Sequence[str]
) -> str:
    """The FROM item over which calls are evaluated: `source`, with row numbers if a call is split.

    Args:
        source: a FROM item with the input's columns.
        partition: the window's PARTITION BY, as SQL.
    """
    if all(call.ties != "split" for call in calls):
        return source
    return with_row_numbers(source, _within(partition), _by(plan.order), _by(completed(plan)))


def window_texts(plan: Window) -> list[str]:
    """The calls as users write them, without the keys that break ties."""
    parts = [f"c{i}" for i in plan.partition]
    bound = "" if plan.max_rank is None else f" ≤ {plan.max_rank}"
    return [_over(call, call.function, parts, plan.order) + bound for call in plan.calls]


def window_text(plan: Window, call: WindowCall, partition: Sequence[str]) -> str:
    """Renders one call over the `window_source`.

    Args:
        partition: the PARTITION BY, as SQL; it may name other columns than the plan's.
    """
    function = call.function
    order = list(plan.order)
    if call.ties == "split":
        window = _within(partition)
        return split_text(call, lambda f, order, n: f"{_call_text(f, n)} OVER ({window}{order})")
    if call.ties == "window":
        order = completed(plan)
    elif call.ties == "argument":
        function = with_order(function, completed(plan))
    return _over(call, function, partition, order)


def completed(plan: Window) -> list[OrderKey]:
    """The window's order, then all other columns ascending."""
    listed = {key.column for key in plan.order}
    others = [i for i in range(width(plan.input)) if i not in listed]
    return [*plan.order, *[OrderKey(i, False, False) for i in others]]


def _over(
    call: WindowCall,
    function: exp.Expr,
    partition: Sequence[str],
    order: Sequence[OrderKey],
) -> str:
    frame = "" if call.frame is None else duck_text(call.frame)
    window = f"{_within(partition)}{_by(order)}{frame}".rstrip()
    return f"{_call_text(function, call.ignore_nulls)} OVER ({window})"


def _within(partition: Sequence[str]) -> str:
    return f"PARTITION BY {', '.join(partition)} " if partition else ""


def _by(order: Sequence[OrderKey]) -> str:
    return f"ORDER BY {', '.join([key_text(key) for key in order])} " if order else ""


def _ordered(key: OrderKey) -> exp.Ordered:
    made = column(key.column)
    return exp.Ordered(this=made, desc=key.descending, nulls_first=key.nulls_first)


def with_order(function: exp.Expr, order: Sequence[OrderKey]) -> exp.Expr:
    """Adds an ORDER BY to the arguments of a call that has none."""
    made = function.copy()
    call = made.this if isinstance(made, exp.Filter) else made
    *others, last = call.expressions
    keys = exp.Order(this=last, expressions=[_ordered(key) for key in order])
    call.set("expressions", [*others, keys])
    return made


def _call_text(function: exp.Expr, ignore_nulls: bool) -> str:
    """Renders the call with IGNORE NULLS, which sqlglot would leave out of it."""
    inner, tail = function, ""
    if isinstance(function, exp.Filter):
        inner, tail = function.this, f" FILTER (WHERE {duck_text(function.expression.this)})"
    call = duck_text(inner)
    return f"{call[:-1]} IGNORE NULLS){tail}" if ignore_nulls else call + tail
