"""Joins of other kinds from the pairs that an inner join finds.

Law: rows that are equal in all columns have the same partners, so the left rows that have one are
those among the pairs' left columns, NULLs being equal.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.columns import cast, column, conjunction
from ivm.sql.plan import Expr, Join, NotIncremental, Plan, Project, Union, types, width


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
    if kind == "right":
        rest = _among(right, _columns(pairs, split, count), "anti")
        nulls = [cast(exp.Null(), t) for t in types(left)]
        own: list[Expr] = [column(i) for i in range(width(right))]
        schema = left.schema + right.schema
        return Union((_columns(pairs, 0, count), Project(rest, (*nulls, *own), schema)), schema)
    raise NotIncremental("a full join on a subquery that reads both sides")


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
