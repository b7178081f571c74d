"""A query as a circuit, stepped once over the rows of the views that it reads.

Law: its answer is the circuit's content where the sources hold these rows: the content of no rows +
the delta of all of them. Nothing is kept from one answer to the next, since the step is rolled
back. The order of the rows and their bounds come last.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from sqlglot import exp

from ivm.delta_ops.aggregates.aggregate import Aggregate, CollectingAggregate
from ivm.delta_ops.aggregates.set_operations import SetOp
from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.joins.arrange import Arrange
from ivm.delta_ops.joins.join import Join
from ivm.delta_ops.linear.filter import DuckFilter
from ivm.delta_ops.linear.filter import Filter as FilterOperator
from ivm.delta_ops.linear.map import Map
from ivm.delta_ops.linear.union import UnionAll
from ivm.delta_ops.operator import CursorFactory, Source
from ivm.reads.accesses import Accesses, table_of
from ivm.reads.generated_rows import GeneratedRows
from ivm.reads.parameters import Parameters
from ivm.reads.verdicts import LiftedError, NotFromStateError
from ivm.sql.compile.compile import CircuitCompiler
from ivm.sql.plan import walks
from ivm.sql.plan.expressions import conjunction, conjuncts, position
from ivm.sql.plan.fixed_columns import fixed_parts
from ivm.sql.plan.nodes import Filter, NotIncremental, Plan, Project, Scan, TopK, types, width
from ivm.sql.scalar.lookup import Lookup
from ivm.storage.values.column import Column
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.ordering.order import OrderKey, OrderTerm, order_terms, orderable
from ivm.storage.values.ordering.sort import sort_rows
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add, empty

_ANSWER = "answer"
_OPERATORS = (Source, FilterOperator, Map, Join, Arrange, Aggregate, SetOp, UnionAll)
_SLOW = (DuckFilter, CollectingAggregate)


@dataclass(frozen=True)
class Tail:
    """What ORDER BY, LIMIT and OFFSET do with the rows of a plan.

    Attributes:
        input: the plan.
        order: the keys of the order.
        limit: None for all rows after the offset.
        columns: positions of the columns that are shown.
    """

    input: Plan
    order: tuple[OrderKey, ...]
    limit: int | None
    offset: int
    columns: tuple[int, ...]

    @staticmethod
    def of(plan: Plan) -> Tail:
        """The order and bounds at the root of a plan, if it has them."""
        below, columns = plan, tuple(range(width(plan)))
        while isinstance(below, Project):
            found = [position(e) for e in below.exprs]
            if None in found:
                break
            columns = tuple([found[i] for i in columns])  # type: ignore[misc]
            below = below.input
        if not isinstance(below, TopK) or below.partition or below.rank:
            return Tail(plan, (), None, 0, tuple(range(width(plan))))
        return Tail(below.input, below.order, below.limit, below.offset, columns)


class StateQuery:
    """A compiled query; any number of threads may ask for answers.

    Args:
        plan: bound with its order, and rewritten.
        cursors: see `CursorFactory`.
        parameters: whose marks are in the plan.

    Attributes:
        scans: the database's relations and the columns that it reads, by the circuit's name for
            them; the schema of a scan ends with the columns of parameters, if it is filtered or
            projected by them.
        tables: what these read, and the scans of rows that it gives itself.
        accesses: how it can find rows of these.

    Raises:
        NotFromStateError: something in it is left to DuckDB.
        LiftedError: a literal is a parameter where there can be none.
    """

    def __init__(
        self, plan: Plan, cursors: CursorFactory, parameters: Parameters | None = None
    ) -> None:
        tail = Tail.of(plan)
        self._given = GeneratedRows(tail.input, parameters)
        below = self._given.plan
        if parameters is not None:
            try:
                below = parameters.widened(below, self._given.marks)
            except LookupError as reason:
                kind = LiftedError if parameters.lifted else NotFromStateError
                raise kind(str(reason)) from reason
        self._compile(replace(tail, input=below), cursors)

    def _compile(self, tail: Tail, cursors: CursorFactory) -> None:
        self._tail, self._cursors = tail, cursors
        self._terms = _terms(types(tail.input), tail.order)
        _demand_fixed(tail.input)
        compiler = CircuitCompiler(Circuit(), cursors)
        try:
            self._node = compiler.add_view(_ANSWER, tail.input)
        except NotIncremental as verdict:
            raise NotFromStateError(verdict.reason) from verdict
        self._circuit, self._scans = compiler.circuit, compiler.sources()
        self._own = {n: s.relation for n, s in self._scans.items() if s.relation in self._given}
        self.scans = {n: s for n, s in self._scans.items() if n not in self._own}
        self.tables = {n: table_of(scan) for n, scan in self._scans.items()}
        self._types = self._circuit.node(self._node).operator.types
        self._steps = [self._circuit.node(n).operator for n in self._circuit.nodes_of(_ANSWER)]
        self._demand_kernels()
        self._chain = self._is_chain()
        self._plain = _plain(tail.input)
        self.accesses = Accesses(tail.input)
        self._stepping = threading.Lock()
        self._circuit.hydrate(self._of_empty_sources)
        self._initial = self._of_no_rows()

    def _demand_kernels(self) -> None:
        """Refuses operators that ask DuckDB, or whose answers have other bits than DuckDB's."""
        if len(self._circuit.sources) > len(self._scans):
            raise NotFromStateError("rows of VALUES or of a table function")
        for operator in self._steps:
            if not isinstance(operator, _OPERATORS) or isinstance(operator, _SLOW):
                raise NotFromStateError(f"DuckDB computes {operator.describe()}")
            checked = isinstance(operator, Aggregate) and operator.demand_bits()
            if not (operator.reproducible or checked):
                raise NotFromStateError(f"DuckDB rounds otherwise in {operator.describe()}")

    def _is_chain(self) -> bool:
        """Returns whether each operator reads the one before it alone, and keeps no state."""
        numbers = self._circuit.nodes_of(_ANSWER)
        linear = all(isinstance(step, Source | FilterOperator | Map) for step in self._steps)
        return linear and all(
            self._circuit.node(above).inputs == (below,) for below, above in pairwise(numbers)
        )

    def _of_no_rows(self) -> ZSet:
        if self._chain:
            return empty(self._types)
        return add([empty(self._types), *self._of_empty_sources(self._node)])

    def _of_empty_sources(self, node: int) -> Iterator[ZSet]:
        """A node's content where no source has rows: a scalar aggregate has one all the same."""
        if isinstance(self._circuit.node(node).operator, Source):
            return iter(())
        return self._circuit.contents(node, self._of_empty_sources)

    def answer(self, rows: Mapping[str, ZSet], given: Sequence[Column] = ()) -> ZSet:
        """The rows of the answer, in order, each with weight 1 and the columns that are shown.

        Args:
            rows: of every source, the columns of its scan; those of its own need not be there.
            given: the parameters' columns of one row.

        Raises:
            EvaluationError: an expression fails.
            duckdb.Error: the same.
        """
        if self._own:
            rows = rows if self._own.keys() <= rows.keys() else {**rows, **self.own_rows(given)}
        if self._plain is not None:
            (only,) = rows.values()
            return self._bounded(only.project(self._plain))
        read = {name: _widened(scan, rows[name], given) for name, scan in self._scans.items()}
        return self._bounded(self._chained(read) if self._chain else self._stepped(read))

    def own_rows(self, given: Sequence[Column]) -> dict[str, ZSet]:
        """The rows that it gives itself, by the circuit's names for them; see `answer`."""
        return {n: self._given.rows(r, given) for n, r in self._own.items()}

    def under(self, equalities: Sequence[Lookup]) -> StateQuery:
        """The same query where these equalities hold for all rows, and none is of a NULL."""
        held = [lookup.term for lookup in equalities]
        query = StateQuery.__new__(StateQuery)
        query._given = self._given
        query._compile(replace(self._tail, input=_without(self._tail.input, held)), self._cursors)
        return query

    def _chained(self, given: Mapping[str, ZSet]) -> ZSet:
        (batch,) = given.values()
        for operator in self._steps[1:]:
            batch = operator.step((batch,))
        return batch

    def _stepped(self, given: Mapping[str, ZSet]) -> ZSet:
        with self._stepping:
            try:
                delta = self._circuit.step(given).get(_ANSWER)
            finally:
                self._circuit.rollback()
        if delta is None:
            return self._initial
        if len(self._initial):
            delta = consolidate(add([self._initial, delta]), self._types)
        return delta.one_by_one()

    def _bounded(self, batch: ZSet) -> ZSet:
        tail = self._tail
        if tail.order:
            order, _ = sort_rows(np.zeros(len(batch), np.int64), batch.columns, self._terms)
            end = None if tail.limit is None else tail.offset + tail.limit
            return batch.take(order[tail.offset : end]).project(tail.columns)
        if tail.limit is not None or tail.offset:
            start = min(tail.offset, len(batch))
            end = len(batch) if tail.limit is None else min(start + tail.limit, len(batch))
            batch = batch.slice(start, end)
        return batch.project(tail.columns)


def _widened(scan: Scan, rows: ZSet, given: Sequence[Column]) -> ZSet:
    """The rows with the columns of parameters, if the scan has those."""
    if len(scan.schema) == len(scan.columns):
        return rows
    first = np.zeros(len(rows), np.int64)
    return ZSet((*rows.columns, *[column.take(first) for column in given]), rows.weights)


def _without(plan: Plan, terms: Sequence[exp.Expr]) -> Plan:
    """The plan without these terms of its filters."""
    if not isinstance(plan, Filter):
        return walks.with_inputs(plan, lambda below: _without(below, terms))
    below = _without(plan.input, terms)
    kept = [each for each in conjuncts(plan.predicate) if not any(each is t for t in terms)]
    predicate = conjunction(kept)
    return below if predicate is None else Filter(below, predicate)


def _plain(plan: Plan) -> tuple[int, ...] | None:
    """The positions of a scan's columns that a plan shows; None if it does more than that."""
    columns: tuple[int, ...] = tuple(range(width(plan)))
    while isinstance(plan, Project):
        found = [position(plan.exprs[i]) for i in columns]
        if None in found:
            return None
        columns, plan = tuple([i for i in found if i is not None]), plan.input
    is_shown = isinstance(plan, Scan) and all(i < len(plan.columns) for i in columns)
    return columns if is_shown else None


def _terms(given: Sequence[ColumnType], order: Sequence[OrderKey]) -> tuple[OrderTerm, ...]:
    """The terms of the order: its keys alone, since SQL leaves ties open."""
    for key in order:
        if not orderable(given[key.column]):
            raise NotFromStateError(f"an order of values of {given[key.column]}")
    return order_terms(given, order)[: len(order)]


def _demand_fixed(plan: Plan) -> None:
    """Refuses a plan whose rows the query does not fix: DuckDB may give others than the circuit."""
    every = frozenset(range(width(plan)))
    if not any(part.exact == every for part in fixed_parts(plan)):
        raise NotFromStateError("the query leaves open which rows it gives")
    for node in walks.nodes(plan):
        if isinstance(node, Scan) and node.collated:
            raise NotFromStateError("a column with a collation")
