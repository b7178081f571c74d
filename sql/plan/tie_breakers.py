"""The columns that break ties in the order of a node, which breaks them by all columns, ascending.

Law: ties that differ in a column that the node reads or shows are in the order of the columns up to
the last such one, and others are alike: the columns behind it change nothing. Keys are no such
columns, since ties agree in them. Nothing is known of values that are equal in several forms.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from ivm.delta_ops.state.representatives import has_representatives
from ivm.sql.plan.calls import WindowCall
from ivm.sql.plan.expressions import position, used
from ivm.sql.plan.nodes import DynamicLimit, Plan, Project, TopK, Window, types, width

_ENDS = ("first_value", "first", "last_value", "last")


def tie_breakers(plan: Plan, part: Plan, needed: Collection[int]) -> range:
    """The columns of an input that break ties.

    Args:
        part: the input.
        needed: its columns that the node reads or shows.
    """
    if isinstance(plan, TopK | DynamicLimit):
        return range(width(part))
    if not isinstance(plan, Window) or all(_takes_ties_alike(plan, call) for call in plan.calls):
        return range(0)
    if has_representatives([part.schema[i][1] for i in needed]):
        return range(width(part))
    return range(max([i for i in needed if i not in _keys(plan)], default=-1) + 1)


def _keys(plan: Window) -> set[int]:
    return {*plan.partition, *[key.column for key in plan.order]}


def _takes_ties_alike(plan: Window, call: WindowCall) -> bool:
    """Returns whether no order of ties changes what a call gives to them.

    So do the first and the last value of a key where there is one, in frames that peers share.
    """
    if call.ties == "none":
        return True
    function, frame = call.function, call.frame
    shared = frame is None or (
        frame.args.get("kind") == "RANGE" and not frame.args.get("exclude") and not used(frame)
    )
    if not (shared and call.ignore_nulls and function.name.lower() in _ENDS):
        return False
    (argument,) = map(position, function.expressions)
    return argument is not None and _is_key_or_null(plan, argument)


def _is_key_or_null(plan: Window, column: int) -> bool:
    """Returns whether ties agree in a column wherever it is not NULL: a value of the keys."""
    below, keys = plan.input, _keys(plan)
    if not isinstance(below, Project) or has_representatives([types(below)[i] for i in keys]):
        return False
    expr = below.exprs[column]
    values: list[exp.Expr | None] = [expr]
    if isinstance(expr, exp.Case):
        values = [*[branch.args["true"] for branch in expr.args["ifs"]], expr.args.get("default")]
    known = [value for value in values if value is not None and not isinstance(value, exp.Null)]
    return len(known) == 1 and used(known[0]) <= {position(below.exprs[i]) for i in keys}
