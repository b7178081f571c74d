"""Columns that are unique in a plan's content, as far as its shape and primary keys tell.

Law: no two rows of the content agree on the columns of a key, by SQL's grouping equality; where a
key has no columns, there is at most one row.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.sql.plan.columns import origins
from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Plan,
    Project,
    Recursive,
    Scan,
    SetOp,
    TopK,
    ViewScan,
    Window,
    width,
)

Key = tuple[int, ...]


def unique_key(plan: Plan) -> Key | None:
    """Positions of the shortest unique key that is known, None if none is."""
    return min(unique_keys(plan), key=len, default=None)


def unique_keys(plan: Plan) -> list[Key]:
    """Some unique keys, by the positions of their columns."""
    match plan:
        case Scan():
            return [] if plan.key is None else [plan.key]
        case Aggregate():
            return [tuple(range(len(plan.groups)))]
        case Distinct() | Recursive(distinct=True) | SetOp(all=False):
            return [tuple(range(width(plan)))]
        case Filter() | Project() | ViewScan() | TopK() | Window():
            return _passed_on(plan, unique_keys(plan.input))
        case Join():
            return _of_join(plan)
        case _:
            return []


def _passed_on(plan: Plan, keys: Sequence[Key]) -> list[Key]:
    """The keys whose columns the node passes on."""
    (own,) = origins(plan)
    places = {place: i for i, place in sorted(own.items(), reverse=True)}
    return [tuple(places[i] for i in key) for key in keys if places.keys() >= set(key)]


def _of_join(plan: Join) -> list[Key]:
    """A side's keys stay unique where each of its rows meets at most one of the other side."""
    left = unique_keys(plan.left)
    if plan.kind in ("semi", "anti"):
        return left
    if plan.kind not in ("inner", "left"):
        return []
    split = width(plan.left)
    right = [tuple(split + i for i in key) for key in unique_keys(plan.right)]
    right_keys = [split + i for i in plan.right_keys]
    if any(set(key) <= set(right_keys) for key in right):
        equal = dict(zip(plan.left_keys, right_keys, strict=True)) if plan.kind == "inner" else {}
        return _with_equals(left, equal)
    if plan.kind == "inner" and any(set(key) <= set(plan.left_keys) for key in left):
        return _with_equals(right, dict(zip(right_keys, plan.left_keys, strict=True)))
    return [left[0] + right[0]] if left and right else []


def _with_equals(keys: Sequence[Key], equal: dict[int, int]) -> list[Key]:
    """The keys, and what they are with their columns replaced by equal ones."""
    swapped = [tuple(equal.get(i, i) for i in key) for key in keys]
    return list(dict.fromkeys([*keys, *swapped]))
