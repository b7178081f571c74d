"""Unique keys of a plan's content, derived from its nodes and from primary keys.

Law: no two rows of the content agree on the columns of a key, by grouping equality; with an empty
key there is at most one row.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.sql.plan.columns import origins
from ivm.sql.plan.nodes import (
    Aggregate,
    Arrived,
    Distinct,
    Emit,
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
    """Positions of the shortest known unique key; None if none is known."""
    return min(unique_keys(plan), key=len, default=None)


def unique_keys(plan: Plan) -> list[Key]:
    """The known unique keys, by the positions of their columns; there may be others."""
    match plan:
        case Scan():
            return [] if plan.key is None else [plan.key]
        case Aggregate():
            return [tuple(range(len(plan.groups)))]
        case Distinct() | Recursive(distinct=True) | SetOp(all=False):
            return [tuple(range(width(plan)))]
        case Filter() | Project() | ViewScan() | TopK() | Window():
            return _passed_on(plan, unique_keys(plan.input))
        case Emit():  # what is final stays, and its key may come again, later
            return [tuple(sorted({*key, plan.by})) for key in unique_keys(plan.input)]
        case Arrived():  # what was made of one row was made at one time
            return [key for key in unique_keys(plan.present) if set(plan.key) <= set(key)]
        case Join():
            return _of_join(plan)
        case _:
            return []


def _passed_on(plan: Plan, keys: Sequence[Key]) -> list[Key]:
    """The keys whose columns the node passes on."""
    (own,) = origins(plan)
    above = {below: i for i, below in sorted(own.items(), reverse=True)}
    return [tuple(above[i] for i in key) for key in keys if above.keys() >= set(key)]


def _of_join(plan: Join) -> list[Key]:
    """A side's keys stay unique if each of its rows matches at most one row of the other side."""
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
    """The keys, and the keys with their columns replaced by equal ones."""
    swapped = [tuple(equal.get(i, i) for i in key) for key in keys]
    return list(dict.fromkeys([*keys, *swapped]))
