"""Filters that pass into the base of a recursive query.

Law: if every row of the step comes from one of the last rows and takes columns from it unchanged,
all rows that come from a base row have those columns of it; so a filter over them alone may choose
among the base's rows instead.
"""

from __future__ import annotations

from ivm.sql.plan.expressions import position
from ivm.sql.plan.nodes import (
    Distinct,
    Filter,
    Join,
    Plan,
    Project,
    Recursive,
    RecursiveScan,
    Union,
    open_scans,
    width,
)


def carried_columns(plan: Recursive) -> frozenset[int]:
    """Columns that the step takes from the last rows as they are; none if it mixes these rows."""
    origins = _origins(plan.step)
    return frozenset(i for i, origin in enumerate(origins) if origin == i)


def _origins(plan: Plan) -> list[int | None]:
    """Per column of a plan over the last rows: which column of the one row below it is.

    A plan whose rows do not come from one last row each has no origins.
    """
    unknown: list[int | None] = [None] * width(plan)
    match plan:
        case RecursiveScan():
            return list(range(width(plan)))
        case Filter() | Distinct():
            return _origins(plan.input)
        case Project():
            below = _origins(plan.input)
            places = [position(e) for e in plan.exprs]
            return [None if p is None else below[p] for p in places]
        case Union() if not plan.negated:
            parts = zip(*[_origins(part) for part in plan.inputs], strict=True)
            return [part[0] if len(set(part)) == 1 else None for part in parts]
        case Join(kind="inner") if not (open_scans(plan.left) and open_scans(plan.right)):
            return _side(plan.left) + _side(plan.right)
        case Join(kind="left") if not open_scans(plan.right):
            return _side(plan.left) + _side(plan.right)
        case Join(kind="semi" | "anti") if not open_scans(plan.right):
            return _side(plan.left)
    return unknown


def _side(plan: Plan) -> list[int | None]:
    return _origins(plan) if open_scans(plan) else [None] * width(plan)
