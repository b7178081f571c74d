"""The operator of each plan node, with kernels where the scalar compiler has them.

Law: an operator computes exactly its node's rendering; expressions without a kernel are evaluated
by DuckDB over the delta, so there is one semantics.
Invariant: equal keys over equal inputs mean equal operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ivm.delta_ops.aggregates.aggregate import aggregate, supported
from ivm.delta_ops.aggregates.group_recompute import GroupRecompute as GroupRecomputeOperator
from ivm.delta_ops.aggregates.lanes.call import AggregateSpec
from ivm.delta_ops.aggregates.set_operations import SetOp as SetOperator
from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.joins.arrivals import Arrivals as ArrivalsOperator
from ivm.delta_ops.joins.arrivals import Arrived as ArrivedOperator
from ivm.delta_ops.linear.filter import DuckFilter
from ivm.delta_ops.linear.filter import Filter as FilterOperator
from ivm.delta_ops.linear.map import DuckMap, Map
from ivm.delta_ops.linear.union import UnionAll
from ivm.delta_ops.linear.unnest import DuckUnnest
from ivm.delta_ops.linear.unnest import Unnest as UnnestOperator
from ivm.delta_ops.operator import CursorFactory, Kernel, Operator
from ivm.delta_ops.ordered.awaited import Awaited as AwaitedOperator
from ivm.delta_ops.ordered.dynamic_limit import DynamicLimit as DynamicLimitOperator
from ivm.delta_ops.ordered.emit import Emit as EmitOperator
from ivm.delta_ops.ordered.topk import TopK as TopKOperator
from ivm.delta_ops.recursion import Recursion, RecursionOfGroups, StepCircuit
from ivm.sql.compile.awaited_rows import over_awaited_rows, time_kernel
from ivm.sql.compile.joins import inner_join, nearest_join, with_nearest
from ivm.sql.compile.lift_recursion import LAST_ROWS, input_index
from ivm.sql.compile.recipe import Operators, Recipe, predicate_of
from ivm.sql.compile.window_operators import window_operator
from ivm.sql.plan.built_in import duck_text
from ivm.sql.plan.calls import AggregateCall
from ivm.sql.plan.expressions import column, position, remap, text, used
from ivm.sql.plan.nodes import (
    Aggregate,
    Arrivals,
    Arrived,
    Awaited,
    Distinct,
    DynamicLimit,
    Emit,
    Filter,
    GroupRecompute,
    Join,
    Plan,
    Project,
    Recursive,
    Scan,
    SetOp,
    TopK,
    Union,
    Unnest,
    Window,
    types,
)
from ivm.sql.plan.render import call_text, render_body
from ivm.sql.plan.render_unnest import call_columns, call_source
from ivm.sql.plan.walks import inputs
from ivm.sql.resolve.duckdb_types import probe
from ivm.sql.rewrite.expand_joins import picked
from ivm.sql.scalar.compile import compile_predicate, compile_scalar
from ivm.storage.values.ordering.order import orderable
from ivm.storage.warehouse.duckdb.duck import rows

# --- linear ---


def _project(plan: Project, cursors: CursorFactory) -> Recipe:
    """Makes a map; a projection that only selects columns is done by a filter or join below it.

    What reads an ASOF join selects columns first, without the next values that it has.
    """
    below, positions = plan.input, [position(e) for e in plan.exprs]
    keep = [p for p in positions if p is not None]
    if len(keep) == len(positions) and isinstance(below, Filter):
        return _filter(below, cursors, keep)
    selects = len(keep) == len(positions)
    if selects and isinstance(below, Join) and (below.kind == "inner" and not below.lookup):
        return nearest_join(plan, cursors) or inner_join(below, cursors, keep)
    if with_nearest(plan) is not None:
        return _project(_over_columns(plan), cursors)

    def build(_: Operators) -> Operator:
        given = types(below)
        columns: list[int | Kernel] = []
        for expr, known, output in zip(plan.exprs, positions, types(plan), strict=True):
            kernel = compile_scalar(expr, given, output) if known is None else known
            if kernel is None:
                texts = [duck_text(e) for e in plan.exprs]
                return DuckMap(texts, given, types(plan), cursors)
            columns.append(kernel)
        return Map(columns, types(plan))

    return Recipe(plan, ("map", *[text(e) for e in plan.exprs]), [below], build)


def _over_columns(plan: Project) -> Project:
    """A projection over one on the columns that it reads."""
    read = sorted({i for expr in plan.exprs for i in used(expr)}) or [0]
    exprs = tuple([remap(expr, read.index) for expr in plan.exprs])
    return replace(plan, input=picked(plan.input, read), exprs=exprs)


def _filter(plan: Filter, cursors: CursorFactory, keep: list[int] | None = None) -> Recipe:
    """Makes a filter.

    Args:
        keep: positions of the columns of its output; None for all.
    """

    def build(_: Operators) -> Operator:
        given = types(plan.input)
        predicate = compile_predicate(plan.predicate, given)
        if predicate is None:
            return DuckFilter(duck_text(plan.predicate), given, cursors, keep)
        kept = given if keep is None else [given[i] for i in keep]
        return FilterOperator(predicate, kept, keep)

    key = ("filter", text(plan.predicate), None if keep is None else tuple(keep))
    return Recipe(plan, key, [plan.input], build)


def _unnest(plan: Unnest, cursors: CursorFactory) -> Recipe:
    def build(_: Operators) -> Operator:
        kept = [(types(plan.input)[i], i) for i in plan.kept]
        elements = types(plan)[len(kept) :]
        if plan.call is not None:
            arguments = [(types(plan.input)[i], i) for i in plan.lists]
            columns, source = call_columns(plan.call), call_source(plan, plan.call, "delta")
            return DuckUnnest(kept, arguments, elements, columns, source, cursors)
        elements = elements[: len(plan.lists)]
        flags = {"outer": plan.outer, "ordinality": plan.ordinality}
        return UnnestOperator(kept, plan.lists, elements, **flags)

    key = ("unnest", plan.kept, plan.lists, plan.outer, plan.ordinality, plan.call)
    return Recipe(plan, key, [plan.input], build)


# --- groups ---


def _aggregate(plan: Aggregate, cursors: CursorFactory) -> Recipe:
    calls = [_spec(call, plan.input, cursors) for call in plan.aggregates]
    if not all(supported(call) for call in calls):
        return _recompute(plan, cursors)
    key = ("aggregate", plan.groups, tuple([call_text(call) for call in plan.aggregates]))

    def build(_: Operators) -> Operator:
        return aggregate(types(plan.input), plan.groups, calls)

    return Recipe(plan, key, [plan.input], build)


def _spec(call: AggregateCall, below: Plan, cursors: CursorFactory) -> AggregateSpec:
    given = types(below)
    argument = call.arguments[0] if call.arguments else None
    condition = None if call.filter is None else predicate_of(column(call.filter), below, cursors)
    return AggregateSpec(
        call.function,
        call.type,
        argument,
        None if argument is None else given[argument],
        condition,
        call.distinct,
        further=call.arguments[1:],
        further_types=tuple([given[i] for i in call.arguments[1:]]),
        order=call.order,
        order_types=tuple([given[key.column] for key in call.order]),
        parameters=_constants(call.parameters),
        fields=call.fields,
    )


def _constants(texts: Sequence[str]) -> tuple[object, ...]:
    """Evaluates constant expressions by DuckDB."""
    if not texts:
        return ()
    with probe() as cursor:
        (values,) = rows(cursor, f"SELECT {', '.join(texts)}")
    return tuple(values)


def _recompute(plan: Aggregate | GroupRecompute | TopK | Window, cursors: CursorFactory) -> Recipe:
    """Makes a group recompute: the node's own SQL over the rows of groups, as the table `delta`."""
    partition = plan.groups if isinstance(plan, Aggregate) else plan.partition
    sql = render_body(plan, ["delta"])

    def build(_: Operators) -> Operator:
        return GroupRecomputeOperator(types(plan.input), partition, sql, types(plan), cursors)

    return Recipe(plan, ("group recompute", partition, sql), [plan.input], build)


def _set_operation(plan: Union | Distinct | SetOp, cursors: CursorFactory) -> Recipe:
    def build(_: Operators) -> Operator:
        if isinstance(plan, Union):
            return UnionAll(types(plan), [i in plan.negated for i in range(len(plan.inputs))])
        if isinstance(plan, Distinct):
            return SetOperator(types(plan), "distinct")
        return SetOperator(types(plan), plan.kind, all=plan.all)

    parts = [getattr(plan, part, None) for part in ("kind", "all", "negated")]
    return Recipe(plan, ("set", type(plan).__name__, *parts), inputs(plan), build)


# --- orders ---


def _top_k(plan: TopK, cursors: CursorFactory) -> Recipe:
    if not _has_order(plan.input):
        return _recompute(plan, cursors)
    bounds = plan.partition, plan.order, plan.limit, plan.offset

    def build(_: Operators) -> Operator:
        return TopKOperator(types(plan.input), *bounds, rank_column=plan.rank)

    return Recipe(plan, ("top k", *bounds, plan.rank), [plan.input], build)


def _dynamic_limit(plan: DynamicLimit, cursors: CursorFactory) -> Recipe:
    def build(_: Operators) -> Operator:
        return DynamicLimitOperator(types(plan), plan.order)

    return Recipe(plan, ("open limit", plan.order), [plan.input, plan.bounds], build)


def _emit(plan: Emit, cursors: CursorFactory) -> Recipe:
    def build(_: Operators) -> Operator:
        return EmitOperator(types(plan), plan.by, inclusive=plan.inclusive)

    key = ("emit", plan.by, plan.inclusive, plan.stored.relation)
    rows = over_awaited_rows(plan)
    return Recipe(replace(plan, input=rows), key, [rows, plan.bound], build)


def _awaited(plan: Awaited, cursors: CursorFactory) -> Recipe:
    bound = types(plan.bound)[0]

    def build(_: Operators) -> Operator:
        time = time_kernel(plan.input, plan.time, bound)
        assert time is not None
        return AwaitedOperator(types(plan), time, bound, inclusive=plan.inclusive)

    key = ("awaited", text(plan.time), plan.inclusive, plan.view)
    return Recipe(plan, key, [plan.input, plan.bound], build)


def _arrivals(plan: Arrivals, cursors: CursorFactory) -> Recipe:
    return Recipe(plan, ("arrivals",), [plan.input], lambda _: ArrivalsOperator(types(plan)))


def _arrived(plan: Arrived, cursors: CursorFactory) -> Recipe:
    def build(_: Operators) -> Operator:
        origin = types(plan.origin), plan.origin_key
        return ArrivedOperator(types(plan), plan.key, *origin, counted=plan.counted)

    key = ("arrived", plan.key, plan.origin_key, plan.counted, plan.stored.relation)
    return Recipe(plan, key, [plan.input, plan.origin], build)


def _window(plan: Window, cursors: CursorFactory) -> Recipe:
    if not _has_order(plan.input):
        return _recompute(plan, cursors)

    def build(_: Operators) -> Operator:
        return window_operator(plan, cursors)

    return Recipe(plan, ("window", render_body(plan, ["delta"])), [plan.input], build)


def _has_order(plan: Plan) -> bool:
    """Returns whether operators have an order for the plan's rows; some nested types have none."""
    return all(orderable(t) for t in types(plan))


COMPILE: dict[type[Plan], Callable[[Any, CursorFactory], Recipe]] = {
    Project: _project,
    Filter: _filter,
    Unnest: _unnest,
    Join: inner_join,
    Aggregate: _aggregate,
    GroupRecompute: _recompute,
    Union: _set_operation,
    Distinct: _set_operation,
    SetOp: _set_operation,
    TopK: _top_k,
    DynamicLimit: _dynamic_limit,
    Emit: _emit,
    Awaited: _awaited,
    Arrivals: _arrivals,
    Arrived: _arrived,
    Window: _window,
}
"""The rules of all nodes but sources, outer joins and recursive queries."""


# --- recursion ---


def recursion(plan: Recursive, step: Circuit, scans: Mapping[str, Scan]) -> Operator:
    """Makes the operator of a recursive query.

    Args:
        step: the circuit of its lifted step.
        scans: the sources of that circuit.
    """
    last = {n: s.columns for n, s in scans.items() if s.relation == LAST_ROWS}
    others = {n: (input_index(s.relation), s.columns) for n, s in scans.items() if n not in last}
    term = StepCircuit(step, last, others)
    groups = any(n.operator.strategy == "group recompute" for n in term.nodes)
    kind = RecursionOfGroups if groups else Recursion
    return kind(types(plan), term, distinct=plan.distinct)
