"""The names that an alias gives to a FROM item's columns."""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.plan.nodes import Plan
from ivm.sql.resolve.context import demand_only
from ivm.sql.resolve.scope import Bound, Relation, Scope
from ivm.storage.identifiers import fold


def renamed(bound: Bound, node: exp.Expression) -> Bound:
    """The relation with the column names of its alias; the first ones, if it lists fewer."""
    alias = node.args.get("alias")
    if alias is not None:
        demand_only(alias, "this columns", "an alias")
    names = [c.name for c in alias.columns] if alias is not None else []
    return Bound(bound.plan, (*names, *bound.names[len(names) :]))


def distinct_names(bound: Bound) -> Bound:
    """A derived table's second `a` is seen as `a_1`, as in DuckDB."""
    count: dict[str, int] = {}
    names = []
    for name in bound.names:
        seen = count.get(fold(name))
        count[fold(name)] = 0 if seen is None else seen + 1
        names.append(name if seen is None else f"{name}_{seen + 1}")
    return Bound(bound.plan, tuple(names))


def renamed_item(item: tuple[Plan, Scope], node: exp.Expression) -> tuple[Plan, Scope]:
    """A LATERAL query with the names its alias gives."""
    if not isinstance(node, exp.Lateral):
        return item
    demand_only(node, "this alias", "LATERAL")
    plan, scope = item
    (relation,) = scope.relations
    names = tuple(name for name, _ in relation.columns)
    names = renamed(Bound(plan, names), node).names
    columns = tuple((name, i) for i, name in enumerate(names))
    qualifiers = (node.alias,) if node.alias else relation.qualifiers
    return plan, Scope([Relation(qualifiers, columns)])
