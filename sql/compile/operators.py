"""Operators made from plan nodes, with kernels where the scalar compiler has them.

Law: an operator computes exactly its node's rendering; what no kernel can compute is left to DuckDB
over the delta, so there are never two semantics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from ivm.delta_ops.aggregates.aggregate import aggregate, supported
from ivm.delta_ops.aggregates.call import AggregateSpec
from ivm.delta_ops.aggregates.group_recompute import GroupRecompute as GroupRecomputeOperator
from ivm.delta_ops.aggregates.set_operations import SetOp as SetOperator
from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.joins.join import Join as JoinOperator
from ivm.delta_ops.joins.range_join import RangeJoin
from ivm.delta_ops.joins.theta_join import ThetaJoin
from ivm.delta_ops.linear.duck_eval import duck_predicate
from ivm.delta_ops.linear.filter import DuckFilter
from ivm.delta_ops.linear.filter import Filter as FilterOperator
from ivm.delta_ops.linear.map import DuckMap, Map
from ivm.delta_ops.linear.union import UnionAll
from ivm.delta_ops.linear.unnest import DuckUnnest
from ivm.delta_ops.linear.unnest import Unnest as UnnestOperator
from ivm.delta_ops.operator import CursorFactory, Kernel, Operator, Predicate
from ivm.delta_ops.ordered.dynamic_limit import DynamicLimit as OpenLimitOperator
from ivm.delta_ops.ordered.topk import TopK as TopKOperator
from ivm.delta_ops.recursion import Recursion, RecursionOfGroups, StepCircuit
from ivm.sql.compile.lift_recursion import LAST_ROWS, input_position
from ivm.sql.compile.window_operators import window_operator
from ivm.sql.plan.built_in import duck_text
from ivm.sql.plan.calls import AggregateCall
from ivm.sql.plan.expressions import column, position
from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    DynamicLimit,
    Filter,
    GroupRecompute,
    Join,
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
from ivm.sql.plan.render import render_body
from ivm.sql.plan.render_unnest import call_columns, call_source
from ivm.sql.resolve.duckdb_types import probe
from ivm.sql.rewrite.split_ranges import RangeJoined
from ivm.sql.scalar.compile import compile_predicate, compile_scalar
from ivm.storage.values.order import orderable
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duck import rows


class Operators:
    """Makes operators.

    Args:
        cursors: cursors for what only DuckDB can compute.
    """

    def __init__(self, cursors: CursorFactory) -> None:
        self._cursors = cursors

    def map(self, plan: Project) -> Operator:
        given = types(plan.input)
        columns: list[int | Kernel] = []
        for expr, output in zip(plan.exprs, types(plan), strict=True):
            place = position(expr)
            kernel = compile_scalar(expr, given, output) if place is None else place
            if kernel is None:
                texts = [duck_text(e) for e in plan.exprs]
                return DuckMap(texts, given, types(plan), self._cursors)
            columns.append(kernel)
        return Map(columns, types(plan))

    def filter(self, plan: Filter, keep: list[int] | None) -> Operator:
        given = types(plan.input)
        predicate = compile_predicate(plan.predicate, given)
        if predicate is None:
            return DuckFilter(duck_text(plan.predicate), given, self._cursors, keep)
        kept = given if keep is None else [given[i] for i in keep]
        return FilterOperator(predicate, kept, keep)

    def predicate(self, expr: exp.Expression, given: Sequence[ColumnType]) -> Predicate:
        return compile_predicate(expr, given) or duck_predicate(
            duck_text(expr), given, self._cursors
        )

    def join(self, plan: Join, output: list[int], sides: tuple[Operator, ...]) -> Operator:
        left, right = sides
        assert isinstance(left, Arrange)
        assert isinstance(right, Arrange)
        residual = None if plan.residual is None else self.predicate(plan.residual, types(plan))
        return JoinOperator(left, right, output, plan.null_safe, residual)

    def range_join(
        self, plan: RangeJoined, output: list[int], sides: tuple[Operator, ...]
    ) -> Operator:
        left, right = sides
        assert isinstance(left, Arrange)
        assert isinstance(right, Arrange)
        join = plan.join
        residual = None if join.residual is None else self.predicate(join.residual, types(join))
        places = [plan.places[i] for i in output]
        return RangeJoin(left, right, places, plan.comparisons, join.null_safe, residual)

    def theta_join(self, plan: Join, output: list[int]) -> Operator:
        condition: Predicate | str | None = None
        if plan.residual is not None:
            condition = compile_predicate(plan.residual, types(plan)) or duck_text(plan.residual)
        return ThetaJoin(types(plan.left), types(plan.right), output, condition, self._cursors)

    def maintains(self, plan: Aggregate | TopK | Window) -> bool:
        """Whether there is an operator for it; group recompute serves the rest."""
        if isinstance(plan, TopK | Window):
            return all(orderable(t) for t in types(plan.input))
        return all(supported(call) for call in self._calls(plan))

    def aggregate(self, plan: Aggregate) -> Operator:
        return aggregate(types(plan.input), plan.groups, self._calls(plan))

    def _calls(self, plan: Aggregate) -> list[AggregateSpec]:
        return [self._call(call, types(plan.input)) for call in plan.aggregates]

    def _call(self, call: AggregateCall, given: Sequence[ColumnType]) -> AggregateSpec:
        argument = call.arguments[0] if call.arguments else None
        kind = None if argument is None else given[argument]
        condition = None if call.filter is None else self.predicate(column(call.filter), given)
        parameters = _constants(call.parameters)
        return AggregateSpec(
            call.function,
            call.type,
            argument,
            kind,
            condition,
            call.distinct,
            further=call.arguments[1:],
            further_types=tuple([given[i] for i in call.arguments[1:]]),
            order=call.order,
            order_types=tuple([given[key.column] for key in call.order]),
            parameters=parameters,
            fields=call.fields,
        )

    def top_k(self, plan: TopK) -> Operator:
        return TopKOperator(
            types(plan.input),
            plan.partition,
            plan.order,
            plan.limit,
            plan.offset,
            rank_column=plan.rank,
        )

    def open_limit(self, plan: DynamicLimit) -> Operator:
        return OpenLimitOperator(types(plan), plan.order)

    def window(self, plan: Window) -> Operator:
        return window_operator(plan, self._cursors)

    def recompute(
        self, plan: Aggregate | GroupRecompute | TopK | Window, partition: Sequence[int], sql: str
    ) -> Operator:
        return GroupRecomputeOperator(types(plan.input), partition, sql, types(plan), self._cursors)

    def unnest(self, plan: Unnest) -> Operator:
        kept = [(types(plan.input)[i], i) for i in plan.kept]
        elements = types(plan)[len(kept) :]
        if plan.call is not None:
            arguments = [(types(plan.input)[i], i) for i in plan.lists]
            columns, source = call_columns(plan.call), call_source(plan, plan.call, "delta")
            return DuckUnnest(kept, arguments, elements, columns, source, self._cursors)
        elements = elements[: len(plan.lists)]
        return UnnestOperator(
            kept, plan.lists, elements, outer=plan.outer, ordinality=plan.ordinality
        )

    def set_operation(self, plan: Union | Distinct | SetOp) -> Operator:
        if isinstance(plan, Union):
            return UnionAll(types(plan), [i in plan.negated for i in range(len(plan.inputs))])
        if isinstance(plan, Distinct):
            return SetOperator(types(plan), "distinct")
        return SetOperator(types(plan), plan.kind, all=plan.all)

    def recursion(self, plan: Recursive, step: Circuit, scans: Mapping[str, Scan]) -> Operator:
        """A recursive query; `scans` are the sources of its lifted step."""
        rows = {n: s.columns for n, s in scans.items() if s.relation == LAST_ROWS}
        inputs = {
            n: (input_position(s.relation), s.columns) for n, s in scans.items() if n not in rows
        }
        term = StepCircuit(step, rows, inputs)
        groups = any(n.operator.strategy == "group recompute" for n in term.nodes)
        kind = RecursionOfGroups if groups else Recursion
        return kind(types(plan), term, distinct=plan.distinct)


def _constants(texts: Sequence[str]) -> tuple[object, ...]:
    """The values of constant expressions."""
    if not texts:
        return ()
    with probe() as cursor:
        (values,) = rows(cursor, f"SELECT {', '.join(texts)}")
    return tuple(values)


def recompute_sql(plan: Aggregate | GroupRecompute | TopK | Window) -> str:
    """The node's SQL over the rows of some groups, lent as the table `delta`."""
    return render_body(plan, ["delta"])
