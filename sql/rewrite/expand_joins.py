"""Outer, semi and anti joins as sums and differences of inner joins.

Law: with M the rows of L that have a partner in R, as a multiset, L ⟕ R = L ⋈ R + (L − M) × NULL,
semi join = M, anti join = L − M. M is L joined with the *set* of R's keys, so it changes only when
a key gains its first partner or loses its last. For a condition l < r (l > r), a row has a partner
if l is less (greater) than the greatest (least) r of its key, so M is L joined with these r. For
any other condition over both sides, M is L joined with the set of its rows in L ⋈ R.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from ivm.sql.plan.calls import AggregateCall
from ivm.sql.plan.expressions import cast, column, compared, conjuncts, remap, used
from ivm.sql.plan.nodes import Aggregate, Distinct, Join, Plan, Project, Union, filtered_by, width
from ivm.sql.rewrite.split_keys import JoinSide
from ivm.sql.rewrite.split_ranges import OPERATORS, comparison
from ivm.storage.values.types import Schema


def expand_join(plan: Join) -> Plan:
    """Expands a join of another kind into inner joins, unions and DISTINCT of the same content."""
    matched = _matched(plan)
    if plan.kind == "semi":
        return matched
    alone = _difference(plan.left, matched)
    if plan.kind == "anti":
        return alone
    parts: list[Plan] = [replace(plan, kind="inner"), padded(alone, plan.schema, 0)]
    if plan.kind == "full":
        other = _difference(plan.right, _matched(mirrored(plan)))
        parts.append(padded(other, plan.schema, width(plan.left)))
    return Union(tuple(parts), plan.schema)


def _difference(rows: Plan, part: Plan) -> Plan:
    return Union((rows, part), rows.schema, negated=(1,))


def padded(rows: Plan, schema: Schema, start: int) -> Plan:
    """Rows of one side, with NULLs for the other side's columns.

    Args:
        schema: of both sides.
        start: the position in it of the side's first column.
    """
    own = range(start, start + width(rows))
    exprs = tuple(
        column(i - start) if i in own else cast(exp.null(), t) for i, (_, t) in enumerate(schema)
    )
    return Project(rows, exprs, schema)


def mirrored(plan: Join) -> Join:
    """The join with its sides exchanged."""
    left, right = width(plan.left), width(plan.right)
    residual = plan.residual
    if residual is not None:
        residual = remap(residual, lambda i: i + right if i < left else i - left)
    keys = (plan.right_keys, plan.left_keys, plan.null_safe)
    return Join(plan.right, plan.left, plan.kind, *keys, residual)


def _matched(plan: Join) -> Plan:
    """The left rows that have a partner, with their weights on the left."""
    split = width(plan.left)
    terms = conjuncts(plan.residual)
    mine = [t for t in terms if max(used(t), default=0) < split]
    rest = [t for t in terms if t not in mine]
    left = filtered_by(plan.left, mine)
    if plan.left_keys and not rest:
        keys = Distinct(picked(plan.right, plan.right_keys))
        return _present(left, plan.left_keys, keys, plan.null_safe)
    compared_rows = _matched_by_comparison(plan, left, rest[0]) if len(rest) == 1 else None
    if compared_rows is not None:
        return compared_rows
    pairs = Distinct(picked(replace(plan, kind="inner"), tuple(range(split))))
    return _present(plan.left, tuple(range(split)), pairs, (True,) * split)


def _matched_by_comparison(plan: Join, left: Plan, term: exp.Expr) -> Plan | None:
    """The left rows that a comparison matches with a right row of their key; None if it is none."""
    split, count = width(left), len(plan.left_keys)
    known = comparison(JoinSide(plan.left), JoinSide(plan.right), split, term)
    if known is None:
        return None
    schema = (*[plan.right.schema[i] for i in plan.right_keys], ("v", known.type))
    exprs = (*[column(i) for i in plan.right_keys], cast(known.right, known.type))
    function = "max" if known.operator[0] == "<" else "min"
    call = AggregateCall(function, (count,), False, None, known.type)
    groups = tuple(range(count))
    best = Aggregate(Project(plan.right, exprs, schema), groups, (call,), schema)
    condition = compared(OPERATORS[known.operator], known.left, column(split + count))
    joined = Join(left, best, "inner", plan.left_keys, groups, plan.null_safe, condition)
    return picked(joined, tuple(range(split)))


def picked(plan: Plan, positions: Sequence[int]) -> Plan:
    """The plan's columns at the positions, in their order."""
    schema = tuple(plan.schema[i] for i in positions)
    return Project(plan, tuple(column(i) for i in positions), schema)


def _present(left: Plan, keys: tuple[int, ...], known: Plan, null_safe: tuple[bool, ...]) -> Plan:
    """The left rows whose key is in `known`, the set of the keys on the right."""
    joined = Join(left, known, "inner", keys, tuple(range(len(keys))), null_safe)
    return picked(joined, tuple(range(width(left))))
