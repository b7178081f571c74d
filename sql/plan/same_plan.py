"""Whether two plans have the same content: whatever maintains one maintains the other.

Law: plans are the same if they render alike, over the same columns of the same relations.
"""

from __future__ import annotations

from collections.abc import Iterator

from ivm.sql.plan.nodes import Plan, Scan, inputs
from ivm.sql.plan.render import render


def same_plan(a: Plan, b: Plan) -> bool:
    """Returns whether the plans are the same, also in the positions of the columns they scan."""
    return _scanned(a) == _scanned(b) and render(a) == render(b)


def scans(plan: Plan) -> Iterator[Scan]:
    """The scans in a plan, those below other views too, each once."""
    seen: set[int] = set()
    open_plans = [plan]
    while open_plans:
        part = open_plans.pop()
        if id(part) not in seen:
            seen.add(id(part))
            open_plans += inputs(part)
            if isinstance(part, Scan):
                yield part


def _scanned(plan: Plan) -> set[tuple[object, ...]]:
    return {(s.relation, s.columns, s.schema, s.key, s.collated) for s in scans(plan)}
