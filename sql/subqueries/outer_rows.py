"""Joins of other kinds from the pairs that an inner join finds.

Law: rows that are equal in all columns have the same partners, so the left rows that have one are
those among the pairs' left columns, NULLs being equal.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.plan.expressions import cast, column, conjunction
from ivm.sql.plan.nodes import Expr, Join, Plan, Project, Union, types, width


def from_pairs(left: Plan, right: Plan, kind: str, pairs: Plan) -> Plan:
    """The join of a kind, given its inner join.

    Args:
        pairs: left columns, then right columns; what stands after them is dropped.
    """
    split, count = width(left), width(left) + width(right)
    if kind in ("semi", "anti"):
        return _among(left, _columns(pairs, 0, split), kind)
    if kind == "left":
        return with_rest(left, _columns(pairs, 0, count))
    found = _columns(pairs, 0, count)
    others = _right_rest(left, right, _columns(pairs, split, count))
    if kind == "right":
        return Union((found, others), others.schema)
    return Union((with_rest(left, found), others), others.schema)


def _right_rest(left: Plan, right: Plan, known: Plan) -> Plan:
    """The right rows that are not known, with NULLs for the left columns."""
    nulls = [cast(exp.Null(), t) for t in types(left)]
    own: list[Expr] = [column(i) for i in range(width(right))]
    return Project(_among(right, known, "anti"), (*nulls, *own), left.schema + right.schema)


def with_rest(left: Plan, found: Plan) -> Plan:
    """The rows found, and once each left row that is not among them, with NULLs."""
    count = width(left)
    rest = _among(left, _columns(found, 0, count), "anti")
    nulls = [cast(exp.Null(), t) for t in types(found)[count:]]
    own: list[Expr] = [column(i) for i in range(count)]
    return Union((found, Project(rest, (*own, *nulls), found.schema)), found.schema)


def _among(plan: Plan, known: Plan, kind: str) -> Plan:
    count = width(plan)
    terms = [exp.NullSafeEQ(this=column(i), expression=column(i + count)) for i in range(count)]
    return Join(plan, known, kind, residual=conjunction(terms))


def _columns(plan: Plan, start: int, stop: int) -> Plan:
    places = tuple(column(i) for i in range(start, stop))
    return Project(plan, places, plan.schema[start:stop])
