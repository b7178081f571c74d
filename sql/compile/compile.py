"""From plans to circuit nodes.

Law: equal keys over equal nodes are one node, so views share every equal subplan, its state
included. A node's content is the rendering of its plan over the base tables; that is what
hydration reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.operator import CursorFactory, Operator
from ivm.sql.compile.lift_recursion import lift_step
from ivm.sql.compile.rules import COMPILE, Arranged, recursion
from ivm.sql.plan.expressions import position
from ivm.sql.plan.nodes import (
    Join,
    NotIncremental,
    Plan,
    Project,
    Recursive,
    RecursiveScan,
    Scan,
    TableFunction,
    Values,
    ViewScan,
    types,
    width,
)
from ivm.sql.plan.render import render, summary
from ivm.sql.rewrite.expand_joins import expand_join
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
            case Project() if _changes_nothing(plan):
                return self._node(plan.input)
            case Join() if plan.kind != "inner":
                return self._outer_join(plan)
            case Recursive():
                return self._recursive(plan)
            case RecursiveScan():
                raise NotIncremental("a recursive query that reads another one's last rows")
        recipe = COMPILE[type(plan)](plan, self._cursors)
        below = [
            self._arrange(part) if isinstance(part, Arranged) else self._node(part)
            for part in recipe.inputs
        ]
        node = self.circuit.add(recipe.key, recipe.build, below)
        return self._remember(node, plan, summary(recipe.plan))

    def _remember(self, node: int, plan: Plan, label: str) -> int:
        self._plans.setdefault(node, plan)
        self._labels.setdefault(node, label)
        return node

    def _scan(self, plan: Scan) -> int:
        name = f"{plan.relation}{list(plan.columns)}"
        self._scans[name] = plan
        return self._remember(self.circuit.source(name, types(plan)), plan, summary(plan))

    def _outer_join(self, plan: Join) -> int:
        """Built of inner joins; its content is still read from its own SQL."""
        node = self._node(expand_join(plan))
        self._plans[node], self._labels[node] = plan, summary(plan)
        return node

    def _arrange(self, part: Arranged) -> int:
        plan, key, order = part
        below = self._node(plan)

        def build(_: tuple[Operator, ...]) -> Operator:
            return Arrange(types(plan), key, order)

        node = self.circuit.add(("arrange", key, order), build, [below])
        parts = [f"by ({', '.join(f'c{i}' for i in key)})"] if key else []
        parts += [f"in order of {', '.join(f'c{k.column}' for k in order)}"] if order else []
        return self._remember(node, plan, f"Arrange {' '.join(parts)}")

    def _recursive(self, plan: Recursive) -> int:
        """The step is a circuit of its own; what does not read the last rows is a node of ours."""
        lifted = lift_step(plan)
        nodes = [self._node(part) for part in (plan.base, *lifted.inputs)]
        inner = CircuitCompiler(Circuit(), self._cursors)

        def build(_: tuple[Operator, ...]) -> Operator:
            inner.add_view("step", lifted.plan)
            return recursion(plan, inner.circuit, inner.sources())

        key = ("recursive", plan.distinct, render(lifted.plan))
        node = self.circuit.add(key, build, nodes)
        self._terms.setdefault(node, inner)
        return self._remember(node, plan, summary(plan))

    def term(self, node: int) -> CircuitCompiler | None:
        """The compiler of the step, where the node is a recursive query."""
        return self._terms.get(node)


def _changes_nothing(plan: Project) -> bool:
    return [position(e) for e in plan.exprs] == list(range(width(plan.input)))
