"""How views follow their tables: the circuit's deltas.

Law: what `step` returns for a view, added to its rows, is its query after the changes. A view that
is recomputed is only marked stale by a change; its difference is made when someone reads it, and
the circuit above it takes that difference like any other delta (operators are linear in each
input, so it does not matter that it comes later than the tables' own). It does matter to an
expression that fails on new rows beside a stale view: such a change is stepped once more together
with the differences (`Transaction.commit`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence

import duckdb

from ivm.catalog.catalog import BindingCatalog, View
from ivm.delta_ops.circuit import Circuit
from ivm.engine.stored_tables import StoredTables
from ivm.sql.compile.compile import CircuitCompiler
from ivm.storage.errors import EvaluationError
from ivm.storage.interrupts import dispensable
from ivm.storage.log.change import TableChange
from ivm.storage.values.consolidate import cancel
from ivm.storage.values.zset import ZSet, add
from ivm.storage.warehouse.duckdb_errors import of_our_sql

_Sources = dict[str, list[tuple[str, tuple[int, ...]]]]
"""Of each relation, the circuit's sources and the columns each one takes."""

_UNBUILT = "The state of its views is not built yet: the next change does that."


class Maintenance:
    """The circuit of all incremental views.

    Args:
        tables: the tables in DuckDB, for hydration.
    """

    def __init__(self, tables: StoredTables) -> None:
        self._tables = tables
        self._catalog = tables.catalog
        self._names = BindingCatalog(tables.catalog)
        self.circuit = Circuit()
        self.compiler = CircuitCompiler(self.circuit, tables.warehouse.cursor)
        self._sources: _Sources = {}
        self._columns_read: dict[str, frozenset[int]] = {}

    # -- views come and go ----------------------------------------------------------------------

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
        if name in self.circuit.views:
            self.circuit.remove(name)
            self._learn_sources()

    def _learn_sources(self) -> None:
        known = {s: relation for relation, parts in self._sources.items() for s, _ in parts}
        self._sources = {}
        for source, scan in self.compiler.sources().items():  # a known one's table may be gone
            relation = known.get(source) or self._names.canonical(scan.relation)
            self._sources.setdefault(relation, []).append((source, scan.columns))
        self._columns_read = {
            relation: frozenset(i for _, columns in parts for i in columns)
            for relation, parts in self._sources.items()
        }

    def columns_read(self, table: str) -> frozenset[int]:
        """Positions of the table's columns that some incremental view reads."""
        return self._columns_read.get(table, frozenset())

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

    def preview(
        self,
        changes: Sequence[TableChange],
        recomputed: Mapping[str, ZSet],
        names: Collection[str],
    ) -> dict[str, ZSet]:
        """What `step` would give for the views of these names; no state changes."""
        try:
            return self.step(changes, recomputed, names)
        finally:
            self.rollback()

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
