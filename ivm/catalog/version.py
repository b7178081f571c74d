"""A version of the catalog: the relations of a database as they are at one moment.

Invariant: `views` is in dependency order (a view after everything it reads), so one pass over it
serves every propagation. Names are canonical (see `identifiers`); `NameRules` resolves them.
A version never changes, nor does a `View` in it. Who looks at several of its parts holds one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ivm.catalog.names import NameRules
from ivm.sql.compile.compile import CircuitCompiler
from ivm.sql.plan.nodes import Plan
from ivm.sql.resolve.clock import CLOCK
from ivm.sql.statements.own.views import written_query
from ivm.sql.statements.own.watermark_calls import WATERMARKS
from ivm.storage.errors import SqlError
from ivm.storage.identifiers import Path, fold, path_of
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.tables.system_tables import Emits
from ivm.storage.warehouse.tables.table_info import TableInfo
from ivm.storage.warehouse.tables.view_indexes import ViewIndex


@dataclass(frozen=True)
class View:
    """One materialized view.

    Attributes:
        name: canonical name; its rows are in the DuckDB table of that name.
        query: the user's SELECT, verbatim.
        schema: names and types of its columns.
        reads: relations it reads directly (base tables and views), canonical.
        plan: the plan that is maintained incrementally; None for a recomputed view.
        reason: why there is no plan.
        compiled: its plan in a circuit of its own, until the circuit of all views takes it over.
        described: names and types as DuckDB describes the query, when it was created.
        key: positions of columns known to be unique in the view, None if none are.
        rounds: whether DuckDB's answer to the query may differ from the circuit's in the last bits.
        bases: base tables it reads, also through other views.
        recomputed_below: recomputed views it reads, also through other views, lowest first.
        broken: why its query cannot follow the changes, if it cannot; see `broken_views`.
        tick: of the clock that its query reads, in microseconds; None if it reads none.
        time_functions: the functions that tell the time, as its query, and what it uses, call them.
        emits: when its rows come.
    """

    name: str
    query: str
    schema: Schema
    reads: frozenset[str]
    plan: Plan | None = None
    reason: str | None = None
    compiled: CircuitCompiler | None = None
    described: Schema = ()
    key: tuple[int, ...] | None = None
    rounds: bool = False
    bases: frozenset[str] = frozenset()
    recomputed_below: tuple[str, ...] = ()
    broken: str | None = None
    tick: int | None = None
    time_functions: frozenset[str] = frozenset()
    emits: Emits = "changes"

    @property
    def incremental(self) -> bool:
        return self.plan is not None

    @property
    def stays(self) -> bool:
        """Returns whether its rows are kept, whatever its tables tell by now."""
        return self.emits != "changes"

    @property
    def written(self) -> str:
        """The query as CREATE MATERIALIZED VIEW … AS has it."""
        return written_query(self.query, self.emits)

    @property
    def time_relations(self) -> frozenset[str]:
        """The relations of ours that it reads, though its text does not name them."""
        clock = [CLOCK] if self.time_functions else []
        return frozenset([*clock, *([WATERMARKS] if self.emits == "final" else [])])

    @property
    def constant(self) -> bool:
        """Returns whether it reads no table, so that its rows never change."""
        return not self.bases


@dataclass(frozen=True, eq=False)
class CatalogVersion:
    """What all names mean at one moment; another object after every change of the catalog.

    Attributes:
        database: DuckDB's name of it.
        tables: base tables by canonical name.
        views: materialized views by canonical name, in dependency order.
        view_indexes: the indexes on materialized views by name.
        qualified: SQL spelling of every table and view by canonical name.
        databases: the names of the attached databases.
        schemas: those of the database.
        expected: the views that `Catalog.add_view` will add, which were made after all that it has
            added.
        committed: what it was before the open transaction changed the catalog; None if no open
            transaction has.
    """

    database: str
    tables: Mapping[str, TableInfo] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    view_indexes: Mapping[str, ViewIndex] = field(default_factory=dict)
    qualified: Mapping[str, str] = field(default_factory=dict)
    databases: tuple[str, ...] = ()
    schemas: tuple[Path, ...] = ()
    expected: frozenset[str] = frozenset()
    committed: CatalogVersion | None = None

    @functools.cached_property
    def names(self) -> NameRules:
        """Resolves names."""
        relations = (*self.tables, *self.views)
        return NameRules(self.database, self.databases, self.schemas, relations)

    def relation_schema(self, name: str) -> Schema:
        """The columns of the table or view of a canonical name."""
        view = self.views.get(name)
        return self.tables[name].schema if view is None else view.schema

    @property
    def is_changing(self) -> bool:
        """Whether an open transaction has changed the catalog, or is about to."""
        return self.committed is not None

    @property
    def as_committed(self) -> CatalogVersion:
        """The same as of the last commit."""
        return self if self.committed is None else self.committed

    @property
    def committed_views(self) -> Mapping[str, View]:
        """The views as of the last commit."""
        return self.as_committed.views

    def with_sources(self, reads: Iterable[str]) -> frozenset[str]:
        """Relations together with the base tables and recomputed views below them."""
        lower = [view for name in reads if (view := self.views.get(name)) is not None]
        below = [{*view.bases, *view.recomputed_below} for view in lower]
        return frozenset(reads).union(*below)

    def at_or_below(self, names: Iterable[str]) -> set[str]:
        """The views among these relations, and all views they read."""
        found = self.views.keys() & names
        for view in reversed(list(self.views.values())):
            if view.name in found:
                found |= self.views.keys() & view.reads
        return found

    def committed_view(self, parts: Sequence[str]) -> View | None:
        """The view of that name as of the last commit; None if there is none.

        Raises:
            SqlError: see `NameRules.resolve`.
        """
        path = self.names.path(parts)
        found = self.committed_views.items()
        named = (view for name, view in found if tuple(map(fold, path_of(name))) == path)
        return next(named, None)

    def view(self, parts: Sequence[str]) -> View:
        """The view of that name.

        Raises:
            SqlError: there is none.
        """
        name = self.names.resolve(parts)
        if name is None or name not in self.views:
            raise SqlError(f"there is no materialized view {'.'.join(parts)!r}; {self._known()}")
        return self.views[name]

    def _known(self) -> str:
        """The names of the views, for the message that one does not exist."""
        if not self.views:
            return "there is none yet: CREATE MATERIALIZED VIEW … AS SELECT … makes one"
        return f"there are: {', '.join(self.views)}"

    def readers(self, names: Iterable[str]) -> list[View]:
        """Views that read any of the relations, directly or through other views."""
        found = set(names)
        views = []
        for view in self.views.values():
            if view.reads & found:
                found.add(view.name)
                views.append(view)
        return views

    def lacks(self, name: str) -> bool:
        """Returns whether a relation that a view reads, or one below it, is not there.

        Needs no DuckDB, where a query that does not bind ends the transaction.
        """
        there = {fold(name) for name in (*self.tables, *self.views)}
        below = [self.views[name] for name in self.at_or_below([name])]
        return not {fold(read) for view in below for read in view.reads} <= there

    def recomputed(self, changed: Iterable[str]) -> Iterator[View]:
        """The recomputed views that a change of these base tables makes stale."""
        touched = set(changed)
        for view in self.views.values():
            if not view.incremental and not view.bases.isdisjoint(touched):
                yield view

    @property
    def user_tables(self) -> dict[str, TableInfo]:
        """The base tables without the records of change streams."""
        return {name: info for name, info in self.tables.items() if not name.startswith("_ivm.")}

    @property
    def tables_by_schema(self) -> dict[str, Schema]:
        """The columns of every base table, for the log's segment headers."""
        return {name: info.schema for name, info in self.tables.items()}


class Meaning(NamedTuple):
    """What the words of a text mean at one moment; see `Engine.meaning`.

    Attributes:
        generation: of plain views, macros and functions; see `Relations.generation`.
        version: of the catalog.
    """

    generation: int
    version: CatalogVersion
