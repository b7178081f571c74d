"""How views follow their tables: by the circuit's deltas, or by recomputing and comparing.

Law: what `step` returns for a view, added to its rows, is its query after the changes. A view that
is recomputed is only marked stale by a change; its difference is made when someone reads it, and
the circuit above it takes that difference like any other delta (operators are linear in each
input, so it does not matter that it comes later than the tables' own). It does matter to an
expression that fails on new rows beside a stale view: such a change is stepped once more together
with the differences (`Transaction.commit`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from time import perf_counter_ns

import duckdb

from ivm.catalog.catalog import BindingCatalog, Catalog, View
from ivm.delta_ops.aggregates.aggregate import CollectingAggregate
from ivm.delta_ops.aggregates.group_recompute import GroupRecompute
from ivm.delta_ops.circuit import Circuit, Work
from ivm.delta_ops.ordered.window import Window
from ivm.engine.difference import difference
from ivm.engine.table_reader import TableReader
from ivm.sql.bind.bind import bind
from ivm.sql.compile.compile import CircuitCompiler
from ivm.sql.compile.explain import explain
from ivm.sql.parse.function_list import FunctionList
from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.plan.render import render
from ivm.sql.plan.unique_key import unique_key
from ivm.sql.rewrite.rewrite import rewrite
from ivm.storage.errors import EvaluationError
from ivm.storage.interrupts import dispensable
from ivm.storage.log.change import TableChange
from ivm.storage.values.consolidate import cancel
from ivm.storage.values.zset import ZSet, add
from ivm.storage.warehouse.duck import Cursor
from ivm.storage.warehouse.duckdb_errors import of_our_sql
from ivm.storage.warehouse.warehouse import Warehouse

_Sources = dict[str, list[tuple[str, tuple[int, ...]]]]
"""Of each relation, the circuit's sources and the columns each one takes."""

_UNBUILT = "The state of its views is not built yet: the next change does that."
_SPEED = ("linear", "indexed", "group recompute", "whole recompute")


class Maintenance:
    """The circuit of all incremental views, and the list of stale recomputed ones.

    Args:
        warehouse: for hydration and recomputation.
        catalog: the views.
        tables: the tables in DuckDB.
    """

    def __init__(self, warehouse: Warehouse, catalog: Catalog, tables: TableReader) -> None:
        self._warehouse = warehouse
        self._catalog = catalog
        self._tables = tables
        self.names = BindingCatalog(catalog)
        self.circuit = Circuit()
        self.compiler = CircuitCompiler(self.circuit, warehouse.cursor)
        self.stale: set[str] = set()
        self._sources: _Sources = {}
        self._recomputing: dict[str, Work] = {}
        self._columns_read: dict[str, frozenset[int]] = {}

    # -- views come and go ----------------------------------------------------------------------

    def bind(self, view: View, cursor: Cursor, functions: FunctionList | None = None) -> None:
        """Compile the view, or find the reason why it is recomputed; see `ivm.sql.bind.bind`."""
        try:
            plan = rewrite(bind(view.query, self.names, cursor, functions))
            compiled = CircuitCompiler(Circuit(), self._warehouse.cursor)
            node = compiled.add_view(view.name, plan)
            self._demand_read(compiled, view)
            _refuse_whole_groups(compiled.circuit, view.name)
            view.plan, view.reason, view.key = plan, None, unique_key(plan)
            view.compiled, view.rounds = compiled, not compiled.circuit.node(node).reproducible
        except (NotIncremental, RecursionError) as verdict:
            deep = "an expression nested too deeply to be planned"
            reason = verdict.reason if isinstance(verdict, NotIncremental) else deep
            view.plan, view.reason, view.key = None, reason, None
            view.compiled, view.rounds = None, False

    def _demand_read(self, compiler: CircuitCompiler, view: View) -> None:
        """The plan reads what DuckDB reads: no name was taken for another relation's."""
        scanned = {self.names.canonical(scan.relation) for scan in compiler.sources().values()}
        if not scanned <= self._catalog.with_sources(view.reads):
            raise NotIncremental("a name that DuckDB takes for another relation")

    def text(self, view: View) -> str:
        """The SQL whose answer the view must equal: its plan's, where SQL leaves something open."""
        return view.query if view.plan is None else render(view.plan)

    def attach(self, view: View) -> None:
        """Let the circuit maintain an incremental view; its state is hydrated by `hydrate`."""
        if view.compiled is not None:
            self.compiler.take(view.name, view.compiled)
            view.compiled = None
            self._learn_sources()

    def contents(self, view: View) -> Iterator[ZSet]:
        """All rows of an incremental view in chunks, bit for bit what its deltas add up to.

        Raises:
            EvaluationError: an expression fails on the rows that the tables hold.
        """
        try:
            yield from self.circuit.contents(self.circuit.views[view.name], self.compiler.fetch)
        except duckdb.Error as error:
            raise _unfollowed(error) from error

    def detach(self, name: str) -> None:
        """Forget a view."""
        self.stale.discard(name)
        self._recomputing.pop(name, None)
        if name in self.circuit.views:
            self.circuit.remove(name)
            self._learn_sources()

    def _learn_sources(self) -> None:
        known = {s: relation for relation, parts in self._sources.items() for s, _ in parts}
        self._sources = {}
        for source, scan in self.compiler.sources().items():  # a known one's table may be gone
            relation = known.get(source) or self.names.canonical(scan.relation)
            self._sources.setdefault(relation, []).append((source, scan.columns))
        self._columns_read = {
            relation: frozenset(i for _, columns in parts for i in columns)
            for relation, parts in self._sources.items()
        }

    def columns_read(self, table: str) -> frozenset[int]:
        """Positions of the table's columns that some incremental view reads."""
        return self._columns_read.get(table, frozenset())

    def strategy(self, view: View) -> str:
        """The word of the view's slowest operator."""
        if view.plan is None:
            return "linear" if view.constant else "whole recompute"
        circuit = self._compiled(view).circuit
        nodes = circuit.nodes_of(view.name)
        return max((circuit.node(n).operator.strategy for n in nodes), key=_SPEED.index)

    def _compiled(self, view: View) -> CircuitCompiler:
        """What holds the view: not yet the circuit, where an open transaction has created it."""
        return view.compiled or self.compiler

    def explain(self, view: View, *, format: str = "text", analyze: bool = False) -> str:
        """How the view is maintained, operator by operator; see `ivm.sql.compile.explain`."""
        work = self._recomputing.get(view.name)
        return explain(
            view.name,
            view.plan,
            view.reason,
            self._compiled(view),
            format=format,
            constant=view.constant,
            recomputing=work,
            analyze=analyze,
        )

    # -- the circuit ----------------------------------------------------------------------------

    def step(
        self,
        changes: Sequence[TableChange],
        recomputed: Mapping[str, ZSet] | None = None,
        only: Collection[str] | None = None,
    ) -> dict[str, ZSet]:
        """The deltas of all incremental views; the circuit's new state is staged.

        Args:
            changes: of base tables.
            recomputed: differences of recomputed views that lower the tower.
            only: the views that are to follow, default all. Tables that none of them reads may
                have other columns by now than the changes.

        Raises:
            EvaluationError: an expression fails on these rows; nothing is staged.
        """
        sources = self._sources if only is None else self._sources_of(only)
        deltas = dict(self._deltas(changes, sources))
        for name, delta in (recomputed or {}).items():
            for source, columns in sources.get(name, ()):
                deltas[source] = delta.project(columns)
        if not deltas:
            return {}
        if self.circuit.needs_hydration(deltas):
            self.hydrate()
        try:
            return self.circuit.step(deltas, only)
        except EvaluationError as error:
            raise _named(error) from error
        except duckdb.Error as error:
            raise _unfollowed(error) from error

    def _sources_of(self, views: Collection[str]) -> _Sources:
        needed = self.circuit.sources_of(views)
        return {r: [p for p in parts if p[0] in needed] for r, parts in self._sources.items()}

    def _deltas(
        self, changes: Sequence[TableChange], sources: _Sources
    ) -> Iterator[tuple[str, ZSet]]:
        by_table: dict[str, list[TableChange]] = {}
        for change in changes:
            by_table.setdefault(change.table, []).append(change)
        for table, parts in by_table.items():
            for source, columns in sources.get(table, ()):
                delta = self._delta(parts, columns, table)
                if delta is not None and len(delta):
                    yield source, delta

    def _delta(
        self, changes: Sequence[TableChange], columns: tuple[int, ...], table: str
    ) -> ZSet | None:
        parts = []
        for change in changes:
            if len(change.removed):
                held = change.removed_columns
                positions = (
                    columns if len(held) == held[-1] + 1 else [held.index(i) for i in columns]
                )
                parts.append(change.removed.project(positions).dictionary_encoded().negate())
            if len(change.added):
                parts.append(change.added.project(columns).dictionary_encoded())
        if len(parts) < 2:
            return parts[0] if parts else None
        schema = self._catalog.tables[table].schema
        return cancel(add(parts), [schema[i][1] for i in columns])

    def hydrate(self, *, early: bool = False) -> None:
        """Build all state that is missing, from the tables as they are before the change.

        Args:
            early: the next change would do it too, so a signal may cut it short.

        Raises:
            EvaluationError: an expression fails on their rows; some state is still missing.
        """
        self._tables.flush()
        try:
            with dispensable(_UNBUILT) if early else contextlib.nullcontext():
                self.circuit.hydrate(self.compiler.fetch)
        except duckdb.Error as error:
            raise _unfollowed(error) from error

    def commit(self) -> None:
        self.circuit.commit()

    def rollback(self) -> None:
        self.circuit.rollback()

    # -- views that are recomputed --------------------------------------------------------------

    def mark_stale(self, changed: Iterable[str]) -> None:
        """Base tables changed: recomputed views over them are stale."""
        self.stale.update(view.name for view in self._catalog.recomputed(changed))

    def recomputes(self, relations: Iterable[str]) -> bool:
        """Whether one of the relations is a recomputed view, or reads one."""
        views = [v for n in relations if (v := self._catalog.views.get(n)) is not None]
        return any(not view.incremental or view.recomputed_below for view in views)

    def needs_refresh(self, relations: Iterable[str]) -> list[View]:
        """Stale recomputed views at or below the given relations, lowest first."""
        if not self.stale:
            return []
        wanted: set[str] = set()
        for name in relations:
            view = self._catalog.views.get(name)
            if view is not None:
                wanted.update((name, *view.recomputed_below))
        views = list(self._catalog.views.items())  # at once: who only reads has no turn
        return [view for name, view in views if name in wanted and name in self.stale]

    def layers(self, views: Iterable[View]) -> Iterator[list[View]]:
        """Recomputed views, lowest first, in parts none of which reads another view of its part.

        What is above two of them may fail on a mixture of an old and a new one, so the differences
        of a part are to be stepped together.
        """
        layer: list[View] = []
        for view in views:
            if any(lower.name in view.recomputed_below for lower in layer):
                yield layer
                layer = []
            layer.append(view)
        if layer:
            yield layer

    def recompute(self, view: View, cursor: Cursor) -> ZSet:
        """The difference between the view's query and its table, as the cursor sees both.

        Raises:
            EvaluationError: the query fails on the tables as they are.
        """
        started = perf_counter_ns()
        try:
            table = self._catalog.qualified[view.name]
            delta = difference(cursor, f"FROM {table}", view.query, view.schema)
        except duckdb.Error as error:
            raise EvaluationError(
                f"view {view.name!r} cannot be computed: {error}; mend the rows its query fails "
                "on, or drop the view"
            ) from error
        self._recomputing.setdefault(view.name, Work()).add(started, 0, len(delta))
        return delta


def _unfollowed(error: duckdb.Error) -> EvaluationError:
    return EvaluationError(f"a view cannot follow this change: {error}; nothing was applied")


def _named(error: EvaluationError) -> EvaluationError:
    """The error with the names of the views that cannot follow."""
    views = ", ".join(repr(name) for name in sorted(error.views))
    named = EvaluationError(
        f"the change cannot be followed by the view {views}: {of_our_sql(error)}\n"
        "Nothing was applied: mend the rows, or let the view take them (TRY_CAST, CASE, WHERE)."
    )
    named.views = error.views
    return named


def _refuse_whole_groups(circuit: Circuit, view: str) -> None:
    """An operator that recomputes one group of all rows at every change is better deferred.

    Raises:
        NotIncremental: there is one.
    """
    for number in circuit.nodes_of(view):
        operator = circuit.node(number).operator
        recomputes = CollectingAggregate | GroupRecompute | Window
        if isinstance(operator, recomputes) and operator.whole:
            raise NotIncremental("an aggregate or window over all rows without a rule of its own")
