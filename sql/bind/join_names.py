"""Names in a FROM clause: the scope of a join, columns merged by USING or NATURAL, and aliases.

Law: the columns of the right side come after those of the left. A name that USING or NATURAL shares
means a merged column: an inner or left join shows the left column of the pair, a right join the
right one, and a full join whichever is there: coalesce(left, right). In a star, the merged column
stands where the left one would.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from sqlglot import exp

from ivm.sql.plan.expressions import column
from ivm.sql.plan.nodes import JoinKind, NotIncremental, Plan, width
from ivm.sql.resolve.context import Context, demand_only
from ivm.sql.resolve.scope import Bound, Relation, Scope
from ivm.storage.identifiers import fold

WrittenKind: TypeAlias = JoinKind | Literal["right"]
_JOINS = ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI")
_KINDS: dict[str, WrittenKind] = {
    "SEMI": "semi", "ANTI": "anti", "LEFT": "left", "RIGHT": "right", "FULL": "full", "": "inner",
}  # fmt: skip


def combined(left: Plan, scope: Scope, other: Scope) -> Scope:
    """The scope of a plan and of the item joined to its right."""
    by = width(left)
    return Scope(
        [*scope.relations, *(r.moved(by) for r in other.relations)],
        scope.merged | {i + by for i in other.merged},
        scope.kept | {i + by for i in other.kept},
        scope.shown_at | {i + by: j + by for i, j in other.shown_at.items()},
    )


def join_kind(node: exp.Join) -> WrittenKind:
    """The kind of a join, whatever its method is.

    Raises:
        NotIncremental: another kind or method, as POSITIONAL.
    """
    method, side = node.method.upper(), node.side.upper()
    kind = str(node.args.get("kind") or "").upper()
    if method not in ("", "NATURAL", "ASOF") or kind not in _JOINS:
        raise NotIncremental(f"a {method or kind} join")
    return _KINDS[kind if kind in ("SEMI", "ANTI") else side]


def shared_names(node: exp.Join, left: Scope, right: Scope) -> list[str]:
    """The names that USING lists, or that both sides of a NATURAL join have."""
    if node.method.upper() != "NATURAL":
        return [c.name for c in node.args.get("using") or []]
    known = {fold(name) for name, _ in right.star(None)}
    shared = [name for name, _ in left.star(None) if fold(name) in known]
    return list(dict.fromkeys(shared))


def equal(left: Scope, right: Scope, name: str, by: int) -> exp.Expr:
    """The equality of a shared name's columns; the right one is moved `by` positions."""
    sides = column(visible(left, name)), column(visible(right, name) + by)
    return exp.EQ(this=sides[0], expression=sides[1])


def asof_terms(terms: list[exp.Expr], shared: list[str]) -> list[exp.Expr]:
    """The terms of an ASOF join: the last column of its USING is compared by >=."""
    if not shared:
        return terms
    last = terms[-1]
    return [*terms[:-1], exp.GTE(this=last.this, expression=last.expression)]


def visible(scope: Scope, name: str) -> int:
    """The position of the column that a shared name means on one side."""
    found = scope.visible(name)
    if found is None:
        raise NotIncremental(f"the join column {name}")
    return found


def renamed(bound: Bound, node: exp.Expr) -> Bound:
    """The relation with the column names of its alias, which may list the first ones only."""
    alias = node.args.get("alias")
    if alias is not None:
        demand_only(alias, "this columns", "an alias")
    names = [c.name for c in alias.columns] if alias is not None else []
    return Bound(bound.plan, (*names, *bound.names[len(names) :]))


def distinct_names(bound: Bound) -> Bound:
    """The derived table with distinct names, as DuckDB makes them: its second `a` is `a_1`."""
    count: dict[str, int] = {}
    names = []
    for name in bound.names:
        seen = count.get(fold(name))
        count[fold(name)] = 0 if seen is None else seen + 1
        names.append(name if seen is None else f"{name}_{seen + 1}")
    return Bound(bound.plan, tuple(names))


def renamed_item(item: tuple[Plan, Scope], node: exp.Expr) -> tuple[Plan, Scope]:
    """A LATERAL query with the names of its alias; any other item unchanged."""
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


def merge_columns(
    plan: Plan, kind: WrittenKind, scope: Scope, pairs: list[tuple[int, int]], context: Context
) -> Plan:
    """The join, with a computed column behind its own for each merged one, if it is a full join.

    Args:
        kind: of the join.
        scope: the names over the join; it is changed, so that merged names show the right columns.
        pairs: positions of each merged column on the left and on the right.
    """
    if kind == "right":
        scope.shown_at.update(pairs)
    if kind != "full" or not pairs:
        return plan
    count = width(plan)
    coalesced: list[exp.Expr] = []
    for left, right in pairs:
        scope.shown_at[left] = count + len(coalesced)
        coalesced.append(exp.Coalesce(this=column(left), expressions=[column(right)]))
    return context.project(plan, [*[column(i) for i in range(count)], *coalesced])
