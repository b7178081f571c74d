"""Inner joins are ordered along their equalities, and equalities become keys.

Law: inner joins commute and associate, and a condition may be tested at any join that sees its
columns. An item that another one looks up by a unique key is joined with that one first, its own
lookups before: a snowflake's outer tables meet each other and not its facts, so a change of a fact
goes through fewer and smaller joins. Of the lookups of one item those that select rows come first.
What is left keeps the order written, except that an item without an equality to those before it
waits; so a comma join has a cross product only where the query has one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from ivm.sql.plan.expressions import column, conjunction, position, remap, used
from ivm.sql.plan.nodes import Filter, Join, Plan, Project, inputs, types, width
from ivm.sql.plan.unique_key import unique_keys
from ivm.sql.rewrite.factor_disjunctions import factored_conjuncts, implied
from ivm.sql.rewrite.split_keys import equality_sides, split_keys
from ivm.sql.rewrite.transfer_conditions import is_table, transferred

Terms = list[exp.Expr]
Push = Callable[[Plan, Terms], Plan]
_Equality = tuple[int, set[int]]
"""A column, and the columns of what it is to be equal to."""


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
    columns = dict(enumerate([type for item in items for type in types(item)]))
    further = transferred(rest, columns)
    leaves = []
    start = 0
    for item in items:
        own = set(range(start, start + width(item)))
        mine = [c for c in rest if used(c) <= own]
        rest = [c for c in rest if c not in mine or not used(c)]
        given = {i: columns[i] for i in own}
        weaker = [t for c in rest for t in implied(c, given)]
        if not is_table(item):
            weaker += [t for t in further if used(t) <= own]
        moved = [_moved(c, -start) for c in mine + weaker]
        places = {i: i - start for i in own}
        leaves.append(_Joined(push(item, moved), places))
        start += width(item)
    whole = _chain(*_fold_lookups(leaves, [c for c in rest if used(c)]))
    exprs = tuple(column(whole.places[i]) for i in range(width(plan)))
    return Project(whole.plan, exprs, plan.schema)


def _moved(term: exp.Expr, by: int) -> exp.Expr:
    return remap(term, lambda i: i + by)


def _flatten(plan: Plan, start: int) -> tuple[list[Plan], Terms]:
    """The items of nested inner joins, and all conditions over their columns side by side."""
    if not isinstance(plan, Join) or plan.kind != "inner" or plan.left_keys:
        return [plan], []
    left, left_terms = _flatten(plan.left, start)
    right, right_terms = _flatten(plan.right, start + width(plan.left))
    own = [_moved(c, start) for c in factored_conjuncts(plan.residual)]
    return left + right, left_terms + right_terms + own


def _fold_lookups(leaves: list[_Joined], terms: Terms) -> tuple[list[_Joined], Terms]:
    """The leaves with those that are looked up joined with those that look them up."""
    equalities = _equalities(terms)
    while (found := _next_lookup(leaves, equalities)) is not None:
        table, by = found
        both, terms = _joined(by, table, terms)
        leaves = [both if leaf is by else leaf for leaf in leaves if leaf is not table]
    return leaves, terms


def _equalities(terms: Terms) -> list[_Equality]:
    pairs = [pair for term in terms if (pair := equality_sides(term)) is not None]
    sides = [*pairs, *[(b, a) for a, b in pairs]]
    found = [(position(own), used(other)) for own, other in sides]
    return [(place, over) for place, over in found if place is not None and over]


def _next_lookup(
    leaves: list[_Joined], equalities: list[_Equality]
) -> tuple[_Joined, _Joined] | None:
    """A leaf that has nothing more to look up itself, and one that looks it up."""
    known = [_users(leaf, leaves, equalities) for leaf in leaves]
    users = {i: found for i, found in enumerate(known) if found}
    ready = {i for i, (by, *_) in users.items() if not _waits(i, by, users, leaves)}

    def late(i: int) -> tuple[bool, bool]:
        """Whether others that the same leaf looks up are not ready; all of its rows are kept."""
        along = (j for j, found in users.items() if found[0] is users[i][0])
        return any(j not in ready for j in along), not _selects(leaves[i].plan)

    chosen = min(sorted(ready), key=late, default=None)
    return None if chosen is None else (leaves[chosen], users[chosen][0])


def _waits(leaf: int, by: _Joined, users: dict[int, list[_Joined]], leaves: list[_Joined]) -> bool:
    """Whether the leaf looks up another one than that which looks it up."""
    others = [j for j in users if j != leaf and leaves[j] is not by]
    return any(user is leaves[leaf] for j in others for user in users[j])


def _users(table: _Joined, leaves: list[_Joined], equalities: list[_Equality]) -> list[_Joined]:
    """The other leaves that have a value for each column of some unique key of the table."""
    keys = unique_keys(table.plan)
    own = [(table.places[i], over) for i, over in equalities if i in table.places]
    found = []
    for leaf in leaves:
        given = {place for place, over in own if leaf.over(over)}
        if leaf is not table and any(given.issuperset(key) for key in keys):
            found.append(leaf)
    return found


def _selects(plan: Plan) -> bool:
    """Whether not all rows of its tables are in the plan, by its conditions."""
    return isinstance(plan, Filter) or any(_selects(part) for part in inputs(plan))


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
