"""Conditions on a column are transferred to every column that equals it.

Law: where a = b, p(a) = p(b). So `orders JOIN totals USING (customer) WHERE orders.customer = 5`
needs only the totals of customer 5. A transferred term is tested also for rows that have no
partner, so only terms that no value makes fail are transferred; and none to tables, whose rows are
found by the key of the join.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from sqlglot import exp

from ivm.sql.plan.expressions import position, remap, structure, used
from ivm.sql.plan.nodes import Plan, Project, Scan
from ivm.sql.rewrite.factor_disjunctions import is_safe
from ivm.sql.rewrite.split_keys import equality_sides
from ivm.storage.values.types import ColumnType

Terms = list[exp.Expr]


def transferred(terms: Terms, types: Mapping[int, ColumnType]) -> Terms:
    """Conditions on one column that the terms imply by its equals, and that are not among them.

    Args:
        terms: conditions that hold together.
        types: of the columns, by position.
    """
    equals = _equals(terms)
    known = {structure(term) for term in terms}
    found: dict[Hashable, exp.Expr] = {}
    for term in terms:
        if len(columns := used(term)) != 1 or not is_safe(term, types):
            continue
        (own,) = columns
        for other in equals.get(own, ()):
            moved = remap(term, {own: other}.__getitem__)
            if is_safe(moved, types) and structure(moved) not in known:
                found.setdefault(structure(moved), moved)
    return list(found.values())


def is_table(plan: Plan) -> bool:
    """Returns whether a plan has all rows of a table, perhaps with other columns."""
    return isinstance(plan, Scan) or (isinstance(plan, Project) and is_table(plan.input))


def _equals(terms: Terms) -> dict[int, set[int]]:
    """Maps each column of an equality to all columns that equal it, itself among them."""
    equals: dict[int, set[int]] = {}
    for term in terms:
        sides = [position(side) for side in equality_sides(term) or ()]
        if len(sides) == 2 and None not in sides:
            both = set[int]().union(*[equals.get(i, {i}) for i in sides if i is not None])
            equals.update(dict.fromkeys(both, both))
    return equals
