"""Columns that are unique in a plan's content, as far as its shape tells.

Law: no two rows of the content agree on the columns given, by SQL's grouping equality.
"""

from __future__ import annotations

from ivm.sql.columns import position
from ivm.sql.plan import Aggregate, Distinct, Filter, Plan, Project, Recursive, View, width


def unique_key(plan: Plan) -> tuple[int, ...]:
    """Positions of a unique key, () if none is known."""
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
            return ()


def _through(plan: Project, key: tuple[int, ...]) -> tuple[int, ...]:
    """The key's columns in the projection, () if one is not passed on."""
    places = [position(expr) for expr in plan.exprs]
    return tuple(places.index(i) for i in key) if set(key) <= set(places) else ()
