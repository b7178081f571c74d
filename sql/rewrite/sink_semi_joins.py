"""Semi-joins move below an inner join, to the relation whose unique key they look up.

Law: (A ⋈ B) ⋉ C on columns of A alone is (A ⋉ C) ⋈ B. It is done where these columns hold a unique
key of A: then a change of C selects at most one row of A for each of its keys, and the joins above
get only the rows selected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from ivm.sql.plan.columns import origins
from ivm.sql.plan.expressions import conjuncts, position, remap, used
from ivm.sql.plan.nodes import Filter, Join, Plan, Project, width
from ivm.sql.plan.unique_key import unique_keys
from ivm.sql.plan.walks import inputs, with_inputs
from ivm.sql.rewrite.split_keys import equality_sides


def sink_semi_joins(plan: Plan) -> Plan:
    """The plan with every such semi-join pushed down as far as the law allows."""
    plan = with_inputs(plan, sink_semi_joins)
    if isinstance(plan, Join) and plan.kind == "semi" and plan.residual is not None:
        return _sunk(plan.left, plan, plan.residual) or plan
    return plan


def _sunk(plan: Plan, semi: Join, condition: exp.Expr) -> Plan | None:
    """`plan` ⋉ the semi-join's right side, computed below some inner join; None if none fits.

    Args:
        plan: the part of the left side that has all columns the condition reads.
        semi: the semi-join.
        condition: its condition, over the columns of `plan` and then of the right side.
    """
    match plan:
        case Filter() | Project():
            (positions,) = origins(plan)
            moved = _moved(condition, positions, width(plan), width(plan.input))
            below = None if moved is None else _sunk(plan.input, semi, moved)
            return None if below is None else replace(plan, input=below)
        case Join(kind="inner", left_keys=()):
            return _sunk_in_side(plan, semi, condition)
        case _:
            return None


def _sunk_in_side(plan: Join, semi: Join, condition: exp.Expr) -> Plan | None:
    for name, side, positions in zip(("left", "right"), inputs(plan), origins(plan), strict=True):
        moved = _moved(condition, positions, width(plan), width(side))
        if moved is None:
            continue
        below = _sunk(side, semi, moved)
        if below is None and _finds_key(side, moved):
            below = replace(semi, left=side, residual=moved)
        return None if below is None else replace(plan, **{name: below})  # type: ignore[arg-type]
    return None


def _moved(
    condition: exp.Expr, positions: Mapping[int, int], before: int, after: int
) -> exp.Expr | None:
    """The condition over another left side; None if that lacks a column it reads.

    Args:
        positions: left position → position in the new left side.
        before: how many columns the left side has.
        after: how many the new one has.
    """
    if any(i not in positions for i in used(condition) if i < before):
        return None
    return remap(condition, lambda i: i - before + after if i >= before else positions[i])


def _finds_key(side: Plan, condition: exp.Expr) -> bool:
    """Returns whether the condition equates a unique key of the side with the other's columns."""
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
