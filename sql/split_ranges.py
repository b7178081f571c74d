"""Comparisons between the two sides of an inner join become ranges to be looked up.

Law: both sides of a comparison have one type, the one DuckDB compares in, and it is of values that
sort here as they do there; what is compared is computed below the join. Any other condition stays
in the residual. NULL meets nothing, in a range as in SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlglot import exp

from ivm.delta_ops.range_join import range_order
from ivm.delta_ops.range_search import MIRRORED, Comparison
from ivm.sql.columns import compared, conjunction, conjuncts, remap, used
from ivm.sql.plan import Expr, Join, Plan, types, width
from ivm.sql.split_keys import JoinSide, casts_text, common_type
from ivm.sql.unique_key import unique_key
from ivm.storage.ordering import OrderKey, orderable
from ivm.storage.types import ColumnType

OPERATORS: dict[str, type[exp.Binary]] = {
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_NAMES = {kind: name for name, kind in OPERATORS.items()}


@dataclass(frozen=True)
class RangeJoined:
    """An inner join on ranges.

    Attributes:
        join: over sides with the columns compared; its residual is what remains.
        comparisons: of columns of its left side with columns of its right side.
        places: where each column of the original join stands.
        orders: of the rows of each side under their keys; none where a key has one row.
    """

    join: Join
    comparisons: tuple[Comparison, ...]
    places: tuple[int, ...]
    orders: tuple[tuple[OrderKey, ...], tuple[OrderKey, ...]]


def split_ranges(plan: Join) -> RangeJoined | None:
    """The join with the comparisons taken from its residual; None if no side is to be searched."""
    split = width(plan.left)
    left, right = JoinSide(plan.left), JoinSide(plan.right)
    found: list[Comparison] = []
    rest: list[Expr] = []
    for term in conjuncts(plan.residual):
        terms = _comparisons(left, right, split, term)
        found += [
            Comparison(left.place(c.left, c.type), c.operator, right.place(c.right, c.type))
            for c in terms
        ]
        if not terms:
            rest.append(term)
    if not found:
        return None
    added = len(left.exprs) - split
    places = tuple(i if i < split else i + added for i in range(width(plan)))
    residual = conjunction([remap(t, places.__getitem__) for t in rest])
    join = replace(plan, left=left.keyed(), right=right.keyed(), residual=residual)
    mirrored = [c.mirrored() for c in found]
    orders = (
        _order(join.left, join.left_keys, found),
        _order(join.right, join.right_keys, mirrored),
    )
    # Without keys an order is all there is to search by.
    useful = any(orders) if plan.left_keys else all(orders)
    return RangeJoined(join, tuple(found), places, orders) if useful else None


def _order(
    side: Plan, keys: tuple[int, ...], comparisons: Sequence[Comparison]
) -> tuple[OrderKey, ...]:
    unique = unique_key(side)
    if unique and set(unique) <= set(keys):
        return ()
    return range_order(comparisons) if all(orderable(t) for t in types(side)) else ()


class Compared(NamedTuple):
    """A comparison of the left input with the right input's own columns, and its type."""

    left: Expr
    operator: str
    right: Expr
    type: ColumnType


def _comparisons(left: JoinSide, right: JoinSide, split: int, term: Expr) -> list[Compared]:
    """The comparisons that a term stands for; none if it is another condition.

    BETWEEN compares all three in one type, so its halves must agree on that.
    """
    bare = term.unnest()
    halves: list[Expr] = [term]
    if isinstance(bare, exp.Between) and not bare.args.get("symmetric"):
        halves = [
            compared(exp.GTE, bare.this, bare.args["low"]),
            compared(exp.LTE, bare.this, bare.args["high"]),
        ]
    known = [comparison(left, right, split, half) for half in halves]
    found = [c for c in known if c is not None]
    return found if len(found) == len(halves) and len({c.type for c in found}) == 1 else []


def comparison(
    left: JoinSide, right: JoinSide, split: int, term: exp.Expression
) -> Compared | None:
    bare = term.unnest()
    operator = _NAMES.get(type(bare))  # type: ignore[arg-type]  # another kind is not found
    if operator is None or not isinstance(bare, exp.Binary) or bare.find(exp.Collate):
        return None
    a, b = bare.this.unnest(), bare.expression.unnest()
    if not used(a) or not used(b):
        return None
    if min(used(a)) >= split:
        a, b, operator = b, a, MIRRORED[operator]
    if max(used(a)) >= split or min(used(b)) < split:
        return None
    b = remap(b, lambda i: i - split)
    wanted = common_type(left, right, a, b)
    if wanted is None or not orderable(wanted) or casts_text(left, right, a, b, wanted):
        return None
    return Compared(a, operator, b, wanted)
