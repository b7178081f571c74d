"""Recursive queries: the fixed point of a step, maintained under inserts and deletes.

Law: with W₀ = base and Wᵢ₊₁ = step(Wᵢ), up to the first empty one after W₀, the output is ΣWᵢ;
under UNION, Wᵢ lacks what an earlier W has. The iteration i is a column of the step's rows, and the
step is a circuit of its own (the term) that keeps iterations apart, so one delta of a table gives
the step's delta at all of them. That delta belongs to W one iteration later; the changes of W there
are fed to the term again, the least pending iteration first: W is final up to it, so it is exact,
also where rows derive each other.

A step takes as many steps of the term as iterations change. They are undone by their negations,
the last one first, since the state of a circuit depends on the sum of its inputs alone.

The delta of a table meets the W of before at all iterations, also rows that the same change takes
away: where an expression fails on one of those, W is removed first and derived anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ivm.delta_ops.circuit import Circuit, Node
from ivm.delta_ops.operator import Fetch, Operator, Strategy
from ivm.delta_ops.recursion_state import (
    AllIterations,
    FirstIterations,
    IteratedRows,
    PendingIterations,
    at_iteration,
    one_later,
)
from ivm.delta_ops.state.representatives import has_representatives
from ivm.storage.errors import EvaluationError
from ivm.storage.interrupts import check
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add, empty

MOST_ITERATIONS = 100_000
MOST_ROWS = 10_000_000
"""The depth to which a change may lead a recursive query (or twice its depth, if that is more), and
the rows that it may change (or four times those there are). Beyond, the recursion has no end."""


@dataclass(frozen=True)
class StepCircuit:
    """The step as a circuit.

    Attributes:
        circuit: its view "step" has the step's rows, each with the iteration at which it is made.
        rows: sources that take columns of W, the iteration being its last one.
        inputs: sources that take columns of an input of the operator: name → (input, columns).
    """

    circuit: Circuit
    rows: Mapping[str, Sequence[int]]
    inputs: Mapping[str, tuple[int, Sequence[int]]]

    @property
    def nodes(self) -> list[Node]:
        """The nodes that compute the step."""
        return [self.circuit.node(n) for n in self.circuit.nodes_of("step")]

    def feed(self, changes: Mapping[str, ZSet]) -> ZSet | None:
        """One step, adopted at once."""
        out = self.circuit.step(changes).get("step")
        self.circuit.commit()
        return out

    def hydrate(self, inputs: Fetch) -> Iterator[ZSet]:
        """Builds the state for an empty W; returns the step's rows for it."""
        sources = {node: name for name, node in self.circuit.sources.items()}

        def fetch(node: int) -> Iterator[ZSet]:
            if node not in sources:
                yield from self.circuit.contents(node, fetch)
            elif sources[node] in self.inputs:
                position, columns = self.inputs[sources[node]]
                yield from (chunk.project(columns) for chunk in inputs(position))

        for node in self.nodes:
            node.hydrated = not node.operator.stateful
        self.circuit.hydrate(fetch)
        return self.circuit.contents(self.circuit.views["step"], fetch)


class Recursion(Operator):
    """A recursive query; input 0 is its base, the others are what its step reads.

    Args:
        types: the rows' types.
        term: the step.
        distinct: UNION, not UNION ALL.
    """

    strategy: ClassVar[Strategy] = "indexed"
    why: ClassVar[str] = "the step over what changed, iteration by iteration"
    stateful: ClassVar[bool] = True
    consolidated = True

    def __init__(self, types: Sequence[ColumnType], term: StepCircuit, *, distinct: bool) -> None:
        super().__init__(types)
        self.term = term
        self.reproducible = all(n.reproducible for n in term.nodes) and not has_representatives(
            types
        )
        self._distinct = distinct
        self._fed: list[Mapping[str, ZSet]] = []
        self._build()

    def _build(self) -> None:
        """Starts from no rows."""
        kind = FirstIterations if self._distinct else AllIterations
        self._held: IteratedRows = kind(self.types)
        self._depth = self._depth_after = 0

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        pending = PendingIterations()
        self._derive(at_iteration(inputs[0], 0), pending)
        changes = {
            name: inputs[position].project(columns)
            for name, (position, columns) in self.term.inputs.items()
            if len(inputs[position].weights)
        }
        parts = [empty(self.types)]
        if changes:
            try:
                self._feed(changes, pending)
            except EvaluationError:
                parts.append(self._take_out())
                self._feed(changes)
                pending = self._held.restart()
        most = max(MOST_ROWS, 4 * self._held.row_count)
        for change in self._run_to_fixpoint(pending):
            parts.append(self._bare(change))
            most -= len(change)
            self._demand_end(most)
        return consolidate(add(parts), self.types)

    def _take_out(self) -> ZSet:
        """Removes all of W from the step, with the rows made from it; returns W's negation."""
        gone = self._held.contents().negate()
        self._feed({n: gone.project(columns) for n, columns in self.term.rows.items()})
        return self._bare(gone)

    def _run_to_fixpoint(self, pending: PendingIterations) -> Iterator[ZSet]:
        """The changes of W, iteration by iteration, until nothing is pending."""
        while pending:
            iteration, rows = pending.pop()
            change = self._held.change(iteration, rows, pending)
            check()
            if len(change.weights):
                self._depth_after = max(self._depth_after, iteration)
                yield change
                rows_of = self.term.rows.items()
                self._feed({name: change.project(columns) for name, columns in rows_of}, pending)

    def _feed(self, changes: Mapping[str, ZSet], pending: PendingIterations | None = None) -> None:
        out = self.term.feed(changes)
        self._fed.append(changes)
        if out is not None:
            self._derive(one_later(out), pending)

    def _derive(self, rows: ZSet, pending: PendingIterations | None) -> None:
        if len(rows.weights):
            self._held.append(rows)
            if pending is not None:
                pending.add(rows)

    def _demand_end(self, rows_left: int) -> None:
        endless = self._depth_after > max(MOST_ITERATIONS, 2 * self._depth)
        if not endless and rows_left >= 0:
            return
        found = f"{self._depth_after:,} iterations" if endless else f"over {MOST_ROWS:,} rows"
        way_out = "bound the recursion in its WHERE clause"
        if not self._distinct:
            way_out = f"a cycle in the data never ends under UNION ALL: write UNION, or {way_out}"
        raise EvaluationError(
            f"a recursive view finds new rows without end: after this change it is at {found}; "
            f"{way_out}"
        )

    def commit(self) -> None:
        self._fed.clear()
        self._held.commit()
        self._depth = self._depth_after

    def rollback(self) -> None:
        while self._fed:
            self.term.feed({name: delta.negate() for name, delta in self._fed[-1].items()})
            self._fed.pop()
        self._held.rollback()
        self._depth_after = self._depth

    def hydrate(self, inputs: Fetch) -> None:
        self._build()
        pending = PendingIterations()
        for chunk in self.term.hydrate(inputs):
            self._derive(one_later(chunk), pending)
        for chunk in inputs(0):
            self._derive(at_iteration(chunk, 0), pending)
        for _ in self._run_to_fixpoint(pending):
            self._fed.clear()
        self.commit()

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        yield self._bare(self._held.contents())

    def _bare(self, rows: ZSet) -> ZSet:
        return rows.project(range(len(self.types)))

    def describe(self) -> str:
        return f"Recursion({'union' if self._distinct else 'union all'})"

    def state_rows(self) -> int:
        return self._held.row_count + sum(n.operator.state_rows() for n in self.term.nodes)

    def state_bytes(self) -> int:
        return self._held.nbytes + sum(n.operator.state_bytes() for n in self.term.nodes)


class RecursionOfGroups(Recursion):
    """A recursive query whose step has groups that are recomputed."""

    strategy: ClassVar[Strategy] = "group recompute"
