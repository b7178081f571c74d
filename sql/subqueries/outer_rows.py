"""Outer, semi and anti joins computed from the pairs of an inner join.

Law: rows that are equal in all columns have the same partners, so a left row has a partner if and
only if it is among the pairs' left columns, NULLs being equal.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.plan.expressions import column, conjunction
from ivm.sql.plan.nodes import Join, JoinKind, Plan, Union, width
from ivm.sql.rewrite.expand_joins import padded, picked


def from_pairs(left: Plan, right: Plan, kind: JoinKind, pairs: Plan) -> Plan:
    """The join of a kind, given the inner join on its condition.

    Args:
        pairs: left columns, then right columns; any further columns are dropped.
    """
    split, count = width(left), width(left) + width(right)
    if kind in ("semi", "anti"):
        return _among(left, picked(pairs, range(split)), kind)
    whole = with_rest(left, picked(pairs, range(count)))
    if kind == "left":
        return whole
    others = _among(right, picked(pairs, range(split, count)), "anti")
    return Union((whole, padded(others, whole.schema, split)), whole.schema)


def with_rest(left: Plan, found: Plan) -> Plan:
    """The rows found, and the left rows that are not among them, padded with NULLs."""
    rest = _among(left, picked(found, range(width(left))), "anti")
    return Union((found, padded(rest, found.schema, 0)), found.schema)


def _among(plan: Plan, known: Plan, kind: JoinKind) -> Plan:
    count = width(plan)
    terms = [exp.NullSafeEQ(this=column(i), expression=column(i + count)) for i in range(count)]
    return Join(plan, known, kind, residual=conjunction(terms))
