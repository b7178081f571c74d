"""Comparisons between the two sides of an inner join become ranges to be looked up.

Law: both sides of a comparison have one type, in which DuckDB compares them and whose values sort
here as they do there; the values are computed below the join. Any other condition stays in the
residual. NULL is in no range, as it equals nothing in SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlglot import exp

from ivm.delta_ops.joins.range_join import range_order
from ivm.delta_ops.joins.range_search import MIRRORED, Comparison
from ivm.sql.plan.expressions import compared, conjunction, conjuncts, remap, structure, used
from ivm.sql.plan.nodes import Join, Plan, types, width
from ivm.sql.plan.unique_key import unique_key
from ivm.sql.rewrite.split_keys import JoinSide, casts_strings, common_type
from ivm.storage.values.ordering.order import OrderKey, orderable
from ivm.storage.values.types import ColumnType

OPERATORS: dict[str, type[exp.Binary]] = {
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
NAMES = {kind: name for name, kind in OPERATORS.items()}


@dataclass(frozen=True)
class RangeJoined:
    """An inner join on ranges.

    Attributes:
        join: over sides with the columns compared, and without the comparisons in its residual.
        comparisons: of columns of its left side with columns of its right side.
        positions: in it, of the columns of the original join.
        orders: of the rows of each side under their keys; empty where a key has one row.
    """

    join: Join
    comparisons: tuple[Comparison, ...]
    positions: tuple[int, ...]
    orders: tuple[tuple[OrderKey, ...], tuple[OrderKey, ...]]


def split_ranges(plan: Join) -> RangeJoined | None:
    """Takes comparisons from the join's residual; None if no side could be searched by them."""
    split = width(plan.left)
    left, right = JoinSide(plan.left), JoinSide(plan.right)
    terms = conjuncts(plan.residual)
    known = [_comparisons(left, right, split, term) for term in terms]
    closed = [c for found in known for c in found if not c.open]
    if not closed:
        return None
    known = [[c for c in found if _is_bounded(c, closed)] for found in known]
    found = tuple([_over_columns(left, right, c) for comparisons in known for c in comparisons])
    rest = [term for term, comparisons in zip(terms, known, strict=True) if not comparisons]
    added = len(left.exprs) - split
    positions = tuple(i if i < split else i + added for i in range(width(plan)))
    residual = conjunction([remap(t, positions.__getitem__) for t in rest])
    join = replace(plan, left=left.keyed(), right=right.keyed(), residual=residual)
    mirrored = [c.mirrored() for c in found]
    orders = (
        order_of_side(join.left, join.left_keys, found),
        order_of_side(join.right, join.right_keys, mirrored),
    )
    # Without keys, only an order can be searched, so both sides need one.
    useful = any(orders) if plan.left_keys else all(orders)
    return RangeJoined(join, found, positions, orders) if useful else None


def order_of_side(
    side: Plan, keys: tuple[int, ...], comparisons: Sequence[Comparison]
) -> tuple[OrderKey, ...]:
    """The order of the rows under each key; none if a key has one row, or the rows no order.

    Args:
        side: one side of a join.
        keys: its columns of the join's keys.
        comparisons: of its columns with those of the other side.
    """
    unique = unique_key(side)
    if unique and set(unique) <= set(keys):
        return ()
    return range_order(comparisons) if all(orderable(t) for t in types(side)) else ()


def _is_bounded(known: Compared, closed: Sequence[Compared]) -> bool:
    """Returns whether a comparison is closed, or NULLs of its closed side fail another one."""
    if not known.open:
        return True
    if known.open == "right":
        return structure(known.left) in [structure(c.left) for c in closed]
    return structure(known.right) in [structure(c.right) for c in closed]


def _over_columns(left: JoinSide, right: JoinSide, known: Compared) -> Comparison:
    """The comparison by positions; expressions are added to the sides as columns."""
    a, b = left.position_of(known.left, known.type), right.position_of(known.right, known.type)
    return Comparison(a, known.operator, b, known.open)


class Compared(NamedTuple):
    """A comparison of the left input with the right input's own columns, and its type.

    Attributes:
        open: as of a `Comparison`.
    """

    left: exp.Expr
    operator: str
    right: exp.Expr
    type: ColumnType
    open: str = ""


def _comparisons(left: JoinSide, right: JoinSide, split: int, term: exp.Expr) -> list[Compared]:
    """The comparisons that a term comes to; none if it is another condition.

    BETWEEN compares its three operands in one type, so its halves must agree on the type.
    """
    bare = term.unnest()
    if isinstance(bare, exp.Or):
        either = _open_comparison(left, right, split, bare)
        return [] if either is None else [either]
    halves: list[exp.Expr] = [term]
    if isinstance(bare, exp.Between) and not bare.args.get("symmetric"):
        halves = [
            compared(exp.GTE, bare.this, bare.args["low"]),
            compared(exp.LTE, bare.this, bare.args["high"]),
        ]
    known = [comparison(left, right, split, half) for half in halves]
    found = [c for c in known if c is not None]
    return found if len(found) == len(halves) and len({c.type for c in found}) == 1 else []


def _open_comparison(left: JoinSide, right: JoinSide, split: int, term: exp.Or) -> Compared | None:
    """Reads `x IS NULL OR …`, where x is a side of the comparison; None for any other term."""
    a, b = term.this.unnest(), term.expression.unnest()
    null, other = (a, b) if isinstance(a, exp.Is) else (b, a)
    if not isinstance(null, exp.Is) or not isinstance(null.expression, exp.Null):
        return None
    known = comparison(left, right, split, other)
    if known is None:
        return None
    tested = structure(null.this)
    if tested not in (structure(other.this), structure(other.expression)):
        return None
    return known._replace(open="right" if min(used(null.this)) >= split else "left")


def comparison(left: JoinSide, right: JoinSide, split: int, term: exp.Expr) -> Compared | None:
    """Reads a term as a comparison of the two sides of a join; None if it is none that sorts.

    Args:
        split: how many columns the left side has.
    """
    bare = term.unnest()
    operator = NAMES.get(type(bare))  # type: ignore[arg-type]  # another kind is not found
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
    if wanted is None or not orderable(wanted) or casts_strings(left, right, a, b, wanted):
        return None
    if _casts_string(left, a) or _casts_string(right, b):
        return None
    return Compared(a, operator, b, wanted)


def _casts_string(side: JoinSide, expr: exp.Expr) -> bool:
    """Returns whether the expression casts strings: below the join, that may fail in more rows."""
    casts = [c for c in expr.find_all(exp.Cast) if not isinstance(c, exp.TryCast)]
    return any(side.type(c.this).is_string for c in casts)
