"""Conditions that no row padded with NULLs can pass: they make a left join an inner one.

Law: a comparison is NULL where one side is, and arithmetic and casts of NULL are NULL. So above a
left join, a comparison with such an expression of a right column keeps only rows with a partner.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.plan.expressions import index_of

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_STRICT = (exp.Neg, exp.Add, exp.Sub, exp.Mul)


def rejects_nulls(term: exp.Expr, start: int) -> bool:
    """Returns whether the term cannot be true where all columns from `start` on are NULL."""
    bare = term.unnest()
    if not isinstance(bare, _COMPARISONS) or _may_fail(term):
        return False
    return any(i >= start for side in (bare.this, bare.expression) for i in _strict(side))


def _may_fail(term: exp.Expr) -> bool:
    """Returns whether the term calls error(): an inner join may test it also for other rows."""
    return any(call.name.lower() == "error" for call in term.find_all(exp.Anonymous))


def _strict(expr: exp.Expr) -> set[int]:
    """Positions of the columns whose NULL makes the expression NULL."""
    if isinstance(expr, exp.Column):
        return {index_of(expr)}
    if type(expr) is exp.Cast or isinstance(expr, exp.Paren):
        return _strict(expr.this)
    if isinstance(expr, _STRICT):
        return {i for part in expr.iter_expressions() for i in _strict(part)}
    return set()
