"""Filters that pass into the base of a recursive query.

Law: if every row of the step comes from one of the last rows and takes columns from it unchanged,
all rows that come from a base row have those columns of it; so a filter over them alone may choose
among the base's rows instead.
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
    inputs,
    open_scans,
    width,
)


def carried_columns(plan: Recursive) -> frozenset[int]:
    """Columns that the step takes from the last rows as they are; none if it mixes these rows."""
    return frozenset(i for i, place in _carried(plan.step).items() if i == place)


def _carried(plan: Plan) -> Mapping[int, int]:
    """Which columns of a plan over the last rows are which of theirs.

    None are where its rows do not come from one last row each.
    """
    match plan:
        case RecursiveScan():
            return {i: i for i in range(width(plan))}
        case Union(negated=()):
            parts = [_carried(part).items() for part in plan.inputs]
            return dict(set(parts[0]).intersection(*parts[1:]))
        case Join() if _mixes(plan):
            return {}
        case Filter() | Distinct() | Project() | Join():
            found = {}
            for part, own in zip(inputs(plan), origins(plan), strict=True):
                below = _carried(part)
                found.update({i: below[place] for i, place in own.items() if place in below})
            return found
    return {}


def _mixes(plan: Join) -> bool:
    """Whether a row may come from several last rows, or from none."""
    if plan.kind == "inner":
        return bool(open_scans(plan.left) and open_scans(plan.right))
    return plan.kind == "full" or bool(open_scans(plan.right))
