"""GROUP BY, aggregates and HAVING: expressions over rows become expressions over groups.

Law: after grouping, an expression consists of grouped expressions, aggregate calls, GROUPING(…) and
constants; DuckDB would have refused any other. A constant that a grouping set may leave out is a
grouped expression wherever it is written.

Law: GROUP BY GROUPING SETS (s₁, …) is the UNION ALL of the groupings by each sᵢ, all over one
input, with NULL for the groups left out and a constant of sᵢ for GROUPING(…); the empty set is a
scalar aggregate, so it has its one row over no rows too. If one call of a grouping cannot be read
into its parts, DuckDB recomputes all of them over the rows of a group.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from ivm.sql.bind.aggregate_calls import BoundAggregate, read_call
from ivm.sql.plan.built_in import call_name, duck_text
from ivm.sql.plan.calls import AggregateCall
from ivm.sql.plan.expressions import Expressions, cast, column, remap, structure, text, used
from ivm.sql.plan.nodes import (
    Aggregate,
    GroupRecompute,
    NotIncremental,
    Plan,
    Project,
    Union,
    numbered,
    types,
    width,
)
from ivm.sql.plan.render import call_text
from ivm.sql.resolve.context import Context
from ivm.sql.resolve.duckdb_types import types_of
from ivm.sql.resolve.functions import Functions
from ivm.sql.resolve.orders import complete_aggregate
from ivm.sql.subqueries.attach import attached
from ivm.sql.subqueries.parameters import reads_query
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.types import ColumnType, Schema, type_of

_WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)
_GROUPING = ("grouping", "grouping_id")
_ALIKE = (  # nodes whose tree is the same in DuckDB, operands included
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.DPipe, exp.And, exp.Or, exp.Not, exp.EQ,
    exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Between,
    exp.Paren, exp.Cast, exp.DataType, exp.Coalesce, exp.Case, exp.If, exp.Anonymous, exp.Upper,
    exp.Lower, exp.Abs, exp.Round, exp.Window, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Order,
    exp.Ordered, exp.Literal, exp.Null, exp.Boolean, exp.Identifier,
)  # fmt: skip


def is_window_function(node: exp.Expr) -> bool:
    """Returns whether the call is that of a window (`sum(x)` in `sum(x) OVER ()`)."""
    while isinstance(node.parent, _WRAPPERS) and node.arg_key == "this":
        node = node.parent
    return isinstance(node.parent, exp.Window) and node.arg_key == "this"


@dataclass
class Grouping:
    """Collects the aggregates of a SELECT and rewrites its expressions over the groups.

    Args:
        groups: the grouped expressions, over the input.
        sets: the grouping sets, as positions in `groups`; None: all of them.
    """

    groups: Sequence[exp.Expr]
    functions: Functions
    sets: Sequence[Sequence[int]] | None = None
    _calls: dict[Hashable, tuple[int, exp.Expr | GroupingCall]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A constant stands for itself: NULL in `x IS NULL` is not the NULL that is grouped by.
        self._known = self._positions([bool(used(e)) for e in self.groups])
        constants = [not used(e) and self.sets is not None for e in self.groups]
        self._constants = self._positions(constants)

    def _positions(self, chosen: Sequence[bool]) -> dict[Hashable, int]:
        return {structure(e): i for i, e in reversed(list(enumerate(self.groups))) if chosen[i]}

    def covers(self, expr: exp.Expr) -> bool:
        """Returns whether the expression is one of the grouped ones."""
        return structure(expr) in self._known

    def lift(self, expr: exp.Expr) -> exp.Expr:
        """The expression over the grouped output (groups first, then aggregates)."""

        def swap(node: exp.Expr) -> exp.Expr:
            group = self._known.get(structure(node))
            group = self._constant(node) if group is None else group
            if group is not None:
                return column(group)
            if self.functions.is_aggregate(node) and not is_window_function(node):
                return column(len(self.groups) + self._register(node))
            if isinstance(node, exp.Func) and call_name(node) in _GROUPING:
                return column(len(self.groups) + self._enter(structure(node), self._bits(node)))
            if isinstance(node, exp.Column):
                raise NotIncremental("a column outside of GROUP BY")
            self._check_alike(node)
            return node

        return expr.copy().transform(swap, copy=False)

    def _constant(self, node: exp.Expr) -> int | None:
        """The position of the group that a constant stands for; None for none."""
        is_null_test = isinstance(node, exp.Null) and isinstance(node.parent, exp.Is)
        return None if is_null_test else self._constants.get(structure(node))

    def _check_alike(self, node: exp.Expr) -> None:
        """Refuses a node of another shape in DuckDB, which finds constant groups in its tree."""
        known = isinstance(node, _ALIKE) or self.functions.is_aggregate(node)
        if isinstance(node, exp.Is):
            known = isinstance(node.expression, exp.Null)
        if self._constants and (not known or reads_query(node)):
            raise NotIncremental(f"{text(node)} beside constants in GROUPING SETS, ROLLUP or CUBE")

    def _register(self, node: exp.Expr) -> int:
        return self._enter(structure(node), node.copy())

    def _enter(self, key: Hashable, call: exp.Expr | GroupingCall) -> int:
        if key not in self._calls:
            self._calls[key] = (len(self._calls), call)
        return self._calls[key][0]

    def _bits(self, node: exp.Expr) -> GroupingCall:
        """The groups that a GROUPING(…) names; all, if it names none."""
        named = [structure(e) for e in node.expressions]
        known = {**self._known, **self._constants}
        if not set(named) <= set(known):
            raise NotIncremental("GROUPING() of something that is not grouped by")
        groups = [known[key] for key in named]
        return GroupingCall(tuple(groups or range(len(self.groups))))

    def apply(self, plan: Plan, context: Context) -> Plan:
        """The plan grouped, with a column for every aggregate that `lift` has met."""
        nodes = [node for _, node in self._calls.values()]
        sets = [range(len(self.groups))] if self.sets is None else self.sets
        calls = [node for node in nodes if isinstance(node, exp.Expr)]
        plan, exprs = attached(plan, [*self.groups, *calls], context)
        groups, rest = exprs[: len(self.groups)], iter(exprs[len(self.groups) :])
        nodes = [next(rest) if isinstance(node, exp.Expr) else node for node in nodes]
        return group_plan(plan, groups, sets, nodes, context)


_BIGINT = type_of("BIGINT")
_TIMESTAMP = type_of("TIMESTAMP")
_CAST_TO_AVERAGE = frozenset(["DATE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"])
_COUNT = AggregateCall("count_star", (), False, None, _BIGINT)


@dataclass(frozen=True)
class GroupingCall:
    """A call of GROUPING(…): a bit per group, 1 if a grouping set leaves it out."""

    groups: tuple[int, ...]

    def value(self, chosen: Sequence[int]) -> int:
        """The call's value in the rows of one grouping set."""
        bits = "".join("0" if i in chosen else "1" for i in self.groups)
        return int(bits or "0", 2)


def group_plan(
    plan: Plan,
    groups: list[exp.Expr],
    sets: Sequence[Sequence[int]],
    nodes: Sequence[exp.Expr | GroupingCall],
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
    nodes: Sequence[exp.Expr | GroupingCall],
    calls: Sequence[ColumnType],
) -> Schema:
    answers = iter(calls)
    found = [_BIGINT if isinstance(n, GroupingCall) else next(answers) for n in nodes]
    return numbered([*groups, *found])


def _part(
    one: Aggregate | GroupRecompute,
    chosen: tuple[int, ...],
    nodes: Sequence[exp.Expr | GroupingCall],
    schema: Schema,
) -> Plan:
    """The rows of one grouping set, with all columns."""
    some = _grouped_by(one, chosen)
    count = len(schema) - len(nodes)
    exprs: list[exp.Expr] = [
        column(chosen.index(i)) if i in chosen else cast(exp.Null(), schema[i][1])
        for i in range(count)
    ]
    calls = itertools.count(len(chosen))  # positions of their results
    for node in nodes:
        if isinstance(node, GroupingCall):
            exprs.append(cast(exp.Literal.number(node.value(chosen)), _BIGINT))
        else:
            exprs.append(column(next(calls)))
    return Project(some, tuple(exprs), schema)


def _grouped_by(one: Aggregate | GroupRecompute, chosen: tuple[int, ...]) -> Plan:
    """The grouping by the chosen groups instead of all (which are its first columns)."""
    if isinstance(one, GroupRecompute):
        count = len(one.partition)
        columns = [*chosen, *range(count, width(one))]
        exprs = tuple([one.exprs[i] for i in columns])
        found = numbered([one.schema[i][1] for i in columns])
        return replace(one, partition=chosen, exprs=exprs, schema=found)
    count = len(one.groups)
    # The empty set has its one row also without any call, and a plan has at least one column.
    calls = one.aggregates if one.aggregates or chosen else (_COUNT,)
    found = numbered([*[one.schema[i][1] for i in chosen], *[c.type for c in calls]])
    return Aggregate(one.input, chosen, calls, found)


class _Inputs(Expressions):
    """The columns of the input of a grouping, each expression once."""

    def call(self, call: BoundAggregate) -> AggregateCall:
        """The call by positions; its type is not yet known, and given as BIGINT."""
        condition = None if call.filter is None else self.position_of(_boolean(call.filter))
        arguments = tuple([self.position_of(a) for a in call.arguments])
        order = tuple([OrderKey(self.position_of(e), d, n) for e, d, n in call.order])
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


def _boolean(expr: exp.Expr) -> exp.Expr:
    return cast(expr, type_of("BOOLEAN"))


def _maintained(
    plan: Plan, groups: list[exp.Expr], calls: list[BoundAggregate], context: Context
) -> tuple[Plan, Aggregate]:
    inputs = _Inputs(groups)
    by_position = [inputs.call(call) for call in calls]
    below = context.project(plan, inputs.exprs or [exp.true()])
    if cast_times := _with_times_cast(calls, by_position, types(below)):
        return _maintained(plan, groups, cast_times, context)
    answers = types_of(context.cursor, [call_text(c) for c in by_position], below.schema)
    typed = tuple([replace(c, type=t) for c, t in zip(by_position, answers, strict=True)])
    schema = numbered([*types(below)[: len(groups)], *answers])
    return below, Aggregate(below, tuple(range(len(groups))), typed, schema)


def _with_times_cast(
    calls: list[BoundAggregate], by_position: list[AggregateCall], found: Sequence[ColumnType]
) -> list[BoundAggregate]:
    """The calls with DuckDB's implicit casts in AVG of dates and timestamps; empty without any."""
    result = list(calls)
    for i, (call, one) in enumerate(zip(calls, by_position, strict=True)):
        if one.function == "avg" and found[one.arguments[0]].sql in _CAST_TO_AVERAGE:
            result[i] = replace(call, arguments=(cast(call.arguments[0], _TIMESTAMP),))
    return result if any(new is not old for new, old in zip(result, calls, strict=True)) else []


def _recomputed(
    plan: Plan, groups: list[exp.Expr], nodes: list[exp.Expr], context: Context
) -> tuple[Plan, GroupRecompute]:
    """A grouping recomputed by DuckDB, over the groups and every column that the calls read."""
    inputs = _Inputs(groups)
    positions = {i: inputs.position_of(column(i)) for node in nodes for i in sorted(used(node))}
    below = context.project(plan, inputs.exprs or [exp.true()])
    count = width(below)
    calls = [complete_aggregate(remap(n, positions.__getitem__), count, context) for n in nodes]
    exprs = [column(i) for i in range(len(groups))] + calls
    partition = tuple(range(len(groups)))
    tail = f"GROUP BY {', '.join(f't.c{i}' for i in partition)}" if partition else ""
    found = types_of(context.cursor, [duck_text(e) for e in exprs], below.schema, tail)
    return below, GroupRecompute(below, partition, tuple(exprs), True, numbered(found))
