"""Neighbouring projections become one, and projections that change nothing are dropped.

Law: a projection of a projection is the projection of the substituted expressions. An expression
used more than once stays below, so that it is computed once.
"""

from __future__ import annotations

from collections import Counter

from sqlglot import exp

from ivm.sql.plan.expressions import index_of, position
from ivm.sql.plan.expressions import replace as substitute
from ivm.sql.plan.nodes import Plan, Project, types
from ivm.sql.plan.walks import with_inputs
from ivm.sql.rewrite.push_filters import image_of


def merge_projects(plan: Plan) -> Plan:
    """The plan with as few projections as its expressions allow."""
    merged = with_inputs(plan, lambda part: _plain(merge_projects(part)))
    return _merged(merged) if isinstance(merged, Project) else merged


def _plain(plan: Plan) -> Plan:
    """The plan without the projection on top, if that passes every column on unchanged."""
    if isinstance(plan, Project):
        same = [position(e) for e in plan.exprs] == list(range(len(types(plan.input))))
        return plan.input if same else plan
    return plan


def _merged(plan: Project) -> Project:
    while isinstance(plan.input, Project) and _once(plan, plan.input):
        below = plan.input
        image = image_of(below)
        exprs = tuple(
            below.exprs[p] if (p := position(e)) is not None else substitute(e, image)
            for e in plan.exprs
        )
        plan = Project(below.input, exprs, plan.schema)
    return plan


def _once(plan: Project, below: Project) -> bool:
    """Returns whether no computed column of `below` is read twice."""
    reads = Counter(index_of(c) for e in plan.exprs for c in e.find_all(exp.Column))
    return all(n == 1 or position(below.exprs[i]) is not None for i, n in reads.items())
