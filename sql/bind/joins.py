"""Joins with subqueries in their conditions, and lateral joins.

Law: the condition of an inner join chooses among all pairs, as WHERE does. A right join is the left
join of the sides exchanged, so no plan has one. In a join of another kind, the value of a subquery
that reads one side is joined to that side; one that reads both sides is evaluated for the pairs of
the inner join, and the rows without a partner are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from ivm.sql.bind.join_names import WrittenKind
from ivm.sql.plan.expressions import (
    column,
    conjunction,
    conjuncts,
    index_of,
    remap,
    structure,
    used,
)
from ivm.sql.plan.nodes import Join, NotIncremental, Plan, Union, width
from ivm.sql.resolve.context import Context
from ivm.sql.rewrite.expand_joins import picked
from ivm.sql.subqueries.attach import attached, filtered
from ivm.sql.subqueries.decorrelate import Dependent, joined, with_row
from ivm.sql.subqueries.outer_rows import from_pairs
from ivm.sql.subqueries.parameters import reference_of, references
from ivm.sql.subqueries.single_row import one_row_each

_FEW = 16  # rows of a VALUES up to which each is joined with the left side by itself


def lateral_join(
    left: Plan, right: Dependent, kind: WrittenKind, terms: Sequence[exp.Expr], context: Context
) -> Plan:
    """The join with a query that reads columns to its left.

    Args:
        terms: the join condition over the columns of both sides.

    Raises:
        NotIncremental: another kind than an inner or left join, or a subquery in the condition of a
            left join.
    """
    if kind not in ("inner", "left"):
        raise NotIncremental(f"a {kind} join with a lateral query")
    if any(references(term) for term in terms) and kind == "left":
        raise NotIncremental("a subquery in the condition of a lateral left join")
    plain = [t for t in terms if not references(t)]
    listed = one_row_each(right.plan)
    if 0 < len(listed) <= _FEW and (kind == "inner" or not _conditions(terms)):
        plans = [with_row(left, right.over(row), context) for row in listed]
        plan = plans[0] if len(plans) == 1 else Union(tuple(plans), plans[0].schema)
        rest = list(terms)
    else:
        plan, rest = joined(left, right, kind, plain, context), [t for t in terms if references(t)]
    predicate = conjunction(rest) if kind == "inner" else None
    return plan if predicate is None else filtered(plan, predicate, context)


def _conditions(terms: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The terms without constant TRUE."""
    return [t for t in terms if not (isinstance(t, exp.Boolean) and t.this)]


def joined_on(
    left: Plan, right: Plan, kind: WrittenKind, terms: Sequence[exp.Expr], context: Context
) -> Plan:
    """The join of two plans on a condition that may have subquery references."""
    if kind == "right":
        return _right_join(left, right, terms, context)
    plain, nested = [t for t in terms if not references(t)], [t for t in terms if references(t)]
    whole = Join(left, right, kind, residual=conjunction(plain))
    predicate = conjunction(nested)
    if predicate is None:
        return whole
    if kind == "inner":
        return filtered(whole, predicate, context)
    sides = _split(nested, width(left))
    if sides is None:
        pairs = filtered(replace(whole, kind="inner"), predicate, context)
        return from_pairs(left, right, kind, pairs)
    return _attached_sides(whole, nested, sides, context)


def _right_join(left: Plan, right: Plan, terms: Sequence[exp.Expr], context: Context) -> Plan:
    """The left join of the sides exchanged, with its columns as they were."""
    split, by = width(left), width(right)
    exchanged = [remap(t, lambda i: i + by if i < split else i - split) for t in terms]
    joined = joined_on(right, left, "left", exchanged, context)
    return picked(joined, [*range(by, by + split), *range(by)])


def _split(terms: Sequence[exp.Expr], split: int) -> list[tuple[exp.Expr, bool]] | None:
    """The references in the terms, and whether each reads the left side; None if one reads both."""
    sides = []
    for node in (node for term in terms for node in references(term)):
        columns = used(node)
        if columns and min(columns) < split <= max(columns):
            return None
        sides.append((node, bool(columns) and max(columns) < split))
    return sides


def _attached_sides(
    join: Join, terms: Sequence[exp.Expr], sides: Sequence[tuple[exp.Expr, bool]], context: Context
) -> Plan:
    """The join on the terms, whose references are replaced by values joined to either side.

    Args:
        sides: the references, and whether each reads the left side.
    """
    split, count = width(join.left), width(join.left) + width(join.right)
    mine = [node.copy() for node, at_left in sides if at_left]
    others = [remap(node, lambda i: i - split) for node, at_left in sides if not at_left]
    left, left_values = attached(join.left, mine, context)
    right, right_values = attached(join.right, others, context)
    before = width(left)
    values = [*left_values, *[remap(value, lambda i: i + before) for value in right_values]]
    found = [node for node, at_left in sides if at_left]
    found += [node for node, at_left in sides if not at_left]
    images = dict(zip(map(structure, found), values, strict=True))

    def moved(i: int) -> int:
        return i if i < split else i - split + before

    def swap(node: exp.Expr) -> exp.Expr:
        if reference_of(node) is not None:
            return exp.Paren(this=images[structure(node)].copy())
        return column(moved(index_of(node))) if isinstance(node, exp.Column) else node

    every = [*conjuncts(join.residual), *terms]
    valued = [term.copy().transform(swap, copy=False) for term in every]
    whole = Join(left, right, join.kind, residual=conjunction(valued))
    shown = range(split if join.kind in ("semi", "anti") else count)
    return context.narrow(whole, [moved(i) for i in shown])
