"""Whether two plans have the same content: whatever maintains one maintains the other.

Law: plans are the same if they render alike, over the same columns of the same relations.
"""

from __future__ import annotations

from collections.abc import Iterator

from ivm.sql.plan.nodes import Plan, Scan
from ivm.sql.plan.render import render
from ivm.sql.plan.walks import nodes


def same_plan(a: Plan, b: Plan) -> bool:
    """Returns whether the plans are the same, also in the positions of the columns they scan."""
    return _scanned(a) == _scanned(b) and render(a) == render(b)


def scans(plan: Plan) -> Iterator[Scan]:
    """The scans in a plan, those below other views too, each once."""
    return (node for node in nodes(plan) if isinstance(node, Scan))


def _scanned(plan: Plan) -> set[tuple[object, ...]]:
    return {(s.relation, s.columns, s.schema, s.key, s.collated) for s in scans(plan)}
