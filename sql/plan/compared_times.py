"""Compared times: what the conditions of a join say of a time of one side by one of the other.

Law: in each pair, the value of a column is at least that of the expression beside it. Both have one
type of time; a length of time is brought to the other side only where nothing is lost by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from sqlglot import exp

from ivm.sql.plan.expressions import column, compared, conjuncts, position, structure, used
from ivm.sql.plan.monotone import column_at_least, is_exact
from ivm.sql.plan.nodes import Join, Plan, Project, Window, width

AtLeast: TypeAlias = tuple[int, exp.Expr]
"""A column of a join, and an expression over its columns that is never greater."""

_TIMES = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE")


def at_least(plan: Join) -> list[AtLeast]:
    """The columns of one side, each with what the other side's columns say of it.

    Positions are those of an inner join: the right side's come behind the left side's.
    """
    split = width(plan.left)
    found = list[AtLeast]()
    for left, right in zip(plan.left_keys, plan.right_keys, strict=True):
        found += [(left, column(split + right)), (split + right, column(left))]
    for term in conjuncts(plan.residual):
        for great, small in _ordered(term.unnest()):
            solved = _solved(plan, great.unnest(), small.unnest())
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


def _solved(plan: Join, great: exp.Expr, small: exp.Expr) -> AtLeast | None:
    """A comparison, brought to a column on its greater side; None if it tells nothing of one."""
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
    return column_at_least(great, small, zoned=zoned)


def _without_difference(great: exp.Expr, small: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """A comparison of times, in the place of one of their difference with a length of time."""
    if isinstance(great, exp.Sub) and used(great.expression) and is_exact(small, zoned=False):
        return great.this, exp.Add(this=great.expression.copy(), expression=small.copy())
    if isinstance(small, exp.Sub) and used(small.expression) and is_exact(great, zoned=False):
        return small.expression, exp.Sub(this=small.this.copy(), expression=great.copy())
    return great, small


class Last(NamedTuple):
    """The right side of an ASOF join.

    Attributes:
        rows: of which each row of the left side is joined with the last that is not after it.
        exprs: the columns of the right side over them; what is not theirs is the next row's time.
        begins: the condition by which it is not after it. A row that comes takes the place of one
            for which other conditions may hold, and for the one that comes may not.
    """

    rows: Plan
    exprs: Sequence[exp.Expr]
    begins: exp.Expr


def last_before(plan: Project) -> Last | None:
    """The right side of a join with the last row before each; None if the plan is another.

    So an ASOF join is written: each row stands with the next time of its key, up to which it is the
    last, and which nothing else reads. A row that comes changes the pairs of times from its own on
    alone.

    Args:
        plan: what is read of a join.
    """
    join = plan.input
    if not isinstance(join, Join) or join.kind != "inner":
        return None
    right = join.right
    window = right.input if isinstance(right, Project) else right
    own_columns = [column(i) for i in range(width(right))]
    exprs = right.exprs if isinstance(right, Project) else own_columns
    time = _time_of_next(window)
    if time is None or not isinstance(window, Window):
        return None
    origin, further = [position(e) for e in exprs], width(window.input)
    readers = [i for i, e in enumerate(exprs) if further in used(e)]
    if [origin[i] for i in readers] != [further] or time not in origin:
        return None
    own, next = [width(join.left) + i for i in (origin.index(time), *readers)]
    of_key = {origin[i] for i in join.right_keys} == set(window.partition)
    apart = all(next not in used(e) for e in plan.exprs)
    begins = _begin_of_last(conjuncts(join.residual), own, next) if of_key and apart else None
    return None if begins is None else Last(window.input, exprs, begins)


def _time_of_next(plan: Plan) -> int | None:
    """The column of which a window gives the next value in its order, and nothing else."""
    if not isinstance(plan, Window) or len(plan.calls) != 1 or not plan.order:
        return None
    call, order = plan.calls[0], plan.order[0]
    leads = (
        not order.descending
        and call.function.name.lower() == "lead"
        and not call.ignore_nulls
        and call.frame is None
    )
    told = [position(e) for e in call.function.expressions] == [order.column]
    return order.column if leads and told else None


def _begin_of_last(terms: Sequence[exp.Expr], own: int, next: int) -> exp.Expr | None:
    """Of conditions that hold of the last row not after a time alone, the one that says so.

    Args:
        terms: the conditions.
        own: the column of the row's time.
        next: that of the time of the row behind it, which one of them reads.
    """
    found = [term.unnest() for term in terms if next in used(term)]
    last = _until(found[0], next) if len(found) == 1 else None
    if last is None or next in used(last.this):
        return None
    after = exp.GT if isinstance(last, exp.LTE) else exp.GTE
    begins = compared(after, last.this.copy(), column(own))
    known = {structure(term.unnest()) for term in terms}
    return begins if structure(begins) in known else None


def _until(term: exp.Expr, next: int) -> exp.LT | exp.LTE | None:
    """The comparison with the next time, where there is one; None for another condition."""
    if not isinstance(term, exp.Or):
        return None
    null, before = term.this.unnest(), term.expression.unnest()
    is_null = isinstance(null, exp.Is) and isinstance(null.expression, exp.Null)
    if not is_null or position(null.this) != next:
        return None
    compares = isinstance(before, exp.LT | exp.LTE) and position(before.expression) == next
    return before if compares else None
