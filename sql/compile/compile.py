"""From plans to circuit nodes.

Law: equal keys over equal nodes are one node, so views share every equal subplan, its state
included. A node's content is the rendering of its plan over the base tables; that is what
hydration reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator, Sequence

from ivm.delta_ops.circuit import Circuit, Factory
from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.operator import CursorFactory, Operator
from ivm.sql.compile.lift_recursion import lift_step
from ivm.sql.compile.operators import Operators, recompute_sql
from ivm.sql.plan.expressions import column, position, text
from ivm.sql.plan.nodes import (
    Aggregate,
    Distinct,
    DynamicLimit,
    Filter,
    GroupRecompute,
    Join,
    NotIncremental,
    Plan,
    Project,
    Recursive,
    RecursiveScan,
    Scan,
    SetOp,
    TableFunction,
    TopK,
    Union,
    Unnest,
    Values,
    ViewScan,
    Window,
    inputs,
    types,
    width,
)
from ivm.sql.plan.render import call_text, render, summary
from ivm.sql.rewrite.expand_joins import expand_join
from ivm.sql.rewrite.split_ranges import RangeJoined, split_ranges
from ivm.storage.values.order import OrderKey
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duck import chunks


class CircuitCompiler:
    """Puts plans into a circuit and knows each node's plan.

    Args:
        circuit: the circuit of all views.
        cursor_factory: cursors for hydration and for what only DuckDB can compute.
    """

    def __init__(self, circuit: Circuit, cursor_factory: CursorFactory) -> None:
        self.circuit = circuit
        self._cursors = cursor_factory
        self._operators = Operators(cursor_factory)
        self._plans: dict[int, Plan] = {}
        self._labels: dict[int, str] = {}
        self._scans: dict[str, Scan] = {}
        self._known: dict[int, tuple[Plan, int]] = {}  # by identity, of the view added last
        self._terms: dict[int, CircuitCompiler] = {}

    def add_view(self, name: str, plan: Plan) -> int:
        """Let the circuit report the plan's deltas under the view's name; gives its node."""
        self._known.clear()
        node = self._node(plan)
        self.circuit.output(name, node)
        return node

    def take(self, name: str, other: CircuitCompiler) -> None:
        """Put a view into the circuit that another compiler has compiled in one of its own."""
        for there, here in self.circuit.take(name, other.circuit).items():
            self._plans.setdefault(here, other._plans[there])
            self._labels.setdefault(here, other._labels[there])
            if there in other._terms:
                self._terms.setdefault(here, other._terms[there])
        self._scans |= other._scans

    def sources(self) -> dict[str, Scan]:
        """The circuit's sources that stand for relations: name → the columns they take."""
        return {n: self._scans[n] for n in self.circuit.sources if n in self._scans}

    def label(self, node: int) -> str:
        """One line that names the node's operator and its parameters."""
        return self._labels.get(node) or self.circuit.node(node).operator.describe()

    def fetch(self, node: int) -> Iterator[ZSet]:
        """A node's whole content in chunks, from SQL over the base tables."""
        plan = self._plans[node]
        with contextlib.closing(self._cursors()) as cursor:
            yield from chunks(cursor, render(plan), plan.schema)

    def _node(self, plan: Plan) -> int:
        """The node of a plan, made once: outer joins read their inputs several times."""
        if id(plan) not in self._known:
            self._known[id(plan)] = (plan, self._made(plan))
        return self._known[id(plan)][1]

    def _made(self, plan: Plan) -> int:
        """The node of a plan; a plan that changes nothing has its input's node."""
        match plan:
            case ViewScan():
                return self._node(plan.input)
            case Scan():
                return self._scan(plan)
            case Values() | TableFunction():
                node = self.circuit.source(f"({render(plan)})", types(plan))
                return self._remember(node, plan, type(plan).__name__)
            case Project():
                return self._project(plan)
            case Filter():
                return self._filter(plan, None, plan)
            case Join():
                return self._join(plan, None, plan)
            case Aggregate():
                return self._aggregate(plan)
            case GroupRecompute():
                return self._recompute(plan, plan.partition)
            case TopK():
                return self._top_k(plan)
            case DynamicLimit():
                return self._open_limit(plan)
            case Window():
                return self._window(plan)
            case Union() | Distinct() | SetOp():
                return self._set_operation(plan)
            case Unnest():
                below = self._node(plan.input)
                key = ("unnest", plan.kept, plan.lists, plan.outer, plan.ordinality, plan.call)
                return self._add(plan, key, lambda _: self._operators.unnest(plan), [below])
            case Recursive():
                return self._recursive(plan)
            case RecursiveScan():
                raise NotIncremental("a recursive query that reads another one's last rows")

    def _remember(self, node: int, plan: Plan, label: str) -> int:
        self._plans.setdefault(node, plan)
        self._labels.setdefault(node, label)
        return node

    def _add(self, plan: Plan, key: Hashable, make: Factory, nodes: Sequence[int]) -> int:
        return self._remember(self.circuit.add(key, make, nodes), plan, summary(plan))

    def _scan(self, plan: Scan) -> int:
        name = f"{plan.relation}{list(plan.columns)}"
        self._scans[name] = plan
        return self._remember(self.circuit.source(name, types(plan)), plan, summary(plan))

    def _project(self, plan: Project) -> int:
        """A projection that only picks columns is left to the operator below where it can."""
        places = [position(e) for e in plan.exprs]
        keep = [p for p in places if p is not None]
        if keep == list(range(width(plan.input))) and len(keep) == len(places):
            return self._node(plan.input)
        if len(keep) == len(places) and isinstance(plan.input, Filter):
            return self._filter(plan.input, keep, plan)
        if len(keep) == len(places) and isinstance(plan.input, Join):
            return self._join(plan.input, keep, plan)
        below = self._node(plan.input)
        key = ("map", *[text(e) for e in plan.exprs])
        return self._add(plan, key, lambda _: self._operators.map(plan), [below])

    def _filter(self, plan: Filter, keep: list[int] | None, whole: Plan) -> int:
        """A filter, with the columns to keep of it; `whole` is the plan of both."""
        below = self._node(plan.input)
        key = ("filter", text(plan.predicate), None if keep is None else tuple(keep))
        make: Factory = lambda _: self._operators.filter(plan, keep)  # noqa: E731
        node = self.circuit.add(key, make, [below])
        return self._remember(node, whole, summary(plan))

    def _join(self, plan: Join, keep: list[int] | None, whole: Plan) -> int:
        """A join, with the columns to keep of it; `whole` is the plan of both."""
        if plan.kind != "inner":
            return self._outer_join(plan, keep, whole)
        output = list(range(width(plan))) if keep is None else keep
        ranged = None if plan.residual is None else split_ranges(plan)
        if ranged is not None:
            return self._range_join(plan, ranged, output, whole)
        residual = None if plan.residual is None else text(plan.residual)
        if plan.left_keys:
            keys = (plan.left_keys, plan.right_keys)
            sides = zip((plan.left, plan.right), keys, strict=True)
            nodes = [self._arrange(side, key) for side, key in sides]
            make: Factory = lambda sides: self._operators.join(plan, output, sides)  # noqa: E731
        else:
            nodes = [self._node(plan.left), self._node(plan.right)]
            make = lambda _: self._operators.theta_join(plan, output)  # noqa: E731
        key = ("join", tuple(output), plan.null_safe, residual)
        return self._remember(self.circuit.add(key, make, nodes), whole, summary(plan))

    def _range_join(self, plan: Join, ranged: RangeJoined, output: list[int], whole: Plan) -> int:
        join = ranged.join
        nodes = [
            self._arrange(join.left, join.left_keys, ranged.orders[0]),
            self._arrange(join.right, join.right_keys, ranged.orders[1]),
        ]
        make: Factory = lambda sides: self._operators.range_join(ranged, output, sides)  # noqa: E731
        residual = None if join.residual is None else text(join.residual)
        key = ("range join", ranged.comparisons, tuple(output), join.null_safe, residual)
        return self._remember(self.circuit.add(key, make, nodes), whole, summary(plan))

    def _outer_join(self, plan: Join, keep: list[int] | None, whole: Plan) -> int:
        """Built of inner joins; its content is still read from its own SQL."""
        node = self._node(expand_join(plan))
        self._plans[node], self._labels[node] = plan, summary(plan)
        if keep is None:
            return node
        exprs = tuple(column(i) for i in keep)
        make: Factory = lambda _: self._operators.map(Project(plan, exprs, whole.schema))  # noqa: E731
        key = ("map", *[text(e) for e in exprs])
        return self._remember(self.circuit.add(key, make, [node]), whole, summary(whole))

    def _arrange(self, plan: Plan, key: tuple[int, ...], order: tuple[OrderKey, ...] = ()) -> int:
        below = self._node(plan)
        make: Factory = lambda _: Arrange(types(plan), key, order)  # noqa: E731
        node = self.circuit.add(("arrange", key, order), make, [below])
        parts = [f"by ({', '.join(f'c{i}' for i in key)})"] if key else []
        parts += [f"in order of {', '.join(f'c{k.column}' for k in order)}"] if order else []
        return self._remember(node, plan, f"Arrange {' '.join(parts)}")

    def _aggregate(self, plan: Aggregate) -> int:
        if not self._operators.maintains(plan):
            return self._recompute(plan, plan.groups)
        below = self._node(plan.input)
        key = ("aggregate", plan.groups, tuple(call_text(c) for c in plan.aggregates))
        return self._add(plan, key, lambda _: self._operators.aggregate(plan), [below])

    def _recompute(
        self, plan: Aggregate | GroupRecompute | TopK | Window, partition: tuple[int, ...]
    ) -> int:
        """The node's own SQL over whole groups."""
        below = self._node(plan.input)
        sql = recompute_sql(plan)
        make: Factory = lambda _: self._operators.recompute(plan, partition, sql)  # noqa: E731
        return self._add(plan, ("group recompute", partition, sql), make, [below])

    def _top_k(self, plan: TopK) -> int:
        if not self._operators.maintains(plan):
            return self._recompute(plan, plan.partition)
        below = self._node(plan.input)
        key = ("top k", plan.partition, plan.order, plan.limit, plan.offset, plan.rank)
        return self._add(plan, key, lambda _: self._operators.top_k(plan), [below])

    def _open_limit(self, plan: DynamicLimit) -> int:
        nodes = [self._node(plan.input), self._node(plan.places)]
        key = ("open limit", plan.order)
        return self._add(plan, key, lambda _: self._operators.open_limit(plan), nodes)

    def _window(self, plan: Window) -> int:
        if not self._operators.maintains(plan):
            return self._recompute(plan, plan.partition)
        below = self._node(plan.input)
        key = ("window", recompute_sql(plan))
        return self._add(plan, key, lambda _: self._operators.window(plan), [below])

    def _set_operation(self, plan: Union | Distinct | SetOp) -> int:
        nodes = [self._node(part) for part in inputs(plan)]
        parts = ("kind", "all", "negated")
        key = ("set", type(plan).__name__, *[getattr(plan, part, None) for part in parts])
        return self._add(plan, key, lambda _: self._operators.set_operation(plan), nodes)

    def _recursive(self, plan: Recursive) -> int:
        """The step is a circuit of its own; what does not read the last rows is a node of ours."""
        lifted = lift_step(plan)
        nodes = [self._node(part) for part in (plan.base, *lifted.inputs)]
        inner = CircuitCompiler(Circuit(), self._cursors)

        def make(_: tuple[Operator, ...]) -> Operator:
            inner.add_view("step", lifted.plan)
            return self._operators.recursion(plan, inner.circuit, inner.sources())

        key = ("recursive", plan.distinct, render(lifted.plan))
        node = self._add(plan, key, make, nodes)
        self._terms.setdefault(node, inner)
        return node

    def term(self, node: int) -> CircuitCompiler | None:
        """The compiler of the step, where the node is a recursive query."""
        return self._terms.get(node)
