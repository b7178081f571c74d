"""Compared times: what the conditions of a join say of a time of one side by one of the other.

Law: in each pair, the value of a column is at least, or at most, that of the expression beside it.
Both have one type of time; a length of time is brought to the other side only where nothing is lost
by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from sqlglot import exp

from ivm.sql.plan.expressions import column, conjuncts, used
from ivm.sql.plan.nodes import Join, width
from ivm.sql.plan.times.monotone import column_at_least, column_at_most, is_exact

AtLeast: TypeAlias = tuple[int, exp.Expr]
"""A column of a join, and an expression over its columns that is never greater."""
AtMost: TypeAlias = tuple[int, exp.Expr]
"""A column of a join, and an expression over its columns that is never less."""

_TIMES = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")


def at_least(plan: Join) -> list[AtLeast]:
    """The columns of one side, each with what the other side's columns say of it.

    Positions are those of an inner join: the right side's come behind the left side's.
    """

    def solved(great: exp.Expr, small: exp.Expr, zoned: bool) -> AtLeast | None:
        return column_at_least(great, small, zoned=zoned)

    return _compared(plan, solved)


def at_most(plan: Join) -> list[AtMost]:
    """The columns of one side, each with what the other side's columns allow; see `at_least`."""

    def solved(great: exp.Expr, small: exp.Expr, zoned: bool) -> AtMost | None:
        return column_at_most(small, great, zoned=zoned)

    return _compared(plan, solved)


def _compared(
    plan: Join, solve: Callable[[exp.Expr, exp.Expr, bool], tuple[int, exp.Expr] | None]
) -> list[tuple[int, exp.Expr]]:
    """What the conditions of a join say of its columns.

    Args:
        plan: the join.
        solve: brings a comparison to a column; the greater side comes first, then the other, and
            whether they are TIMESTAMPTZs.
    """
    split = width(plan.left)
    found = list[tuple[int, exp.Expr]]()
    for left, right in zip(plan.left_keys, plan.right_keys, strict=True):
        found += [(left, column(split + right)), (split + right, column(left))]
    for term in conjuncts(plan.residual):
        for great, small in _ordered(term.unnest()):
            sides = _sides(plan, great.unnest(), small.unnest())
            solved = None if sides is None else solve(*sides)
            if solved is not None:
                found.append(solved)
    return found


def _ordered(term: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """The pairs of values that a condition compares, the one that is not less first."""
    match term:
        case exp.GT() | exp.GTE():
            yield term.this, term.expression
        case exp.LT() | exp.LTE():
            yield term.expression, term.this
        case exp.EQ():
            yield term.this, term.expression
            yield term.expression, term.this
        case exp.Not():
            yield from ((small, great) for great, small in _less(term.this.unnest()))
        case exp.Between() if not term.args.get("symmetric"):
            yield term.this, term.args["low"]
            yield term.args["high"], term.this


def _less(term: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """The pair of an inequality alone, whose opposite is one, too."""
    return _ordered(term) if isinstance(term, exp.GT | exp.GTE | exp.LT | exp.LTE) else iter(())


def _sides(plan: Join, great: exp.Expr, small: exp.Expr) -> tuple[exp.Expr, exp.Expr, bool] | None:
    """The sides of a comparison of times, each of one column of one side of the join.

    Also whether they are TIMESTAMPTZs; None if it compares anything else.
    """
    schema, split = (*plan.left.schema, *plan.right.schema), width(plan.left)
    types = {schema[i][1].sql for i in used(great) | used(small)}
    if len(types) != 1 or not types.issubset(_TIMES):
        return None
    zoned = types == {_TIMES[1]}
    if not zoned:  # whose differences are of the calendar, which has days of 23 hours
        great, small = _without_difference(great, small)
    own, other = used(great), used(small)
    if len(own) != 1 or len(other) != 1 or len({i < split for i in own | other}) != 2:
        return None
    return great, small, zoned


def _without_difference(great: exp.Expr, small: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """A comparison of times, in the place of one of their difference with a length of time."""
    if isinstance(great, exp.Sub) and used(great.expression) and is_exact(small, zoned=False):
        return great.this, exp.Add(this=great.expression.copy(), expression=small.copy())
    if isinstance(small, exp.Sub) and used(small.expression) and is_exact(great, zoned=False):
        return small.expression, exp.Sub(this=small.this.copy(), expression=great.copy())
    return great, small
