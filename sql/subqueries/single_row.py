"""Plans of one row about a nested query: whether it has a row or a NULL, its extremes, its value.

Law: each is the one row of an aggregate without groups, so it can be joined with any row. Truth
values pass a DISTINCT, which stops changes that leave them as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from ivm.sql.plan.calls import AggregateCall
from ivm.sql.plan.expressions import column
from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Plan,
    Project,
    TopK,
    Union,
    Values,
    Window,
    numbered,
    types,
)
from ivm.sql.plan.render import call_text
from ivm.sql.plan.unique_key import unique_keys
from ivm.sql.resolve.context import Context
from ivm.sql.resolve.duckdb_types import types_of
from ivm.sql.rewrite.carry_columns import without_groups
from ivm.sql.subqueries.lift_conditions import ConditionLift
from ivm.storage.values.types import type_of

TWO_ROWS = (
    "More than one row returned by a subquery used as an expression -"
    " scalar subqueries can only return a single row."
)
_COUNT = ("count_star", ())


def _aggregate(
    plan: Plan, wanted: Sequence[tuple[str, tuple[int, ...]]], context: Context
) -> Aggregate:
    """The plan of one row of aggregates over all rows.

    Args:
        wanted: names of the functions and positions of their arguments.
    """
    unknown = type_of("BOOLEAN")
    calls = [AggregateCall(name, columns, False, None, unknown) for name, columns in wanted]
    found = types_of(context.cursor, [call_text(call) for call in calls], plan.schema)
    typed = [
        AggregateCall(call.function, call.arguments, False, None, type)
        for call, type in zip(calls, found, strict=True)
    ]
    schema = numbered(found)
    return Aggregate(plan, (), tuple(typed), schema)


def _more(left: int, right: exp.Expr) -> exp.Expr:
    return exp.GT(this=column(left), expression=right)


_ZERO = exp.Literal.number(0)


def presence(plan: Plan, context: Context) -> Plan:
    """A plan of one row and column: whether the given plan has a row."""
    counted = _aggregate(rows_only(plan), [_COUNT], context)
    return Distinct(context.project(counted, [_more(0, _ZERO)]))


def counted(plan: Plan, context: Context) -> Plan:
    """A plan of one row and column: how many rows the given plan has."""
    return _aggregate(plan, [_COUNT], context)


def extremes(plan: Plan, functions: Sequence[str], context: Context) -> Plan:
    """A plan of one row: whether the given plan of one column has a row, whether it has a NULL, and
    then aggregates of the column."""
    wanted = [_COUNT, ("count", (0,)), *[(function, (0,)) for function in functions]]
    counted = _aggregate(plan, wanted, context)
    values = [column(2 + i) for i in range(len(functions))]
    # There is a NULL if count(*) > count(x).
    return Distinct(context.project(counted, [_more(0, _ZERO), _more(0, column(1)), *values]))


def rows_only(plan: Plan) -> Plan:
    """A simpler plan that has a row if and only if the given one has."""
    match plan:
        case Project() | Distinct() | Window():
            return rows_only(plan.input)
        case Aggregate() if plan.groups:
            return rows_only(plan.input)
        case TopK() if plan.offset == 0 and plan.limit != 0:
            return rows_only(plan.input)
        case _:
            return plan


def is_one_row(plan: Plan) -> bool:
    """Returns whether the plan has exactly one row, whatever the tables hold."""
    while isinstance(plan, Project):
        plan = plan.input
    return without_groups(plan) or (isinstance(plan, Values) and len(plan.rows) == 1)


def one_row_each(plan: Plan) -> list[Plan]:
    """Splits a plan into plans of exactly one row, whatever the tables hold; empty if it cannot."""
    if is_one_row(plan):
        return [plan]
    match plan:
        case Project():
            return [replace(plan, input=row) for row in one_row_each(plan.input)]
        case Values():
            return [replace(plan, rows=(row,)) for row in plan.rows]
        case Union() if not plan.negated:
            parts = [one_row_each(part) for part in plan.inputs]
            return [row for part in parts for row in part] if all(parts) else []
        case _:
            return []


def is_at_most_one(query: int, plan: Plan, context: Context) -> bool:
    """Returns whether the nested query has at most one row for any values of its parameters."""
    inner = plan
    while isinstance(inner, (Project, Filter)):
        inner = inner.input
    if is_one_row(inner):
        return True
    if isinstance(inner, TopK) and not inner.partition and inner.limit in (0, 1):
        return True
    lifted = ConditionLift(query, context).lifted(plan)
    if lifted is None:
        return False
    fixed = ConditionLift(query, context).fixed(lifted)
    return any(set(key) <= fixed for key in unique_keys(lifted.plan))


def only_row(plan: Plan, context: Context) -> Plan:
    """A plan of one row: the value of the only row of the given plan, or NULL if it has none."""
    return context.project(_aggregate(plan, [("max", (0,))], context), [column(0)])


def checked_row(plan: Plan, context: Context) -> Plan:
    """A plan of one row, as `only_row` has it, that fails if the given plan has two rows."""
    found = _aggregate(plan, [_COUNT, ("max", (0,))], context)
    failure = exp.Anonymous(this="error", expressions=[exp.Literal.string(TWO_ROWS)])
    two = exp.If(this=_more(0, exp.Literal.number(1)), true=failure)
    value = exp.Case(ifs=[two], default=column(1))
    return Project(found, (value,), (("c0", types(found)[1]),))
