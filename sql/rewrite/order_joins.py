"""Inner joins are ordered along their equalities, and equalities become keys.

Law: inner joins commute and associate, and a condition may be tested at any join that has its
columns. A table that an item looks up by a unique key is joined with that item first, and with its
own lookups before that: the outer tables of a snowflake are joined with each other and not with the
facts, so a change of a fact goes through fewer and smaller joins. Of the lookups of one item,
selective ones come first. The other items keep the order of the query, except that an item without
an equality to the items before it waits; so a comma join has a cross product only where the query
has one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from ivm.sql.plan.expressions import column, conjunction, position, remap, used
from ivm.sql.plan.nodes import Filter, Join, Plan, Project, types, width
from ivm.sql.plan.unique_key import unique_keys
from ivm.sql.plan.walks import inputs
from ivm.sql.rewrite.factor_disjunctions import factored_conjuncts, implied
from ivm.sql.rewrite.split_keys import equality_sides, split_keys
from ivm.sql.rewrite.transfer_conditions import is_table, transferred

Terms = list[exp.Expr]
Push = Callable[[Plan, Terms], Plan]
_Equality = tuple[int, set[int]]
"""A column, and the columns that the other side of its equality reads."""


@dataclass(frozen=True)
class _Joined:
    """Some items joined.

    Attributes:
        positions: original position of a column (in all items side by side) → its position in
            `plan`.
    """

    plan: Plan
    positions: dict[int, int]

    def over(self, columns: set[int]) -> bool:
        return columns <= self.positions.keys()


def order_joins(plan: Join, terms: Terms, push: Push) -> Plan:
    """Orders an inner join and the inner joins directly below it, and gives them keys.

    Args:
        terms: further conditions over its columns.
        push: returns a plan filtered by terms, pushed down into it.
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
        positions = {i: i - start for i in own}
        leaves.append(_Joined(push(item, moved), positions))
        start += width(item)
    made = _chain(*_fold_lookups(leaves, [c for c in rest if used(c)]))
    exprs = tuple(column(made.positions[i]) for i in range(width(plan)))
    return Project(made.plan, exprs, plan.schema)


def _moved(term: exp.Expr, by: int) -> exp.Expr:
    return remap(term, lambda i: i + by)


def _flatten(plan: Plan, start: int) -> tuple[list[Plan], Terms]:
    """The items of nested inner joins, and the conditions over the columns of all items.

    Args:
        start: the position of the first item's first column.
    """
    if not isinstance(plan, Join) or plan.kind != "inner" or plan.left_keys:
        return [plan], []
    left, left_terms = _flatten(plan.left, start)
    right, right_terms = _flatten(plan.right, start + width(plan.left))
    own = [_moved(c, start) for c in factored_conjuncts(plan.residual)]
    return left + right, left_terms + right_terms + own


def _fold_lookups(leaves: list[_Joined], terms: Terms) -> tuple[list[_Joined], Terms]:
    """Joins every leaf that is looked up with the leaf that looks it up; returns the terms left."""
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
    return [(own, over) for own, over in found if own is not None and over]


def _next_lookup(
    leaves: list[_Joined], equalities: list[_Equality]
) -> tuple[_Joined, _Joined] | None:
    """A leaf whose own lookups are done, and a leaf that looks it up."""
    known = [_users(leaf, leaves, equalities) for leaf in leaves]
    users = {i: found for i, found in enumerate(known) if found}
    ready = {i for i, (by, *_) in users.items() if not _waits(i, by, users, leaves)}

    def late(i: int) -> tuple[bool, bool]:
        """Sort key: leaves with siblings that are not ready are late, then those with all rows."""
        along = (j for j, found in users.items() if found[0] is users[i][0])
        return any(j not in ready for j in along), not _selects(leaves[i].plan)

    chosen = min(sorted(ready), key=late, default=None)
    return None if chosen is None else (leaves[chosen], users[chosen][0])


def _waits(leaf: int, by: _Joined, users: dict[int, list[_Joined]], leaves: list[_Joined]) -> bool:
    """Returns whether the leaf itself looks up a leaf other than `by`, which looks it up."""
    others = [j for j in users if j != leaf and leaves[j] is not by]
    return any(user is leaves[leaf] for j in others for user in users[j])


def _users(table: _Joined, leaves: list[_Joined], equalities: list[_Equality]) -> list[_Joined]:
    """The other leaves that equate all columns of some unique key of the table."""
    keys = unique_keys(table.plan)
    own = [(table.positions[i], over) for i, over in equalities if i in table.positions]
    found = []
    for leaf in leaves:
        given = {i for i, over in own if leaf.over(over)}
        if leaf is not table and any(given.issuperset(key) for key in keys):
            found.append(leaf)
    return found


def _selects(plan: Plan) -> bool:
    """Returns whether a filter stands anywhere in the plan."""
    return isinstance(plan, Filter) or any(_selects(part) for part in inputs(plan))


def _chain(leaves: list[_Joined], terms: Terms) -> _Joined:
    """All leaves joined, each as soon as an equality connects it."""
    first, waiting = leaves[0], leaves[1:]
    while waiting:
        connected = (i for i, leaf in enumerate(waiting) if _connects(first, leaf, terms))
        chosen = next(connected, None)
        if chosen is None:
            first, waiting, terms = _join_apart(first, waiting, terms)
            continue
        first, terms = _joined(first, waiting.pop(chosen), terms)
    return first


def _join_apart(
    first: _Joined, waiting: list[_Joined], terms: Terms
) -> tuple[_Joined, list[_Joined], Terms]:
    """Joins two waiting leaves that an equality connects; else takes one cross product."""
    for i, leaf in enumerate(waiting):
        for j, other in enumerate(waiting[i + 1 :], i + 1):
            if _connects(leaf, other, terms):
                both, terms = _joined(leaf, other, terms)
                return first, [both, *waiting[:i], *waiting[i + 1 : j], *waiting[j + 1 :]], terms
    both, terms = _joined(first, waiting[0], terms)
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
    """The join of two parts on every condition over their columns alone, and the other terms."""
    split = width(left.plan)
    positions = {**left.positions, **{i: p + split for i, p in right.positions.items()}}
    mine = [t for t in terms if used(t) <= positions.keys()]
    rest = [t for t in terms if not used(t) <= positions.keys()]
    residual = conjunction([remap(t, positions.__getitem__) for t in mine])
    joined = split_keys(Join(left.plan, right.plan, "inner", residual=residual))
    return _Joined(joined, positions), rest
