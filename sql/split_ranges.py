"""Comparisons between the two sides of an inner join become ranges to be looked up.

Law: both sides of a comparison have one type, the one DuckDB compares in, and it is of values that
sort here as they do there; what is compared is computed below the join. Any other condition stays
in the residual. NULL meets nothing, in a range as in SQL.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlglot import exp

from ivm.delta_ops.range_search import MIRRORED, Comparison
from ivm.sql.columns import compared, conjunction, conjuncts, remap, used
from ivm.sql.plan import Expr, Join, types, width
from ivm.sql.split_keys import JoinSide, casts_text, common_type
from ivm.storage.ordering import orderable
from ivm.storage.types import ColumnType

_OPERATORS: dict[type[exp.Expression], str] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


@dataclass(frozen=True)
class RangeJoined:
    """An inner join on ranges.

    Attributes:
        join: over sides with the columns compared; its residual is what remains.
        comparisons: of columns of its left side with columns of its right side.
        places: where each column of the original join stands.
    """

    join: Join
    comparisons: tuple[Comparison, ...]
    places: tuple[int, ...]


def split_ranges(plan: Join) -> RangeJoined | None:
    """The join with the comparisons taken from its residual; None if there are none."""
    if not all(orderable(t) for t in types(plan)):
        return None
    split = width(plan.left)
    left, right = JoinSide(plan.left), JoinSide(plan.right)
    found: list[Comparison] = []
    rest: list[Expr] = []
    for term in conjuncts(plan.residual):
        terms = _compared(left, right, split, term)
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
    return RangeJoined(join, tuple(found), places)


class _Compared(NamedTuple):
    """A comparison of the left input with the right input's own columns, and its type."""

    left: Expr
    operator: str
    right: Expr
    type: ColumnType


def _compared(left: JoinSide, right: JoinSide, split: int, term: Expr) -> list[_Compared]:
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
    known = [_comparison(left, right, split, half) for half in halves]
    found = [c for c in known if c is not None]
    return found if len(found) == len(halves) and len({c.type for c in found}) == 1 else []


def _comparison(
    left: JoinSide, right: JoinSide, split: int, term: exp.Expression
) -> _Compared | None:
    operator = _OPERATORS.get(type(term))
    if operator is None or not isinstance(term, exp.Binary) or term.find(exp.Collate):
        return None
    a, b = term.this.unnest(), term.expression.unnest()
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
    return _Compared(a, operator, b, wanted)
