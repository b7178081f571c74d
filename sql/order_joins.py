"""Inner joins are ordered along their equalities, and equalities become keys.

Law: inner joins commute and associate, and a condition may be tested at any join that sees its
columns. The order written is kept, except that an item without an equality to those before it
waits; so a comma join has a cross product only where the query has one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from ivm.sql.columns import column, conjunction, remap, used
from ivm.sql.factor_disjunctions import factored_conjuncts, implied
from ivm.sql.plan import Join, Plan, Project, types, width
from ivm.sql.split_keys import equality_sides, split_keys

Terms = list[exp.Expression]
Push = Callable[[Plan, Terms], Plan]


@dataclass(frozen=True)
class _Joined:
    """Some items joined: the plan, and where each original column stands in it."""

    plan: Plan
    places: dict[int, int]

    def over(self, columns: set[int]) -> bool:
        return columns <= self.places.keys()


def order_joins(plan: Join, terms: Terms, push: Push) -> Plan:
    """An inner join and the inner joins directly below it, ordered and keyed.

    Args:
        terms: further conditions over it.
        push: gives a plan filtered by terms.
    """
    items, conditions = _flatten(plan, 0)
    rest = conditions + terms
    leaves = []
    start = 0
    for item in items:
        own = set(range(start, start + width(item)))
        mine = [c for c in rest if used(c) <= own]
        rest = [c for c in rest if c not in mine or not used(c)]
        given = dict(enumerate(types(item), start))
        weaker = [t for c in rest for t in implied(c, given)]
        moved = [_moved(c, -start) for c in mine + weaker]
        places = {i: i - start for i in own}
        leaves.append(_Joined(push(item, moved), places))
        start += width(item)
    whole = _chain(leaves, [c for c in rest if used(c)])
    exprs = tuple(column(whole.places[i]) for i in range(width(plan)))
    return Project(whole.plan, exprs, plan.schema)


def _moved(term: exp.Expression, by: int) -> exp.Expression:
    return remap(term, lambda i: i + by)


def _flatten(plan: Plan, start: int) -> tuple[list[Plan], Terms]:
    """The items of nested inner joins, and all conditions over their columns side by side."""
    if not isinstance(plan, Join) or plan.kind != "inner" or plan.left_keys:
        return [plan], []
    left, left_terms = _flatten(plan.left, start)
    right, right_terms = _flatten(plan.right, start + width(plan.left))
    own = [_moved(c, start) for c in factored_conjuncts(plan.residual)]
    return left + right, left_terms + right_terms + own


def _chain(leaves: list[_Joined], terms: Terms) -> _Joined:
    """All leaves joined, each as soon as an equality connects it."""
    whole, waiting = leaves[0], leaves[1:]
    while waiting:
        connected = (i for i, leaf in enumerate(waiting) if _connects(whole, leaf, terms))
        chosen = next(connected, None)
        if chosen is None:
            whole, waiting, terms = _join_apart(whole, waiting, terms)
            continue
        whole, terms = _joined(whole, waiting.pop(chosen), terms)
    return whole


def _join_apart(
    whole: _Joined, waiting: list[_Joined], terms: Terms
) -> tuple[_Joined, list[_Joined], Terms]:
    """Nothing connects: join the rest by itself where it can, then take one cross product."""
    for i, leaf in enumerate(waiting):
        for j, other in enumerate(waiting[i + 1 :], i + 1):
            if _connects(leaf, other, terms):
                both, terms = _joined(leaf, other, terms)
                return whole, [both, *waiting[:i], *waiting[i + 1 : j], *waiting[j + 1 :]], terms
    both, terms = _joined(whole, waiting[0], terms)
    return both, waiting[1:], terms


def _connects(left: _Joined, right: _Joined, terms: Terms) -> bool:
    for term in terms:
        sides = equality_sides(term)
        if sides is not None:
            a, b = used(sides[0]), used(sides[1])
            if a and b and ((left.over(a) and right.over(b)) or (left.over(b) and right.over(a))):
                return True
    return False


def _joined(left: _Joined, right: _Joined, terms: Terms) -> tuple[_Joined, Terms]:
    """The join of two parts with every condition that both of them see, and the other terms."""
    split = width(left.plan)
    places = {**left.places, **{i: p + split for i, p in right.places.items()}}
    mine = [t for t in terms if used(t) <= places.keys()]
    rest = [t for t in terms if not used(t) <= places.keys()]
    residual = conjunction([remap(t, places.__getitem__) for t in mine])
    joined = split_keys(Join(left.plan, right.plan, "inner", residual=residual))
    return _Joined(joined, places), rest
