"""The operators of inner joins (on ranges, equal keys, any condition, the nearest row) and lookups.

Law: an operator computes exactly its node's rendering. Joins of other kinds are expanded into these
before.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import NamedTuple

from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.joins.join import Join as JoinOperator
from ivm.delta_ops.joins.lookup_join import LookupJoin
from ivm.delta_ops.joins.nearest_join import NearestJoin
from ivm.delta_ops.joins.range_join import RangeJoin
from ivm.delta_ops.joins.range_search import Comparison
from ivm.delta_ops.joins.theta_join import ThetaJoin
from ivm.delta_ops.operator import CursorFactory, Operator, Predicate
from ivm.sql.compile.recipe import Arranged, Operators, Recipe, predicate_of
from ivm.sql.plan.built_in import duck_text
from ivm.sql.plan.expressions import conjunction, position, remap, text
from ivm.sql.plan.nearest_row import nearest_row
from ivm.sql.plan.nodes import Join, Project, types, width
from ivm.sql.rewrite.expand_joins import mirrored
from ivm.sql.rewrite.split_ranges import NAMES, RangeJoined, order_of_side, split_ranges
from ivm.sql.scalar.compile import compile_predicate
from ivm.storage.values.ordering.order import OrderKey, orderable


def inner_join(plan: Join, cursors: CursorFactory, keep: list[int] | None = None) -> Recipe:
    """Makes an inner join, on ranges, on equal keys, or on any condition, or a lookup.

    Args:
        keep: positions of the columns of its output; None for all.
    """
    if plan.lookup:
        return _lookup(plan, cursors)
    output = list(range(width(plan))) if keep is None else keep
    ranged = None if plan.residual is None else split_ranges(plan)
    if ranged is not None:
        return _range_join(plan, ranged, output, cursors)
    key = ("join", tuple(output), plan.null_safe, _residual_text(plan))
    if not plan.left_keys:
        return _theta_join(plan, key, output, cursors)

    def build(sides: Operators) -> Operator:
        left, right = _arranged(sides)
        return JoinOperator(left, right, output, plan.null_safe, _residual(plan, cursors))

    sides = [Arranged(plan.left, plan.left_keys), Arranged(plan.right, plan.right_keys)]
    return Recipe(plan, key, sides, build)


def _lookup(plan: Join, cursors: CursorFactory) -> Recipe:
    def build(sides: Operators) -> Operator:
        right = sides[1]
        assert isinstance(right, Arrange)
        assert plan.kind != "full"
        residual = _residual(replace(plan, kind="inner"), cursors)
        given = types(plan.left), plan.left_keys
        return LookupJoin(*given, right, plan.kind, plan.null_safe, residual)

    key = ("lookup", plan.kind, plan.left_keys, plan.null_safe, _residual_text(plan))
    return Recipe(plan, key, [plan.left, Arranged(plan.right, plan.right_keys)], build)


def _range_join(
    plan: Join, ranged: RangeJoined, output: list[int], cursors: CursorFactory
) -> Recipe:
    join = ranged.join

    def build(sides: Operators) -> Operator:
        left, right = _arranged(sides)
        residual = _residual(join, cursors)
        positions = [ranged.positions[i] for i in output]
        return RangeJoin(left, right, positions, ranged.comparisons, join.null_safe, residual)

    key = ("range join", ranged.comparisons, tuple(output), join.null_safe, _residual_text(join))
    sides = [
        Arranged(join.left, join.left_keys, ranged.orders[0]),
        Arranged(join.right, join.right_keys, ranged.orders[1]),
    ]
    return Recipe(plan, key, sides, build)


def _theta_join(
    plan: Join, key: tuple[Hashable, ...], output: list[int], cursors: CursorFactory
) -> Recipe:
    def build(_: Operators) -> Operator:
        condition: Predicate | str | None = None
        if plan.residual is not None:
            condition = compile_predicate(plan.residual, types(plan)) or duck_text(plan.residual)
        return ThetaJoin(types(plan.left), types(plan.right), output, condition, cursors)

    return Recipe(plan, key, [plan.left, plan.right], build)


# --- the nearest row ---


class _Paired(NamedTuple):
    """An ASOF join, over the right rows themselves.

    Attributes:
        join: of all pairs of equal keys that meet its further conditions.
        places: in it, of the columns of the ASOF join; that of the next value is none.
        comparison: by which a row is the nearest.
        order: of the right rows under a key.
    """

    join: Join
    places: list[int]
    comparison: Comparison
    order: tuple[OrderKey, ...]


def nearest_join(plan: Project, cursors: CursorFactory) -> Recipe | None:
    """Makes an ASOF join, of which a projection selects columns; None for any other plan."""
    plan = with_nearest(plan) or plan
    paired, below = _paired(plan), plan.input
    if paired is None:
        return None
    join, places, comparison, order = paired
    output = [places[i] for i in map(position, plan.exprs) if i is not None]

    def build(sides: Operators) -> Operator:
        left, right = _arranged(sides)
        residual = _residual(join, cursors)
        return NearestJoin(left, right, output, comparison, join.null_safe, residual)

    key = ("nearest join", comparison, tuple(output), join.null_safe, _residual_text(join))
    sides = [
        Arranged(join.left, join.left_keys, order_of_side(join.left, join.left_keys, [comparison])),
        Arranged(join.right, join.right_keys, order),
    ]
    return Recipe(below, key, sides, build)


def with_nearest(plan: Project) -> Project | None:
    """A projection of an ASOF join whose nearest rows are on the right; None for any other plan.

    Where the order of joins has put them on the left, the sides are exchanged.
    """
    join = plan.input
    if nearest_row(plan) is not None:
        return plan
    if not isinstance(join, Join) or join.kind != "inner":
        return None
    left, right = width(join.left), width(join.right)
    exprs = [remap(e, lambda i: i + right if i < left else i - left) for e in plan.exprs]
    turned = replace(plan, input=mirrored(join), exprs=tuple(exprs))
    return None if nearest_row(turned) is None else turned


def _paired(plan: Project) -> _Paired | None:
    """The ASOF join that a projection reads; None if there is none, or a side has no order.

    Its columns and the compared values are to be columns of its sides.
    """
    found, join = nearest_row(plan), plan.input
    if found is None or not isinstance(join, Join):
        return None
    split, own = width(join.left), [position(e) for e in found.exprs]
    value, order = position(found.value), found.window.order
    ordered = all(orderable(t) for side in (join.left, found.rows) for t in types(side))
    if value is None or value >= split or None in own or not ordered:
        return None
    places = [*range(split), *[split + i for i in own if i is not None]]
    terms = [remap(term, places.__getitem__) for term in found.terms]
    terms += [remap(term, lambda i: split + i) for term in found.filters]
    keys = tuple([places[split + i] - split for i in join.right_keys])
    over = replace(join, right=found.rows, right_keys=keys, residual=conjunction(terms))
    return _Paired(over, places, Comparison(value, NAMES[found.operator], order[0].column), order)


# --- their parts ---


def _residual(plan: Join, cursors: CursorFactory) -> Predicate | None:
    return None if plan.residual is None else predicate_of(plan.residual, plan, cursors)


def _residual_text(plan: Join) -> str | None:
    return None if plan.residual is None else text(plan.residual)


def _arranged(sides: Operators) -> tuple[Arrange, Arrange]:
    left, right = sides
    assert isinstance(left, Arrange)
    assert isinstance(right, Arrange)
    return left, right
