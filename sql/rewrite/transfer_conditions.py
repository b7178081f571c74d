"""What holds of a column holds of every column that equals it.

Law: where a = b, p(a) = p(b). So `orders JOIN totals USING (customer) WHERE orders.customer = 5`
needs of the totals those of customer 5 alone. Such a term is tested for rows that no partner lets
through, so it is one that no value makes fail; and whole tables are left alone, whose rows are
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
    """Conditions on one column that follow from those on its equals, and are not among the terms.

    Args:
        terms: what holds all at once.
        types: of the columns, by position.
    """
    equals = _equals(terms)
    known = {structure(term) for term in terms}
    found: dict[Hashable, exp.Expr] = {}
    for term in terms:
        if len(places := used(term)) != 1 or not is_safe(term, types):
            continue
        for other in equals.get(min(places), ()):
            moved = remap(term, {min(places): other}.__getitem__)
            if is_safe(moved, types) and structure(moved) not in known:
                found.setdefault(structure(moved), moved)
    return list(found.values())


def is_table(plan: Plan) -> bool:
    """Whether a plan has the rows of a table as they are."""
    return isinstance(plan, Scan) or (isinstance(plan, Project) and is_table(plan.input))


def _equals(terms: Terms) -> dict[int, set[int]]:
    """The columns that equal each one, itself among them."""
    equals: dict[int, set[int]] = {}
    for term in terms:
        places = [position(side) for side in equality_sides(term) or ()]
        if len(places) == 2 and None not in places:
            both = set[int]().union(*[equals.get(p, {p}) for p in places if p is not None])
            equals.update(dict.fromkeys(both, both))
    return equals
