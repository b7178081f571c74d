"""Semi-joins move down an inner join, to the one relation whose key they look up.

Law: (A ⋈ B) ⋉ C on columns of A alone is (A ⋉ C) ⋈ B. It is done where these columns hold a unique
key of A: then a change of C meets at most one row of A for each of its keys, and the joins above
see only the rows that are left.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from ivm.sql.plan.expressions import conjuncts, position, remap, used
from ivm.sql.plan.nodes import Filter, Join, Plan, Project, width, with_inputs
from ivm.sql.plan.unique_key import unique_keys
from ivm.sql.rewrite.split_keys import equality_sides


def sink_semi_joins(plan: Plan) -> Plan:
    """The plan with every such semi-join as low as it may stand."""
    plan = with_inputs(plan, sink_semi_joins)
    if isinstance(plan, Join) and plan.kind == "semi" and plan.residual is not None:
        return _sunk(plan.left, plan, plan.residual) or plan
    return plan


def _sunk(plan: Plan, semi: Join, condition: exp.Expression) -> Plan | None:
    """`plan` ⋉ the semi-join's right side, the semi-join standing below some inner join.

    Args:
        plan: the part of the left side that has all columns the condition reads.
        semi: the semi-join.
        condition: its condition, over the columns of `plan` and then of the right side.
    """
    match plan:
        case Filter():
            below = _sunk(plan.input, semi, condition)
            return None if below is None else replace(plan, input=below)
        case Project():
            places = [position(expr) for expr in plan.exprs]
            moved = _moved(condition, dict(enumerate(places)), len(places), width(plan.input))
            below = None if moved is None else _sunk(plan.input, semi, moved)
            return None if below is None else replace(plan, input=below)
        case Join(kind="inner", left_keys=()):
            return _sunk_in_side(plan, semi, condition)
        case _:
            return None


def _sunk_in_side(plan: Join, semi: Join, condition: exp.Expression) -> Plan | None:
    split, whole = width(plan.left), width(plan)
    own = {i for i in used(condition) if i < whole}
    if all(i < split for i in own):
        side, start, name = plan.left, 0, "left"
    elif all(i >= split for i in own):
        side, start, name = plan.right, split, "right"
    else:
        return None
    places: dict[int, int | None] = {start + i: i for i in range(width(side))}
    moved = _moved(condition, places, whole, width(side))
    assert moved is not None
    below = _sunk(side, semi, moved)
    if below is None and _finds_key(side, moved):
        below = replace(semi, left=side, residual=moved)
    return None if below is None else replace(plan, **{name: below})  # type: ignore[arg-type]


def _moved(
    condition: exp.Expression, places: dict[int, int | None], whole: int, narrow: int
) -> exp.Expression | None:
    """The condition over other columns on the left: `narrow` in the place of `whole`."""
    if any(places.get(i) is None for i in used(condition) if i < whole):
        return None
    return remap(condition, lambda i: i - whole + narrow if i >= whole else places[i] or 0)


def _finds_key(side: Plan, condition: exp.Expression) -> bool:
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
