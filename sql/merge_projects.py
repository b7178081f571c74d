"""Neighbouring projections become one, and projections that change nothing go.

Law: a projection of a projection is the projection of the substituted expressions. An expression
used more than once stays below, so that it is computed once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sqlglot import exp

from ivm.sql.columns import index_of, position
from ivm.sql.columns import replace as substitute
from ivm.sql.plan import (
    Join,
    OpenLimit,
    Plan,
    Project,
    Recursive,
    RecursiveScan,
    Scan,
    SetOp,
    TableFunction,
    Union,
    Values,
    View,
    types,
)
from ivm.sql.push_filters import image_of


def merge_projects(plan: Plan) -> Plan:
    """The plan with as few projections as its expressions allow."""
    match plan:
        case Scan() | Values() | View() | TableFunction() | RecursiveScan():
            return plan
        case Project():
            return _merged(replace(plan, input=_plain(merge_projects(plan.input))))
        case Join() | SetOp():
            left, right = _plain(merge_projects(plan.left)), _plain(merge_projects(plan.right))
            return replace(plan, left=left, right=right)
        case OpenLimit():
            below, places = _plain(merge_projects(plan.input)), _plain(merge_projects(plan.places))
            return replace(plan, input=below, places=places)
        case Recursive():
            base, step = _plain(merge_projects(plan.base)), _plain(merge_projects(plan.step))
            return replace(plan, base=base, step=step)
        case Union():
            parts = tuple(_plain(merge_projects(part)) for part in plan.inputs)
            return replace(plan, inputs=parts)
        case _:
            return replace(plan, input=_plain(merge_projects(plan.input)))


def _plain(plan: Plan) -> Plan:
    """The plan without a projection on top that passes every column on."""
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
    """Whether no computed column of `below` is read twice."""
    reads = Counter(index_of(c) for e in plan.exprs for c in e.find_all(exp.Column))
    return all(n == 1 or position(below.exprs[i]) is not None for i, n in reads.items())
