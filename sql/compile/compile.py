"""Compiles plans to nodes of the circuit.

Law: content(node) = DuckDB's answer to render(plan of the node) over the base tables, from which
hydration reads it.
Invariant: equal operators over equal nodes are one node, so views share every equal subplan with
its state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.operator import CursorFactory, Operator
from ivm.sql.compile.lift_recursion import lift_step
from ivm.sql.compile.recipe import Arranged
from ivm.sql.compile.rules import COMPILE, recursion
from ivm.sql.plan.expressions import position
from ivm.sql.plan.nodes import (
    Aggregate,
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
from ivm.sql.rewrite.split_sessions import split_sessions
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duck import chunks


class CircuitCompiler:
    """Adds plans to a circuit, and keeps each node's plan.

    Args:
        circuit: the circuit of all views, or one of its own.
        cursor_factory: cursors for hydration and for expressions that only DuckDB can compute.
    """

    def __init__(self, circuit: Circuit, cursor_factory: CursorFactory) -> None:
        self.circuit = circuit
        self._cursors = cursor_factory
        self._plans: dict[int, Plan] = {}
        self._labels: dict[int, str] = {}
        self._scans: dict[str, Scan] = {}
        self._known: dict[int, tuple[Plan, int]] = {}  # by the plan's id, of the view added last
        self._terms: dict[int, CircuitCompiler] = {}

    def add_view(self, name: str, plan: Plan) -> int:
        """Adds a view to the circuit, as an output under its name; returns its node.

        Raises:
            NotIncremental: a node of the plan has no operator.
        """
        self._known.clear()
        node = self._node(plan)
        self.circuit.output(name, node)
        return node

    def take(self, name: str, other: CircuitCompiler) -> None:
        """Moves a view to this circuit that another compiler has compiled in its own circuit."""
        for there, here in self.circuit.take(name, other.circuit).items():
            self._plans.setdefault(here, other._plans[there])
            self._labels.setdefault(here, other._labels[there])
            if there in other._terms:
                self._terms.setdefault(here, other._terms[there])
        self._scans |= other._scans

    def sources(self) -> dict[str, Scan]:
        """The circuit's sources that are relations: name → their scans."""
        return {n: self._scans[n] for n in self.circuit.sources if n in self._scans}

    def label(self, node: int) -> str:
        """Describes the node's operator and its parameters in one line, for EXPLAIN."""
        return self._labels.get(node) or self.circuit.node(node).operator.describe()

    def plan(self, node: int) -> Plan:
        """The plan whose content a node has."""
        return self._plans[node]

    def fetch(self, node: int) -> Iterator[ZSet]:
        """Reads a node's content in chunks, by SQL over the base tables."""
        plan = self.plan(node)
        with contextlib.closing(self._cursors()) as cursor:
            yield from chunks(cursor, render(plan), plan.schema)

    def _node(self, plan: Plan) -> int:
        """The node of a plan, made once: an expanded outer join reads its inputs several times."""
        if id(plan) not in self._known:
            self._known[id(plan)] = (plan, self._made(plan))
        return self._known[id(plan)][1]

    def _made(self, plan: Plan) -> int:
        """Makes the node of a plan; a plan that changes nothing has its input's node."""
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
            case Join() if plan.kind != "inner" and not plan.lookup:
                return self._outer_join(plan)
            case Aggregate() if (sessions := split_sessions(plan)) is not None:
                return self._node(sessions)
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
        """Makes an outer join of inner joins; hydration still reads the SQL of the outer join."""
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
        """Makes a recursive query, whose step is a circuit of its own.

        Plans in the step that do not read the last rows become nodes of this circuit.
        """
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
        """The compiler of the step of a recursive query; None for other nodes."""
        return self._terms.get(node)


def _changes_nothing(plan: Project) -> bool:
    return [position(e) for e in plan.exprs] == list(range(width(plan.input)))
