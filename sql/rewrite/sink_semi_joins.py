"""Semi-joins move down an inner join, to the one relation whose key they look up.

Law: (A ⋈ B) ⋉ C on columns of A alone is (A ⋉ C) ⋈ B. It is done where these columns hold a unique
key of A: then a change of C meets at most one row of A for each of its keys, and the joins above
see only the rows that are left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from ivm.sql.plan.columns import origins
from ivm.sql.plan.expressions import conjuncts, position, remap, used
from ivm.sql.plan.nodes import Filter, Join, Plan, Project, inputs, width, with_inputs
from ivm.sql.plan.unique_key import unique_keys
from ivm.sql.rewrite.split_keys import equality_sides


def sink_semi_joins(plan: Plan) -> Plan:
    """The plan with every such semi-join as low as it may stand."""
    plan = with_inputs(plan, sink_semi_joins)
    if isinstance(plan, Join) and plan.kind == "semi" and plan.residual is not None:
        return _sunk(plan.left, plan, plan.residual) or plan
    return plan


def _sunk(plan: Plan, semi: Join, condition: exp.Expr) -> Plan | None:
    """`plan` ⋉ the semi-join's right side, the semi-join standing below some inner join.

    Args:
        plan: the part of the left side that has all columns the condition reads.
        semi: the semi-join.
        condition: its condition, over the columns of `plan` and then of the right side.
    """
    match plan:
        case Filter() | Project():
            (places,) = origins(plan)
            moved = _moved(condition, places, width(plan), width(plan.input))
            below = None if moved is None else _sunk(plan.input, semi, moved)
            return None if below is None else replace(plan, input=below)
        case Join(kind="inner", left_keys=()):
            return _sunk_in_side(plan, semi, condition)
        case _:
            return None


def _sunk_in_side(plan: Join, semi: Join, condition: exp.Expr) -> Plan | None:
    for name, side, places in zip(("left", "right"), inputs(plan), origins(plan), strict=True):
        moved = _moved(condition, places, width(plan), width(side))
        if moved is None:
            continue
        below = _sunk(side, semi, moved)
        if below is None and _finds_key(side, moved):
            below = replace(semi, left=side, residual=moved)
        return None if below is None else replace(plan, **{name: below})  # type: ignore[arg-type]
    return None


def _moved(
    condition: exp.Expr, places: Mapping[int, int], whole: int, narrow: int
) -> exp.Expr | None:
    """The condition over other columns on the left: `narrow` in the place of `whole`."""
    if any(i not in places for i in used(condition) if i < whole):
        return None
    return remap(condition, lambda i: i - whole + narrow if i >= whole else places[i])


def _finds_key(side: Plan, condition: exp.Expr) -> bool:
    """Whether the condition equates a unique key of the side with columns of the other."""
    split = width(side)
    found: set[int | None] = set()
    for term in conjuncts(condition):
        sides = equality_sides(term)
        if sides is None or not (used(sides[0]) and used(sides[1])):
            return False
        low, high = sorted(sides, key=lambda s: min(used(s)))
        if max(used(low)) >= split or min(used(high)) < split:
            return False
        found.add(position(low))
    return any(set(key) <= found for key in unique_keys(side))
