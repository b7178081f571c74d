"""Columns of a recursive query that each row takes unchanged from its base row.

Law: if each row of the step comes from one of the last rows and takes columns from it unchanged,
all rows that come from a base row share these columns with it. So a filter over them alone may move
into the base.
"""

from __future__ import annotations

from collections.abc import Mapping

from ivm.sql.plan.columns import origins
from ivm.sql.plan.nodes import (
    Distinct,
    Filter,
    Join,
    Plan,
    Project,
    Recursive,
    RecursiveScan,
    Union,
    width,
)
from ivm.sql.plan.walks import free_recursions, inputs


def invariant_columns(plan: Recursive) -> frozenset[int]:
    """Positions that the step takes unchanged from the last rows; none if it mixes these rows."""
    return frozenset(i for i, source in _sources(plan.step).items() if i == source)


def _sources(plan: Plan) -> Mapping[int, int]:
    """Maps positions in a plan over the last rows to the positions in them that it passes on.

    Empty where a row does not come from exactly one of the last rows.
    """
    match plan:
        case RecursiveScan():
            return {i: i for i in range(width(plan))}
        case Union(negated=()):
            parts = [_sources(part).items() for part in plan.inputs]
            return dict(set(parts[0]).intersection(*parts[1:]))
        case Join() if _mixes(plan):
            return {}
        case Filter() | Distinct() | Project() | Join():
            found = {}
            for part, own in zip(inputs(plan), origins(plan), strict=True):
                below = _sources(part)
                found.update({i: below[source] for i, source in own.items() if source in below})
            return found
    return {}


def _mixes(plan: Join) -> bool:
    """Returns whether a row may come from several last rows, or from none."""
    if plan.kind == "inner":
        return bool(free_recursions(plan.left) and free_recursions(plan.right))
    return plan.kind == "full" or bool(free_recursions(plan.right))
