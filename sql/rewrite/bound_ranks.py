"""A filter on a rank becomes the bounds of a top-k.

Law: row number n within the partition satisfies a <= n <= b exactly for the rows a … b of the
partition's order, so the top-k that keeps those rows is the filtered window. RANK and DENSE_RANK
never fall along the order, so the rows with a rank of at most k stand first in their partition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from ivm.sql.plan.expressions import position
from ivm.sql.plan.nodes import TopK, Window, width

_WITH_TIES = frozenset(["rank", "dense_rank", "rank_dense"])
_MIRRORED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}


@dataclass(frozen=True)
class _Bounds:
    """Row numbers from `first` to `last`, both included; None for no end."""

    first: int
    last: int | None

    def meet(self, other: _Bounds) -> _Bounds:
        ends = [b.last for b in (self, other) if b.last is not None]
        return _Bounds(max(self.first, other.first), min(ends) if ends else None)


def bound_ranks(plan: TopK, terms: list[exp.Expr]) -> tuple[TopK, list[exp.Expr]]:
    """Takes the terms on its rank into the top-k's bounds; returns it and the other terms."""
    if not plan.rank:
        return plan, terms
    rank = width(plan) - 1
    bounds, rest = _Bounds(plan.offset + 1, _last(plan)), []
    for term in terms:
        found = _bounds(term, rank)
        if found is None:
            rest.append(term)
        else:
            bounds = bounds.meet(found)
    limit = None if bounds.last is None else max(bounds.last - bounds.first + 1, 0)
    return replace(plan, offset=bounds.first - 1, limit=limit), rest


def bound_window(plan: Window, terms: list[exp.Expr]) -> tuple[Window | TopK, list[exp.Expr]]:
    """Bounds a window of one rank function by the terms; returns it and the other terms.

    ROW_NUMBER with an upper bound becomes a top-k. RANK and DENSE_RANK stay a window with a bound
    (`most`), since rows that tie are kept together. Any other window is returned unchanged.
    """
    (call, *others) = plan.calls
    name = call.function.name.lower() if isinstance(call.function, exp.Anonymous) else ""
    if not others and name in _WITH_TIES:
        return _bound_with_ties(plan, terms)
    if others or name != "row_number":
        return plan, terms
    top = TopK(plan.input, plan.partition, plan.order, None, 0, True, plan.schema)
    bounded, rest = bound_ranks(top, terms)
    return (plan, terms) if bounded.limit is None else (bounded, rest)


def _bound_with_ties(plan: Window, terms: list[exp.Expr]) -> tuple[Window, list[exp.Expr]]:
    """Takes the least upper bound into the window; terms with a lower bound stay above it."""
    bounds, rest = _Bounds(1, plan.max_rank), []
    for term in terms:
        found = _bounds(term, width(plan) - 1)
        if found is not None:
            bounds = bounds.meet(replace(found, first=1))
        if found is None or found.first > 1:
            rest.append(term)
    return replace(plan, max_rank=bounds.last), rest


def _last(plan: TopK) -> int | None:
    return None if plan.limit is None else plan.offset + plan.limit


def _bounds(term: exp.Expr, rank: int) -> _Bounds | None:
    """The row numbers that a term on the rank alone allows; None for any other term."""
    if isinstance(term, exp.Between) and position(term.this.unnest()) == rank:
        low, high = _integer(term.args["low"]), _integer(term.args["high"])
        return None if low is None or high is None else _Bounds(low, high)
    kind = type(term)
    if kind not in _MIRRORED:
        return None
    left, right = term.this.unnest(), term.expression.unnest()
    if position(right) == rank:
        kind, left, right = _MIRRORED[kind], right, left
    value = _integer(right)
    if position(left) != rank or value is None:
        return None
    return _compared(kind, value)


def _compared(kind: type[exp.Expr], value: int) -> _Bounds:
    if kind is exp.EQ:
        return _Bounds(value, value)
    if kind in (exp.LT, exp.LTE):
        return _Bounds(1, value - (kind is exp.LT))
    return _Bounds(value + (kind is exp.GT), None)


def _integer(node: exp.Expr) -> int | None:
    bare = node.unnest()
    if isinstance(bare, exp.Literal) and not bare.is_string and bare.name.isdigit():
        return int(bare.name)
    return None
