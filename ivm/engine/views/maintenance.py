"""The maintenance of incremental views: from changes of tables to deltas of views.

Law: rows of a view + its delta from `step` = its query after the changes. A change only marks a
recomputed view as stale; its difference is computed when it is read, and the circuit above it takes
the difference like any other delta. It may come later than the deltas of the tables, since a view's
rows depend on the state of its inputs alone, not on the order of their deltas. But an expression
may fail on new rows while a view below is stale: such a change is stepped once more together with
the differences (`Transaction.commit`).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence

import duckdb

from ivm.catalog.binding import BindingCatalog
from ivm.catalog.version import View
from ivm.delta_ops.aggregates.group_lookup import GroupLookup
from ivm.delta_ops.circuit import Circuit
from ivm.delta_ops.ordered.emit import Emit
from ivm.engine.tables.saved_state import SavedState
from ivm.engine.tables.stored_tables import StoredTables
from ivm.sql.compile.compile import CircuitCompiler
from ivm.storage.errors import EvaluationError, UnavailableError
from ivm.storage.interrupts import dispensable
from ivm.storage.log.change import TableChange
from ivm.storage.log.commit import Commit
from ivm.storage.values import thresholds
from ivm.storage.values.consolidate import cancel, without_pairs
from ivm.storage.values.equality import equal_pairs
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add, ones
from ivm.storage.warehouse.duckdb.duckdb_errors import of_our_sql
from ivm.storage.warehouse.tables.table_info import TableInfo

_Sources = dict[str, list[tuple[str, tuple[int, ...]]]]
"""The circuit's sources by relation, each with the positions of the columns it takes."""

_UNBUILT = "The state of its views is not built yet: the next change does that."


class Maintenance:
    """The circuit of all incremental views.

    Args:
        tables: the tables in DuckDB, for hydration.

    Attributes:
        saved: the state that the last closing has saved, and what the next one saves.
        shape_lock: held while views come and go, and while their nodes are shown: that does not
            wait for the writer lock.
        still: held while views come and go and while the circuit steps, and by readers of its
            committed state (see `GroupReads`).
    """

    def __init__(self, tables: StoredTables) -> None:
        self._tables = tables
        self._catalog = tables.catalog
        self.shape_lock = threading.RLock()
        self.still = threading.Lock()
        self.circuit = Circuit()
        self.compiler = CircuitCompiler(self.circuit, tables.warehouse.cursor)
        self._sources: _Sources = {}
        self._columns_read: dict[str, frozenset[int]] = {}
        self.saved = SavedState(tables.warehouse, self.circuit)
        self._lookups: dict[tuple[str, tuple[int, ...]], GroupLookup | None] = {}

    # -- adding and removing views --------------------------------------------------------------

    def attach(self, name: str, compiled: CircuitCompiler) -> None:
        """Adds an incremental view to the circuit; `hydrate` builds its state.

        Args:
            name: of the view.
            compiled: its plan in a circuit of its own, which nobody may use from here on.
        """
        self.saved.restore_all()
        with self.shape_lock, self.still:
            self.compiler.take(name, compiled)
            self._lookups.clear()
        self._learn_sources()

    def contents(self, view: View) -> Iterator[ZSet]:
        """All rows of an incremental view in chunks, with the bits of the sum of its deltas.

        Raises:
            EvaluationError: an expression fails on the rows that the tables hold.
        """
        try:
            yield from self.circuit.contents(self.circuit.views[view.name], self.compiler.fetch)
        except duckdb.Error as error:
            raise _unfollowed(error) from error

    def detach(self, name: str) -> None:
        """Removes a view from the circuit."""
        if name in self.circuit.views:
            self.saved.restore_all()
            with self.shape_lock, self.still:
                self.circuit.remove(name)
                self._lookups.clear()
            self._learn_sources()

    def _learn_sources(self) -> None:
        known = {s: relation for relation, parts in self._sources.items() for s, _ in parts}
        names, self._sources = BindingCatalog(self._catalog.version), {}
        for source, scan in self.compiler.sources().items():  # a known table may be dropped
            relation = known.get(source) or names.canonical(scan.relation)
            self._sources.setdefault(relation, []).append((source, scan.columns))
        self._columns_read = {
            relation: frozenset(i for _, columns in parts for i in columns)
            for relation, parts in self._sources.items()
        }

    def columns_read(self, table: str) -> frozenset[int]:
        """The positions of the table's columns that some incremental view reads."""
        return self._columns_read.get(table, frozenset())

    # -- the circuit ----------------------------------------------------------------------------

    def step(
        self,
        changes: Sequence[TableChange],
        recomputed: Mapping[str, ZSet] | None = None,
        only: Collection[str] | None = None,
    ) -> dict[str, ZSet]:
        """Computes the deltas of all incremental views; the circuit's new state is staged.

        Args:
            changes: the changes of base tables.
            recomputed: the differences of recomputed views by name.
            only: the views to step, default all. Tables that none of them reads may have other
                columns by now than the changes.

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
        if waiting := self.circuit.needs_hydration(deltas):
            self.hydrate(only, waiting)
        try:
            with self.still:
                return self.circuit.step(deltas, only)
        except EvaluationError as error:
            raise _named(error) from error
        except duckdb.Error as error:
            raise _unfollowed(error) from error

    def preview(
        self,
        changes: Sequence[TableChange],
        recomputed: Mapping[str, ZSet],
        names: Collection[str],
    ) -> dict[str, ZSet]:
        """Computes the deltas that `step` would return for these views; no state changes."""
        try:
            return self.step(changes, recomputed, names)
        finally:
            self.rollback()

    def emit_of(self, view: str) -> Emit:
        """The operator of a final view that knows how far its rows are passed.

        Raises:
            EvaluationError: its state is missing and cannot be built.
        """
        number = self.circuit.views[view]
        node = self.circuit.node(number)
        if not node.hydrated:
            self.hydrate(nodes=[number])
        assert isinstance(node.operator, Emit)
        return node.operator

    def _sources_of(self, views: Collection[str]) -> _Sources:
        needed = self.circuit.sources_of(views)
        return {r: [p for p in parts if p[0] in needed] for r, parts in self._sources.items()}

    def _deltas(
        self, changes: Sequence[TableChange], sources: _Sources
    ) -> Iterator[tuple[str, ZSet]]:
        by_table: dict[str, list[TableChange]] = {}
        tables = self._catalog.tables
        for change in changes:
            by_table.setdefault(change.table, []).append(change)
        for table, parts in by_table.items():
            read = sources.get(table)
            if not read:  # the transaction may have dropped or renamed it since
                continue
            union = tuple(sorted({i for _, columns in read for i in columns}))
            whole, cancels = self._joined(parts, union)
            info = tables[table]
            types = [info.schema[i][1] for i in union]
            pairs = _pairs(info, parts) if cancels else 0
            for source, columns in read if len(whole) else ():
                positions = [union.index(i) for i in columns]
                delta = whole.project(positions)
                if cancels:
                    delta = _net(delta, [types[i] for i in positions], pairs)
                if len(delta):
                    yield source, delta

    def _joined(
        self, changes: Sequence[TableChange], columns: tuple[int, ...]
    ) -> tuple[ZSet, bool]:
        """Rows removed and added, in columns that some views read, and whether some may cancel."""
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
        if not parts:
            return ZSet((), ones(0)), False
        return add(parts), len(parts) > 1

    def hydrate(
        self,
        only: Collection[str] | None = None,
        nodes: Sequence[int] | None = None,
        *,
        early: bool = False,
    ) -> None:
        """Builds missing state from the tables as they are before the change.

        Args:
            only: the views whose state is built, default all.
            nodes: the circuit's nodes that a change needs, default all that lack state.
            early: whether a signal may cut it short: the next change would hydrate too.

        Raises:
            EvaluationError: an expression fails on their rows; some state is still missing.
        """
        circuit = self.circuit
        nodes = circuit.needs_hydration() if nodes is None else nodes
        if only is not None:
            kept = {n for view in circuit.views if view in only for n in circuit.nodes_of(view)}
            nodes = [n for n in nodes if n in kept]
        self.saved.restore(nodes)
        nodes = [n for n in nodes if not circuit.node(n).hydrated]
        if not nodes:
            return
        self._tables.flush()
        self._demand_histories(frozenset(nodes))
        try:
            with dispensable(_UNBUILT) if early else contextlib.nullcontext():
                circuit.hydrate(self.compiler.fetch, nodes)
        except duckdb.Error as error:
            raise _unfollowed(error) from error

    def _demand_histories(self, nodes: frozenset[int]) -> None:
        """Checks the files from which the state of these nodes would be built."""
        circuit = self.circuit
        read = [view for view in circuit.views if not nodes.isdisjoint(circuit.nodes_of(view))]
        try:
            self._tables.demand_histories(read)
        except UnavailableError as error:
            raise EvaluationError(str(error)) from error

    def group_lookup(self, view: str, key: tuple[int, ...]) -> GroupLookup | None:
        """The way to a view's rows under a key, see `GroupLookup.of`; the caller holds `still`."""
        wanted = (view, key)
        if wanted not in self._lookups:
            self._lookups[wanted] = GroupLookup.of(self.circuit, view, key)
        return self._lookups[wanted]

    def commit(self) -> None:
        """Adopts the staged state; no reader may be reading any of it."""
        self.circuit.commit()

    def follow(self, commit: Commit) -> None:
        """Adopts the state that has been staged for a commit."""
        self.commit()

    def rollback(self) -> None:
        self.circuit.rollback()


def _pairs(info: TableInfo, changes: Sequence[TableChange]) -> int:
    """How many rows the first change updates: its removed rows have the keys of its added ones.

    0 if that is not so, or if other changes remove rows too, or if the rows are few.
    """
    first, key = changes[0], info.primary_key
    count = len(first.removed)
    if count <= thresholds.TUPLE_ROWS or count != len(first.added) or not key:
        return 0
    if any(len(other.removed) for other in changes[1:]):
        return 0
    old = [first.removed.columns[first.removed_columns.index(i)] for i in key]
    new = [first.added.columns[i] for i in key]
    return count if equal_pairs(old, new, [info.schema[i][1] for i in key]).all() else 0


def _net(delta: ZSet, types: Sequence[ColumnType], pairs: int) -> ZSet:
    """The delta without rows that cancel each other; of so many updates only in pairs.

    Rows of different keys seldom cancel, and the circuit does not need that they do.
    """
    return without_pairs(delta, types, pairs) if pairs else cancel(delta, types)


def _unfollowed(error: duckdb.Error) -> EvaluationError:
    return EvaluationError(f"a view cannot follow this change: {error}; nothing was applied")


def _named(error: EvaluationError) -> EvaluationError:
    """The error with the names of the views that it concerns."""
    views = ", ".join(repr(name) for name in sorted(error.views))
    named = EvaluationError(
        f"the change cannot be followed by the view {views}: {of_our_sql(error)}\n"
        "Nothing was applied: mend the rows, or let the view take them (TRY_CAST, CASE, WHERE)."
    )
    named.views = error.views
    return named
