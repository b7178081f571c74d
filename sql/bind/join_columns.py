"""The columns of joined relations: which of them USING and NATURAL share, the scope of both sides.

Law: the columns of the right side stand behind those of the left; a shared name means both.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.plan.expressions import column
from ivm.sql.plan.nodes import NotIncremental, Plan, width
from ivm.sql.resolve.scope import Scope
from ivm.storage.identifiers import fold


def combined(left: Plan, scope: Scope, other: Scope) -> Scope:
    """The names of a plan and of what is joined to its right."""
    by = width(left)
    return Scope(
        [*scope.relations, *(r.moved(by) for r in other.relations)],
        scope.merged | {i + by for i in other.merged},
        scope.stands | {i + by: j + by for i, j in other.stands.items()},
    )


def shared_names(node: exp.Join, left: Scope, right: Scope) -> list[str]:
    """The names that USING lists, or that both sides of a NATURAL join have."""
    if node.method.upper() != "NATURAL":
        return [c.name for c in node.args.get("using") or []]
    known = {fold(name) for name, _ in right.star(None)}
    shared = [name for name, _ in left.star(None) if fold(name) in known]
    return list(dict.fromkeys(shared))


def equal(left: Scope, right: Scope, name: str, by: int) -> exp.Expression:
    """That both sides have the same under a name; the right one is moved `by` columns."""
    sides = column(visible(left, name)), column(visible(right, name) + by)
    return exp.EQ(this=sides[0], expression=sides[1])


def asof_terms(terms: list[exp.Expression], shared: list[str]) -> list[exp.Expression]:
    """The last column of an ASOF join's USING is compared by >=."""
    if not shared:
        return terms
    last = terms[-1]
    return [*terms[:-1], exp.GTE(this=last.this, expression=last.expression)]


def visible(scope: Scope, name: str) -> int:
    """The column that a shared name means on one side."""
    found = scope.visible(name)
    if found is None:
        raise NotIncremental(f"the join column {name}")
    return found
