"""Awaited rows in the plans of final views: relations without rows that are of no use any more.

Law: only where that bounds what is kept. The operators of linear nodes keep no rows, and groups of
sums only the sums; of all others the first above a relation keeps its rows, and so do those above
it what they make of them.
"""

from __future__ import annotations

from dataclasses import replace

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
from ivm.sql.plan.walks import with_inputs
from ivm.sql.scalar.compile import compile_scalar
from ivm.storage.values.types import ColumnType

_SUMS = frozenset(["count_star", "count", "count_if", "sum", "avg"])


def over_awaited_rows(plan: Emit) -> Plan:
    """The plan of the rows that a final view waits for, over those that they may be made of."""
    type = plan.schema[plan.by][1]

    def awaited(relation: Scan | ViewScan, time: exp.Expr | None) -> Plan:
        if time is None or time_kernel(relation, time, type) is None:
            return relation
        return Awaited(relation, time, plan.bound, plan.inclusive, plan.stored.relation)

    return _where_rows_are_kept(with_times(plan.input, column(plan.by), awaited))


def time_kernel(relation: Plan, time: exp.Expr, type: ColumnType) -> Kernel | None:
    """What computes the times of a relation's rows; None if only DuckDB does.

    Args:
        relation: has the rows.
        time: over its columns.
        type: of the times.
    """
    return compile_scalar(time, types(relation), type)


def _where_rows_are_kept(plan: Plan) -> Plan:
    """The plan with all rows of the relations of which no operator keeps any."""
    match plan:
        case Awaited():
            return plan.input
        case Filter() | Project() | Union() | Unnest():
            return with_inputs(plan, _where_rows_are_kept)
        case Aggregate() if all(not c.distinct and c.function in _SUMS for c in plan.aggregates):
            return replace(plan, input=_where_rows_are_kept(plan.input))
    return plan
