"""ASOF joins in a plan: the window and the join that `ivm.sql.bind.asof` writes for them.

Law: each right row stands with the next value of its key (or the one before), up to which it is the
nearest, and which nothing else reads. So a left row meets the nearest right row alone, and which
one it is depends on the rows up to there alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from sqlglot import exp

from ivm.sql.plan.expressions import (
    column,
    compared,
    conjuncts,
    index_of,
    position,
    replace,
    structure,
    used,
)
from ivm.sql.plan.nodes import Filter, Join, Plan, Project, Window, width

Order: TypeAlias = exp.GT | exp.GTE | exp.LT | exp.LTE

_BEGINS: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
}
"""How a value compares with a row's own, where it compares so with the next one's."""
_ENDS = {"lead": (exp.LT, exp.LTE), "lag": (exp.GT, exp.GTE)}


class Nearest(NamedTuple):
    """An ASOF join.

    Attributes:
        window: over the rows of the right side, of which the first key of its order is compared.
        exprs: the right side's columns over those of the window; the window's last column, the next
            value, is one of them.
        filters: conditions on the row met, over the window's columns.
        operator: of the comparison.
        value: what is compared with the right row's value, over the join's columns.
        begins: the comparison. A right row that comes takes the place of one for which other
            conditions may hold, and for the one that comes may not.
        terms: the join's other conditions, over its columns.
    """

    window: Window
    exprs: Sequence[exp.Expr]
    filters: Sequence[exp.Expr]
    operator: type[exp.Binary]
    value: exp.Expr
    begins: exp.Expr
    terms: Sequence[exp.Expr]

    @property
    def rows(self) -> Plan:
        """The rows of the right side."""
        return self.window.input

    @property
    def is_last(self) -> bool:
        """Returns whether the nearest row is the last one that is not after, not the first."""
        return self.operator in (exp.GT, exp.GTE)


class _Right(NamedTuple):
    """A window, and what stands above it: the columns over its own, and conditions on them."""

    window: Window
    exprs: list[exp.Expr]
    filters: list[exp.Expr]


def nearest_row(plan: Project) -> Nearest | None:
    """The ASOF join that a plan reads; None if it reads anything else.

    Args:
        plan: what is read of a join.
    """
    join = plan.input
    inner = isinstance(join, Join) and join.kind == "inner" and not join.lookup
    right = _right(join.right) if isinstance(join, Join) and inner else None
    neighbour = None if right is None else _neighbour(right.window)
    if right is None or neighbour is None or not isinstance(join, Join):
        return None
    (window, exprs, filters), (value, ends) = right, neighbour
    origin, further = [position(e) for e in exprs], width(window.input)
    readers = [i for i, e in enumerate(exprs) if further in used(e)]
    if [origin[i] for i in readers] != [further] or value not in origin:
        return None
    own, next = [width(join.left) + i for i in (origin.index(value), *readers)]
    of_key = {origin[i] for i in join.right_keys} == set(window.partition)
    others = [*[next in used(e) for e in plan.exprs], *[further in used(f) for f in filters]]
    read = _read(conjuncts(join.residual), own, next, ends)
    if not of_key or any(others) or read is None:
        return None
    return Nearest(window, exprs, filters, *read)


def _right(plan: Plan) -> _Right | None:
    """The window below projections and filters; None if there is none."""
    if isinstance(plan, Window):
        return _Right(plan, [column(i) for i in range(width(plan))], [])
    found = _right(plan.input) if isinstance(plan, Project | Filter) else None
    if found is None:
        return None
    window, below, filters = found

    def over(expr: exp.Expr) -> exp.Expr:
        return replace(expr, lambda node: below[index_of(node)])

    if isinstance(plan, Filter):
        return _Right(window, below, [*filters, *map(over, conjuncts(plan.predicate))])
    assert isinstance(plan, Project)
    exprs = [below[index_of(e)] if isinstance(e, exp.Column) else over(e) for e in plan.exprs]
    return _Right(window, exprs, filters)


def _neighbour(plan: Window) -> tuple[int, tuple[type[exp.Expr], ...]] | None:
    """The column of which a window gives the next value in its order, and nothing else.

    Also how a left value compares with it while a row is the nearest.
    """
    if len(plan.calls) != 1 or not plan.order:
        return None
    call, order = plan.calls[0], plan.order[0]
    ends = _ENDS.get(call.function.name.lower())
    plain = not order.descending and not call.ignore_nulls and call.frame is None
    told = [position(e) for e in call.function.expressions] == [order.column]
    return (order.column, ends) if ends is not None and plain and told else None


def _read(
    terms: Sequence[exp.Expr], own: int, next: int, ends: tuple[type[exp.Expr], ...]
) -> tuple[type[exp.Binary], exp.Expr, exp.Expr, list[exp.Expr]] | None:
    """The comparison of a value with a row's own, where the row is the nearest one, and the rest.

    Args:
        terms: the conditions.
        own: the column of the row's value.
        next: that of the value of the row behind it, which one of them reads.
        ends: how a value compares with it.
    """
    found = [term.unnest() for term in terms if next in used(term)]
    until = _until(found[0], next) if len(found) == 1 else None
    if not isinstance(until, ends) or next in used(until.this):
        return None
    operator, value = _BEGINS[type(until)], until.this.unnest()
    begins = compared(operator, value.copy(), column(own))
    rest = [term for term in terms if next not in used(term)]
    others = [term for term in rest if structure(term.unnest()) != structure(begins)]
    return (operator, value, begins, others) if len(others) < len(rest) else None


def _until(term: exp.Expr, next: int) -> exp.Expr | None:
    """The comparison with the next value, where there is one; None for another condition."""
    if not isinstance(term, exp.Or):
        return None
    null, before = term.this.unnest(), term.expression.unnest()
    is_null = isinstance(null, exp.Is) and isinstance(null.expression, exp.Null)
    if not is_null or position(null.this) != next or not isinstance(before, exp.Binary):
        return None
    return before if position(before.expression) == next else None
