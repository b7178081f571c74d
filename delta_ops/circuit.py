"""The circuit: all views' operators as one graph, stepped once per epoch.

Invariant: nodes are numbered so that inputs come first, so one pass in numeric order is a step.
Equal operators over equal inputs are one node (hash-consing by the compiler's structural keys).

Contract: a step is staged everywhere until `commit`; if an operator raises, all staged state is
dropped and the circuit is as before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import TypeAlias

from ivm.delta_ops.operator import Fetch, Operator, Source
from ivm.storage.errors import EvaluationError, InternalError
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, empty

_MOST_SCHEDULES = 256  # sets of tables changed together: there are 2^tables of them

Factory: TypeAlias = Callable[[tuple[Operator, ...]], Operator]
"""Makes an operator, given the operators of its input nodes (joins read their state)."""


@dataclass(slots=True)
class Work:
    """The work of a node since it was made, failed and rolled back steps included.

    Attributes:
        steps: how often it was stepped.
        rows_in: rows of all its inputs' deltas.
        rows_out: rows of its output deltas.
        nanoseconds: time spent in its steps.
    """

    steps: int = 0
    rows_in: int = 0
    rows_out: int = 0
    nanoseconds: int = 0

    def add(self, started: int, rows_in: int, rows_out: int) -> None:
        """Counts one more step, begun at that reading of the clock."""
        self.nanoseconds += perf_counter_ns() - started
        self.steps += 1
        self.rows_in += rows_in
        self.rows_out += rows_out


@dataclass
class Node:
    """One operator in the graph.

    Attributes:
        inputs: numbers of the input nodes, in the operator's order.
        empty: a zero delta of the output's types.
        hydrated: the state matches the base tables (always true where there is none).
        reproducible: the content's bits are those of DuckDB's answer, all the way down.
        work: for EXPLAIN ANALYZE.
    """

    operator: Operator
    inputs: tuple[int, ...]
    key: Hashable
    empty: ZSet
    hydrated: bool
    reproducible: bool
    work: Work = field(default_factory=Work)


@dataclass
class _Schedule:
    """The nodes and views that a change of one set of sources can reach, in order."""

    nodes: list[tuple[int, Node, tuple[int, ...]]] = field(default_factory=list)
    outputs: list[tuple[str, int]] = field(default_factory=list)


class Circuit:
    """A graph of operators shared by all views; single writer."""

    def __init__(self) -> None:
        self._nodes: dict[int, Node] = {}
        self._by_key: dict[tuple[Hashable, tuple[int, ...]], int] = {}
        self._sources: dict[str, int] = {}
        self._views: dict[str, int] = {}
        self._schedules: dict[frozenset[str], _Schedule] = {}
        self._staged: list[Operator] = []
        self._next = 0

    # Building

    def source(self, name: str, types: Sequence[ColumnType]) -> int:
        """The node where relation `name` enters; `types` are those of its columns in deltas."""
        node = self._sources.get(name)
        if node is None:
            node = self._sources[name] = self._insert(Source(name, types), (), ("source", name))
        elif self._nodes[node].operator.types != tuple(types):
            raise InternalError(f"source {name} was added twice with different columns")
        return node

    def add(self, key: Hashable, factory: Factory, inputs: Sequence[int]) -> int:
        """The node for an operator over the given nodes, a present one if the keys are equal.

        Args:
            key: names the operator and all its parameters; equal keys mean equal operators.
            factory: makes it from the operators of `inputs`.
            inputs: numbers of nodes, in the operator's order.
        """
        identity = (key, tuple(inputs))
        node = self._by_key.get(identity)
        if node is None:
            operator = factory(tuple(self._nodes[i].operator for i in inputs))
            node = self._by_key[identity] = self._insert(operator, tuple(inputs), key)
        return node

    def _insert(self, operator: Operator, inputs: tuple[int, ...], key: Hashable) -> int:
        number = self._next
        self._next += 1
        below = operator.kept or all(self._nodes[i].reproducible for i in inputs)
        same_bits = operator.reproducible and below
        self._nodes[number] = Node(
            operator, inputs, key, empty(operator.types), not operator.stateful, same_bits
        )
        return number

    def output(self, view: str, node: int) -> None:
        """Makes `step` report the node's delta under the view's name."""
        self._views[view] = node
        self._schedules.clear()

    def take(self, view: str, other: Circuit) -> dict[int, int]:
        """Moves a view here from another circuit, which is of no use afterwards.

        The state of its operators comes along, where they are not here already: the two circuits
        stand at the same epoch.

        Returns:
            The number here of each of its nodes there; one that was here already is shared.
        """
        numbers: dict[int, int] = {}
        for there in other.nodes_of(view):
            node = other.node(there)
            if isinstance(node.operator, Source):
                numbers[there] = self.source(node.operator.name, node.operator.types)
            else:
                inputs = [numbers[i] for i in node.inputs]
                here = numbers[there] = self.add(node.key, node.operator.over, inputs)
                if self._nodes[here].operator is node.operator:
                    self._nodes[here].hydrated = node.hydrated
        self.output(view, numbers[other.views[view]])
        return numbers

    def remove(self, view: str) -> None:
        """Removes a view and every node that no other view needs."""
        del self._views[view]
        needed = self._above_or_below(self._views.values(), lambda n: self._nodes[n].inputs)
        for number in [n for n in self._nodes if n not in needed]:
            node = self._nodes.pop(number)
            self._by_key.pop((node.key, node.inputs), None)
        self._sources = {s: n for s, n in self._sources.items() if n in needed}
        self._schedules.clear()

    # Asking

    @property
    def views(self) -> dict[str, int]:
        """The output node of each view."""
        return dict(self._views)

    @property
    def sources(self) -> dict[str, int]:
        """The entry node of each relation."""
        return dict(self._sources)

    @property
    def nanoseconds(self) -> int:
        """The time spent in the steps of all nodes that there are."""
        return sum(node.work.nanoseconds for node in list(self._nodes.values()))

    @property
    def numbers(self) -> list[int]:
        """The numbers of all nodes, inputs first."""
        return sorted(self._nodes)

    def node(self, number: int) -> Node:
        """The node of that number (for EXPLAIN)."""
        return self._nodes[number]

    def sources_of(self, views: Collection[str]) -> frozenset[str]:
        """The sources that some of the views need."""
        needed = self._needed(views)
        return frozenset(source for source, n in self._sources.items() if n in needed)

    def _needed(self, views: Collection[str]) -> set[int]:
        outputs = [n for view, n in self._views.items() if view in views]
        return self._above_or_below(outputs, lambda n: self._nodes[n].inputs)

    def dependents(self, node: int) -> frozenset[str]:
        """The views that read the node, directly or through other nodes."""
        above = self._descendants([node])
        return frozenset(view for view, n in self._views.items() if n in above)

    def nodes_of(self, view: str) -> list[int]:
        """Every node the view is computed by, inputs first."""
        return sorted(self._above_or_below([self._views[view]], lambda n: self._nodes[n].inputs))

    def chain(self, view: str) -> Iterator[Node]:
        """The nodes from a view's output down, as far as each has one input; none of no view."""
        number = self._views.get(view)
        while number is not None:
            node = self._nodes[number]
            yield node
            number = node.inputs[0] if len(node.inputs) == 1 else None

    def _descendants(self, nodes: Iterable[int]) -> set[int]:
        readers: dict[int, list[int]] = {n: [] for n in self._nodes}
        for number, node in self._nodes.items():
            for i in node.inputs:
                readers[i].append(number)
        return self._above_or_below(nodes, lambda n: readers[n])

    @staticmethod
    def _above_or_below(start: Iterable[int], edges: Callable[[int], Iterable[int]]) -> set[int]:
        found: set[int] = set()
        open_nodes = list(start)
        while open_nodes:
            number = open_nodes.pop()
            if number not in found:
                found.add(number)
                open_nodes.extend(edges(number))
        return found

    # Stepping

    def step(
        self, changes: Mapping[str, ZSet], only: Collection[str] | None = None
    ) -> dict[str, ZSet]:
        """Steps all nodes that the sources' deltas reach; the new state is staged.

        Args:
            changes: a delta per relation, columns as given to `source`; relations that no view
                reads may be among them.
            only: the views that are to follow, default all. Nodes that none of them needs are not
                stepped: the step is rolled back, or the other views are removed after it.

        Returns:
            The delta of every view that changed, without rows that cancel each other.

        Raises:
            EvaluationError: an expression failed; `views` names the views above it. Nothing is
                staged.
        """
        self.rollback()  # of a step that was not ended
        known = self._sources
        names = frozenset(changes)
        schedule = self._schedule(names) if only is None else self._plan(names, only)
        deltas = {known[s]: d for s, d in changes.items() if s in known and len(d.weights)}
        try:
            self._run(schedule, deltas)
            return self._collect(schedule, deltas)
        except BaseException:
            self.rollback()
            raise

    def _run(self, schedule: _Schedule, deltas: dict[int, ZSet]) -> None:
        nodes, staged = self._nodes, self._staged
        for number, node, inputs in schedule.nodes:
            given = tuple([deltas[i] if i in deltas else nodes[i].empty for i in inputs])
            rows_in = sum([len(delta.weights) for delta in given])
            if not rows_in:
                continue
            operator = node.operator
            if operator.stateful:
                self._demand_hydrated(number, node)
                staged.append(operator)
            started = perf_counter_ns()
            try:
                out = operator.step(given)
            except EvaluationError as error:
                out = self._step_again(number, given, error)
            rows_out = len(out.weights)
            node.work.add(started, rows_in, rows_out)
            if rows_out:
                deltas[number] = out

    def _step_again(self, number: int, given: tuple[ZSet, ...], error: EvaluationError) -> ZSet:
        """Steps without rows that cancel each other: they are not there, so they may not fail."""
        node = self._nodes[number]
        pairs = zip(given, node.inputs, strict=True)
        net = tuple([consolidate(d, self._nodes[i].operator.types) for d, i in pairs])
        try:
            if sum([len(d) for d in net]) == sum([len(d) for d in given]):
                raise error
            node.operator.rollback()
            return node.operator.step(net)
        except EvaluationError as last:
            last.views = self.dependents(number)
            raise

    @staticmethod
    def _demand_hydrated(number: int, node: Node) -> None:
        if not node.hydrated:
            raise InternalError(
                f"node {number} ({node.operator.describe()}) was stepped before it was hydrated;"
                " please report this"
            )

    def _collect(self, schedule: _Schedule, deltas: dict[int, ZSet]) -> dict[str, ZSet]:
        results = {}
        for view, number in schedule.outputs:
            delta = deltas.get(number)
            if delta is None:
                continue
            delta = self._consolidated(self._nodes[number].operator, delta)
            if len(delta.weights):
                results[view] = delta
        return results

    @staticmethod
    def _consolidated(operator: Operator, delta: ZSet) -> ZSet:
        """Rows cannot cancel if the operator says so, or if all weights have one sign."""
        weights = delta.weights
        if operator.consolidated or weights.min() > 0 or weights.max() < 0:
            return delta
        return consolidate(delta, operator.types)

    def _schedule(self, sources: frozenset[str]) -> _Schedule:
        schedule = self._schedules.get(sources)
        if schedule is None:
            if len(self._schedules) >= _MOST_SCHEDULES:
                del self._schedules[next(iter(self._schedules))]  # the oldest
            schedule = self._schedules[sources] = self._plan(sources, self._views)
        return schedule

    def _plan(self, sources: frozenset[str], views: Collection[str]) -> _Schedule:
        reached = self._descendants([self._sources[s] for s in sources if s in self._sources])
        useful = self._needed(views)
        order = sorted(n for n in reached & useful if self._nodes[n].inputs)
        return _Schedule(
            [(n, self._nodes[n], self._nodes[n].inputs) for n in order],
            [(view, n) for view, n in self._views.items() if n in reached and view in views],
        )

    def commit(self) -> None:
        """Adopts the state that the last step staged."""
        for operator in self._staged:
            operator.commit()
        self._staged.clear()

    def rollback(self) -> None:
        """Drops the state that the last step staged (none, if it raised)."""
        for operator in self._staged:
            operator.rollback()
        self._staged.clear()

    # Hydrating

    def needs_hydration(self, sources: Iterable[str] | None = None) -> list[int]:
        """Nodes whose state must be built before a change of these sources (all, if None)."""
        waiting = [n for n, node in self._nodes.items() if not node.hydrated]
        if sources is None or not waiting:
            return waiting
        reached = self._descendants([self._sources[s] for s in sources if s in self._sources])
        # An operator reads the state of its inputs too, though no delta may pass through them.
        for number in list(reached):
            reached.update(self._nodes[number].inputs)
        return [n for n in waiting if n in reached]

    def hydrate(self, fetch: Fetch, nodes: Iterable[int] | None = None) -> None:
        """Builds the state of the given nodes (default: all that lack it).

        Args:
            fetch: a node's whole content in chunks, from SQL over the base tables; asked only for
                nodes whose content has the same bits in DuckDB (`Node.reproducible`).
            nodes: their numbers; unhydrated nodes below them are hydrated too where needed.
        """
        for number in sorted(self.needs_hydration() if nodes is None else nodes):
            self._hydrate(number, fetch)

    def _hydrate(self, number: int, fetch: Fetch) -> None:
        node = self._nodes[number]
        if not node.hydrated:
            node.operator.hydrate(lambda i: self._content_for(node, number, i, fetch))
            node.hydrated = True

    def _content_for(self, node: Node, number: int, i: int, fetch: Fetch) -> Iterator[ZSet]:
        """The content of an input; behind the last comes what is kept of the output."""
        if node.operator.kept and i == len(node.inputs):
            return fetch(number)
        return self._input_content(node.inputs[i], fetch)

    def content_node(self, number: int) -> int:
        """The node whose content that of a node is: a transparent one passes on its input's."""
        while self._nodes[number].operator.transparent:
            number = self._nodes[number].inputs[0]
        return number

    def _input_content(self, number: int, fetch: Fetch) -> Iterator[ZSet]:
        number = self.content_node(number)
        if self._nodes[number].reproducible:
            return fetch(number)
        return self.contents(number, fetch)

    def contents(self, number: int, fetch: Fetch) -> Iterator[ZSet]:
        """A node's whole content in chunks, bit for bit the sum of its deltas.

        Rows may come in several pieces, also such that cancel: consolidate them before use.

        Args:
            number: the node, e.g. a view's output.
            fetch: as for `hydrate`.
        """
        node = self._nodes[number]
        if not node.inputs:
            return fetch(number)
        for i in node.inputs:
            self._hydrate(i, fetch)
        self._hydrate(number, fetch)
        return node.operator.contents(lambda i: self._input_content(node.inputs[i], fetch))
