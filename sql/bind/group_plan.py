"""The plan of a grouping: its aggregates over one shared input, for each grouping set.

Law: GROUP BY GROUPING SETS (s₁, …) is the UNION ALL of the groupings by each sᵢ, NULL standing for
the groups left out and GROUPING(…) being a constant of sᵢ; the empty set is a scalar aggregate, so
it has its one row over no rows too. Calls that cannot be taken apart are computed by DuckDB over
the whole group, and all that stand beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ivm.sql.bind.aggregate_calls import Call, read_call
from ivm.sql.plan.built_in import duck_text
from ivm.sql.plan.expressions import Expressions, cast, column, remap, used
from ivm.sql.plan.nodes import (
    Aggregate,
    AggregateCall,
    GroupRecompute,
    Plan,
    Project,
    Union,
    types,
    width,
)
from ivm.sql.plan.render import call_text
from ivm.sql.resolve.context import Context
from ivm.sql.resolve.duckdb_types import types_of
from ivm.sql.resolve.orders import complete_aggregate
from ivm.storage.values.order import OrderKey
from ivm.storage.values.types import ColumnType, Schema, type_of

_BIGINT = type_of("BIGINT")
_TIMESTAMP = type_of("TIMESTAMP")
_CAST_TO_AVERAGE = frozenset(["DATE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"])
_COUNT = AggregateCall("count_star", (), False, None, _BIGINT)


@dataclass(frozen=True)
class GroupingCall:
    """GROUPING(…): a bit per group, 1 where a grouping set leaves it out."""

    groups: tuple[int, ...]

    def value(self, chosen: Sequence[int]) -> int:
        """Its value in the rows of one grouping set."""
        bits = "".join("0" if i in chosen else "1" for i in self.groups)
        return int(bits or "0", 2)


def group_plan(
    plan: Plan,
    groups: list[exp.Expression],
    sets: Sequence[Sequence[int]],
    nodes: Sequence[exp.Expression | GroupingCall],
    context: Context,
) -> Plan:
    """The plan with the groups' columns, then one for each node.

    Args:
        groups: over the plan's columns.
        sets: positions in `groups`.
        nodes: aggregate calls over the plan's columns.
    """
    calls = [node for node in nodes if not isinstance(node, GroupingCall)]
    found = [read_call(node, plan, context) for node in calls]
    known = [call for call in found if call is not None]
    below: Plan
    one: Aggregate | GroupRecompute
    if len(known) == len(calls):
        below, one = _maintained(plan, groups, known, context)
    else:
        below, one = _recomputed(plan, groups, calls, context)
    every = tuple(range(len(groups)))
    if len(sets) == 1 and tuple(sets[0]) == every and len(calls) == len(nodes):
        return one
    schema = _schema(types(below)[: len(groups)], nodes, types(one)[len(groups) :])
    parts = tuple([_part(one, tuple(chosen), nodes, schema) for chosen in sets])
    return parts[0] if len(parts) == 1 else Union(parts, schema)


def _schema(
    groups: Sequence[ColumnType],
    nodes: Sequence[exp.Expression | GroupingCall],
    calls: Sequence[ColumnType],
) -> Schema:
    answers = iter(calls)
    found = [_BIGINT if isinstance(n, GroupingCall) else next(answers) for n in nodes]
    return _named([*groups, *found])


def _named(found: Sequence[ColumnType]) -> Schema:
    return tuple((f"c{i}", t) for i, t in enumerate(found))


def _part(
    one: Aggregate | GroupRecompute,
    chosen: tuple[int, ...],
    nodes: Sequence[exp.Expression | GroupingCall],
    schema: Schema,
) -> Plan:
    """The rows of one grouping set, with all columns."""
    some = _grouped_by(one, chosen)
    count = len(schema) - len(nodes)
    exprs: list[exp.Expression] = [
        column(chosen.index(i)) if i in chosen else cast(exp.Null(), schema[i][1])
        for i in range(count)
    ]
    place = len(chosen)
    for node in nodes:
        if isinstance(node, GroupingCall):
            exprs.append(cast(exp.Literal.number(node.value(chosen)), _BIGINT))
        else:
            exprs.append(column(place))
            place += 1
    return Project(some, tuple(exprs), schema)


def _grouped_by(one: Aggregate | GroupRecompute, chosen: tuple[int, ...]) -> Plan:
    """The grouping of all groups as one of those chosen (its groups are the first columns)."""
    if isinstance(one, GroupRecompute):
        count = len(one.partition)
        kept = [*chosen, *range(count, width(one))]
        exprs = tuple([one.exprs[i] for i in kept])
        found = _named([one.schema[i][1] for i in kept])
        return replace(one, partition=chosen, exprs=exprs, schema=found)
    count = len(one.groups)
    calls = one.aggregates if one.aggregates or chosen else (_COUNT,)
    found = _named([*[one.schema[i][1] for i in chosen], *[c.type for c in calls]])
    return Aggregate(one.input, chosen, calls, found)


class _Inputs(Expressions):
    """The columns below a grouping."""

    def call(self, call: Call) -> AggregateCall:
        """The call over the columns (its type yet unknown)."""
        condition = None if call.filter is None else self.place(_boolean(call.filter))
        arguments = tuple([self.place(a) for a in call.arguments])
        order = tuple([OrderKey(self.place(e), d, n) for e, d, n in call.order])
        return AggregateCall(
            call.function,
            arguments,
            call.distinct,
            condition,
            _BIGINT,
            order,
            call.parameters,
            call.fields,
            call.given,
        )


def _boolean(expr: exp.Expression) -> exp.Expression:
    return cast(expr, type_of("BOOLEAN"))


def _maintained(
    plan: Plan, groups: list[exp.Expression], calls: list[Call], context: Context
) -> tuple[Plan, Aggregate]:
    inputs = _Inputs(groups)
    placed = [inputs.call(call) for call in calls]
    below = context.project(plan, inputs.exprs or [exp.true()])
    if cast_times := _with_times_cast(calls, placed, types(below)):
        return _maintained(plan, groups, cast_times, context)
    answers = types_of(context.cursor, [call_text(c) for c in placed], below.schema)
    typed = tuple([replace(c, type=t) for c, t in zip(placed, answers, strict=True)])
    schema = _named([*types(below)[: len(groups)], *answers])
    return below, Aggregate(below, tuple(range(len(groups))), typed, schema)


def _with_times_cast(
    calls: list[Call], placed: list[AggregateCall], found: Sequence[ColumnType]
) -> list[Call]:
    """The calls with the casts that DuckDB makes by itself for an AVG; none if it makes none."""
    result = list(calls)
    for i, (call, one) in enumerate(zip(calls, placed, strict=True)):
        if one.function == "avg" and found[one.arguments[0]].sql in _CAST_TO_AVERAGE:
            result[i] = replace(call, arguments=(cast(call.arguments[0], _TIMESTAMP),))
    return result if any(new is not old for new, old in zip(result, calls, strict=True)) else []


def _recomputed(
    plan: Plan, groups: list[exp.Expression], nodes: list[exp.Expression], context: Context
) -> tuple[Plan, GroupRecompute]:
    """Whole groups to DuckDB: the input holds the groups and every column the calls read."""
    inputs = _Inputs(groups)
    places = {i: inputs.place(column(i)) for node in nodes for i in sorted(used(node))}
    below = context.project(plan, inputs.exprs or [exp.true()])
    count = width(below)
    calls = [complete_aggregate(remap(n, places.__getitem__), count, context) for n in nodes]
    exprs = [column(i) for i in range(len(groups))] + calls
    partition = tuple(range(len(groups)))
    tail = f"GROUP BY {', '.join(f't.c{i}' for i in partition)}" if partition else ""
    found = types_of(context.cursor, [duck_text(e) for e in exprs], below.schema, tail)
    return below, GroupRecompute(below, partition, tuple(exprs), True, _named(found))
