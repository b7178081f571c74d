"""Columns that are unique in a plan's content, as far as its shape tells.

Law: no two rows of the content agree on the columns given, by SQL's grouping equality; where no
columns are given, there is at most one row.
"""

from __future__ import annotations

from ivm.sql.columns import position
from ivm.sql.plan import Aggregate, Distinct, Filter, Plan, Project, Recursive, View, width


def unique_key(plan: Plan) -> tuple[int, ...] | None:
    """Positions of a unique key, None if none is known."""
    match plan:
        case Aggregate():
            return tuple(range(len(plan.groups)))
        case Distinct() | Recursive(distinct=True):
            return tuple(range(width(plan)))
        case Filter() | View():
            return unique_key(plan.input)
        case Project():
            return _through(plan, unique_key(plan.input))
        case _:
            return None


def _through(plan: Project, key: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The key's columns in the projection, None if one is not passed on."""
    places = [position(expr) for expr in plan.exprs]
    if key is None or not set(key) <= set(places):
        return None
    return tuple(places.index(i) for i in key)
