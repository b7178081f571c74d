"""Awaited rows in the plans of final views: relations without rows that are of no use any more.

Law: only where that bounds what is kept. The operators of linear nodes keep no rows, and groups of
sums only the sums; of all others the first above a relation keeps its rows, and so do those above
it what they make of them.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.delta_ops.operator import Kernel
from ivm.sql.plan.expressions import column
from ivm.sql.plan.nodes import (
    Aggregate,
    Awaited,
    Emit,
    Filter,
    Plan,
    Project,
    Scan,
    Union,
    Unnest,
    ViewScan,
    types,
)
from ivm.sql.plan.times.time_of_row import with_times
from ivm.sql.plan.walks import inputs, nodes
from ivm.sql.scalar.compile import compile_scalar
from ivm.storage.values.types import ColumnType

_SUMS = frozenset(["count_star", "count", "count_if", "sum", "avg"])


def over_awaited_rows(plan: Emit) -> Plan:
    """The plan of the rows that a final view waits for, over those that they may be made of."""
    type, kept = plan.schema[plan.by][1], _kept(plan.input)

    def awaited(relation: Scan | ViewScan, time: exp.Expr | None) -> Plan:
        if time is None or id(relation) not in kept or not time_kernel(relation, time, type):
            return relation
        view = plan.stored.relation
        return Awaited(relation, time, plan.bound, plan.inclusive, plan.tables, view)

    return with_times(plan.input, column(plan.by), awaited)


def _kept(plan: Plan) -> set[int]:
    """The ids of the nodes below those whose operators keep rows."""
    found, seen, waiting = set[int](), set[int](), [plan]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen and not isinstance(node, Scan | ViewScan):
            seen.add(id(node))
            if _keeps_rows(node):
                found |= {id(below) for below in nodes(node)}
            else:
                waiting += inputs(node)
    return found


def _keeps_rows(plan: Plan) -> bool:
    if isinstance(plan, Aggregate):
        return any(call.distinct or call.function not in _SUMS for call in plan.aggregates)
    return not isinstance(plan, Filter | Project | Union | Unnest)


def time_kernel(relation: Plan, time: exp.Expr, type: ColumnType) -> Kernel | None:
    """What computes the times of a relation's rows; None if only DuckDB does.

    Args:
        relation: has the rows.
        time: over its columns.
        type: of the times.
    """
    return compile_scalar(time, types(relation), type)
