"""From plans to circuit nodes.

Law: equal keys over equal nodes are one node, so views share every equal subplan, its state
included. A node's content is the rendering of its plan over the base tables; that is what
hydration reads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

from sqlglot import exp

from ivm.delta_ops.aggregate import Aggregate as AggregateOperator
from ivm.delta_ops.aggregate import supported
from ivm.delta_ops.aggregate_call import AggregateCall as OperatorCall
from ivm.delta_ops.arrange import Arrange
from ivm.delta_ops.circuit import Circuit, Factory
from ivm.delta_ops.duck_eval import duck_predicate
from ivm.delta_ops.duck_filter import DuckFilter
from ivm.delta_ops.duck_map import DuckMap
from ivm.delta_ops.filter import Filter as FilterOperator
from ivm.delta_ops.group_recompute import GroupRecompute as GroupRecomputeOperator
from ivm.delta_ops.join import Join as JoinOperator
from ivm.delta_ops.map import Map
from ivm.delta_ops.operator import CursorFactory, Kernel, Operator, Predicate
from ivm.delta_ops.setop import SetOp as SetOperator
from ivm.delta_ops.theta_join import ThetaJoin
from ivm.delta_ops.topk import TopK as TopKOperator
from ivm.delta_ops.union import UnionAll
from ivm.sql.columns import column, position, text
from ivm.sql.plan import (
    Aggregate,
    AggregateCall,
    Distinct,
    Filter,
    GroupRecompute,
    Join,
    NotIncremental,
    Plan,
    Project,
    Scan,
    SetOp,
    TopK,
    Union,
    Values,
    View,
    inputs,
    types,
    width,
)
from ivm.sql.render import call_text, render, render_body, summary
from ivm.sql.scalar import compile_predicate, compile_scalar
from ivm.storage.duck import chunks
from ivm.storage.ordering import orderable
from ivm.storage.types import ColumnType
from ivm.storage.zset import ZSet

Groups = tuple[int, ...]


class Compiler:
    """Puts plans into a circuit and knows each node's plan.

    Args:
        circuit: the circuit of all views.
        cursor_factory: cursors for hydration and for what only DuckDB can compute.
    """

    def __init__(self, circuit: Circuit, cursor_factory: CursorFactory) -> None:
        self.circuit = circuit
        self._cursors = cursor_factory
        self._plans: dict[int, Plan] = {}
        self._scans: dict[str, Scan] = {}

    def add_view(self, name: str, plan: Plan) -> int:
        """Let the circuit report the plan's deltas under the view's name; gives its node.

        Raises:
            NotIncremental: some node of the plan has no operator.
        """
        node = self._node(plan)
        self.circuit.output(name, node)
        return node

    def sources(self) -> dict[str, Scan]:
        """The circuit's sources that stand for relations: name → the columns they take."""
        return {n: self._scans[n] for n in self.circuit.sources if n in self._scans}

    def plan_of(self, node: int) -> Plan:
        """The plan whose content the node holds or passes on."""
        return self._plans[node]

    def label(self, node: int) -> str:
        """One line that names the node's operator and its parameters."""
        if node in self._plans and not isinstance(self.circuit.node(node).operator, Arrange):
            return summary(self._plans[node])
        return self.circuit.node(node).operator.describe()

    def fetch(self, node: int) -> Iterator[ZSet]:
        """A node's whole content in chunks, from SQL over the base tables."""
        plan = self._plans[node]
        cursor = self._cursors()
        try:
            yield from chunks(cursor, render(plan), plan.schema)
        finally:
            cursor.close()

    # Nodes

    def _node(self, plan: Plan) -> int:
        """The node of a plan; a plan that changes nothing has its input's node."""
        if isinstance(plan, View) or (isinstance(plan, Project) and _is_identity(plan)):
            return self._node(plan.input)
        match plan:
            case Scan():
                return self._scan(plan)
            case Values():
                return self._remember(self.circuit.source(f"({render(plan)})", types(plan)), plan)
            case Project():
                return self._project(plan)
            case Filter():
                return self._filter(plan, None)
            case Join():
                return self._join(plan, None)
            case Aggregate():
                return self._aggregate(plan)
            case GroupRecompute():
                return self._recompute(plan, plan.partition)
            case TopK():
                return self._top_k(plan)
            case _:
                return self._set_operation(plan)

    def _remember(self, node: int, plan: Plan) -> int:
        self._plans.setdefault(node, plan)
        return node

    def _add(self, plan: Plan, key: Hashable, make: Factory, nodes: Sequence[int]) -> int:
        return self._remember(self.circuit.add(key, make, nodes), plan)

    def _scan(self, plan: Scan) -> int:
        name = f"{plan.relation}{list(plan.columns)}"
        self._scans[name] = plan
        return self._remember(self.circuit.source(name, types(plan)), plan)

    def _project(self, plan: Project) -> int:
        places = [position(e) for e in plan.exprs]
        keep = [p for p in places if p is not None]
        if len(keep) == len(places) and isinstance(plan.input, Filter):
            return self._filter(plan.input, keep, plan)
        if len(keep) == len(places) and isinstance(plan.input, Join):
            return self._join(plan.input, keep, plan)
        below = self._node(plan.input)
        key = ("map", *[text(e) for e in plan.exprs])
        return self._add(plan, key, lambda _: self._map(plan), [below])

    def _map(self, plan: Project) -> Operator:
        given = types(plan.input)
        columns: list[int | Kernel] = []
        for expr, output in zip(plan.exprs, types(plan), strict=True):
            place = position(expr)
            kernel = compile_scalar(expr, given, output) if place is None else place
            if kernel is None:
                texts = [text(e) for e in plan.exprs]
                return DuckMap(texts, given, types(plan), self._cursors)
            columns.append(kernel)
        return Map(columns, types(plan))

    def _filter(self, plan: Filter, keep: list[int] | None, whole: Plan | None = None) -> int:
        below = self._node(plan.input)
        key = ("filter", text(plan.predicate), None if keep is None else tuple(keep))
        return self._add(whole or plan, key, lambda _: self._selection(plan, keep), [below])

    def _selection(self, plan: Filter, keep: list[int] | None) -> Operator:
        given = types(plan.input)
        predicate = compile_predicate(plan.predicate, given)
        if predicate is None:
            return DuckFilter(text(plan.predicate), given, self._cursors, keep)
        kept = given if keep is None else [given[i] for i in keep]
        return FilterOperator(predicate, kept, keep)

    def _predicate(self, expr: exp.Expression, given: Sequence[ColumnType]) -> Predicate:
        return compile_predicate(expr, given) or duck_predicate(text(expr), given, self._cursors)

    # Joins

    def _join(self, plan: Join, keep: list[int] | None, whole: Plan | None = None) -> int:
        if plan.kind != "inner":
            raise NotIncremental(f"a {plan.kind.upper()} JOIN")
        output = list(range(width(plan))) if keep is None else keep
        residual = None if plan.residual is None else text(plan.residual)
        if not plan.left_keys:
            nodes = [self._node(plan.left), self._node(plan.right)]
            key: Hashable = ("theta join", tuple(output), residual)
            return self._add(whole or plan, key, lambda _: self._theta(plan, output), nodes)
        nodes = [
            self._arrange(plan.left, plan.left_keys),
            self._arrange(plan.right, plan.right_keys),
        ]
        key = ("join", tuple(output), plan.null_safe, residual)
        make = lambda sides: self._equi_join(plan, output, sides)  # noqa: E731
        return self._add(whole or plan, key, make, nodes)

    def _arrange(self, plan: Plan, key: tuple[int, ...]) -> int:
        below = self._node(plan)
        make: Factory = lambda _: Arrange(types(plan), key)  # noqa: E731
        return self._add(plan, ("arrange", key), make, [below])

    def _equi_join(self, plan: Join, output: list[int], sides: tuple[Operator, ...]) -> Operator:
        left, right = sides
        assert isinstance(left, Arrange)
        assert isinstance(right, Arrange)
        both = types(plan)
        residual = None if plan.residual is None else self._predicate(plan.residual, both)
        return JoinOperator(left, right, output, plan.null_safe, residual)

    def _theta(self, plan: Join, output: list[int]) -> Operator:
        condition: Predicate | str | None = None
        if plan.residual is not None:
            condition = compile_predicate(plan.residual, types(plan)) or text(plan.residual)
        return ThetaJoin(types(plan.left), types(plan.right), output, condition, self._cursors)

    # Groups, orders, sets

    def _aggregate(self, plan: Aggregate) -> int:
        calls = [self._call(call, types(plan.input)) for call in plan.aggregates]
        if not all(supported(call) for call in calls):
            return self._recompute(plan, plan.groups)
        below = self._node(plan.input)
        key = ("aggregate", plan.groups, tuple(call_text(c) for c in plan.aggregates))
        given = types(plan.input)
        return self._add(plan, key, lambda _: AggregateOperator(given, plan.groups, calls), [below])

    def _call(self, call: AggregateCall, given: Sequence[ColumnType]) -> OperatorCall:
        argument = call.arguments[0] if call.arguments else None
        return OperatorCall(
            call.function,
            call.type,
            argument,
            None if argument is None else given[argument],
            None if call.filter is None else self._predicate(column(call.filter), given),
            call.distinct,
        )

    def _recompute(self, plan: Aggregate | GroupRecompute | TopK, partition: Groups) -> int:
        """The node's own SQL over whole groups."""
        below = self._node(plan.input)
        sql = render_body(plan, ["delta"])
        given, cursors = types(plan.input), self._cursors
        return self._add(
            plan,
            ("group recompute", sql),
            lambda _: GroupRecomputeOperator(given, partition, sql, types(plan), cursors),
            [below],
        )

    def _top_k(self, plan: TopK) -> int:
        if not all(orderable(t) for t in types(plan.input)):
            return self._recompute(plan, plan.partition)
        below = self._node(plan.input)
        parameters = (plan.partition, plan.order, plan.limit, plan.offset)
        return self._add(
            plan,
            ("top k", *parameters, plan.rank),
            lambda _: TopKOperator(types(plan.input), *parameters, rank_column=plan.rank),
            [below],
        )

    def _set_operation(self, plan: Plan) -> int:
        nodes = [self._node(part) for part in inputs(plan)]
        given = types(plan)
        make: Callable[[tuple[Operator, ...]], Operator]
        if isinstance(plan, Union):
            key: Hashable = ("union all",)
            make = lambda _: UnionAll(given, [False] * len(nodes))  # noqa: E731
        elif isinstance(plan, Distinct):
            key = ("distinct",)
            make = lambda _: SetOperator(given, "distinct")  # noqa: E731
        else:
            assert isinstance(plan, SetOp)
            kind, every = plan.kind, plan.all
            key = (kind, every)
            make = lambda _: SetOperator(given, kind, all=every)  # type: ignore[arg-type]  # noqa: E731
        return self._add(plan, key, make, nodes)


def _is_identity(plan: Project) -> bool:
    return [position(e) for e in plan.exprs] == list(range(width(plan.input)))
