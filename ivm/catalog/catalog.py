"""The relations of a database: base tables, materialized views, and which view reads which.

Invariant: `views` is in dependency order (a view after everything it reads), so one pass over it
serves every propagation. Names are canonical (see `identifiers`); `NameRules` resolves them. Those
who read have no lock: a `CatalogVersion` never changes, nor does a `View` in it; it is replaced
whole, in one assignment.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ivm.catalog.names import NOTHING, NameRules
from ivm.sql.compile.compile import CircuitCompiler
from ivm.sql.plan.nodes import Plan
from ivm.storage.errors import InputError, InternalError, SqlError
from ivm.storage.identifiers import Path, fold, is_text, path_of, split_name
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.tables.table_info import TableInfo
from ivm.storage.warehouse.tables.view_indexes import ViewIndex


def name_parts(name: object) -> tuple[str, ...]:
    """Splits a name given in Python, written as in SQL (quotes may be left out), into its parts.

    Raises:
        InputError: it is no string, or holds half of a surrogate pair.
    """
    if not isinstance(name, str) or not is_text(name):
        raise InputError(f"a table or view is named by text such as 'orders', not by {name!r}")
    return split_name(name)


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

    @property
    def incremental(self) -> bool:
        return self.plan is not None

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
        committed: the views before the open transaction changed the catalog; None if no open
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
    committed: Mapping[str, View] | None = None

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
    def committed_views(self) -> Mapping[str, View]:
        """The views as of the last commit."""
        return self.views if self.committed is None else self.committed

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


class Meaning(NamedTuple):
    """What the words of a text mean at one moment; see `Engine.meaning`.

    Attributes:
        generation: of plain views, macros and functions; see `Relations.generation`.
        version: of the catalog.
    """

    generation: int
    version: CatalogVersion


class Catalog:
    """Base tables and materialized views of one database.

    Args:
        database: DuckDB's name of it.

    Attributes:
        version: what its names mean now. Who needs several of its parts together holds one.
    """

    def __init__(self, database: str) -> None:
        self.version = CatalogVersion(database)
        # ATTACH and DETACH come without the writer lock, beside other changes.
        self._changing = threading.Lock()

    def _change(self, **parts: Any) -> None:
        with self._changing:
            self.version = replace(self.version, **parts)

    @property
    def database(self) -> str:
        """DuckDB's name of it."""
        return self.version.database

    @property
    def tables(self) -> Mapping[str, TableInfo]:
        """Base tables by canonical name."""
        return self.version.tables

    @property
    def views(self) -> Mapping[str, View]:
        """Materialized views by canonical name, in dependency order."""
        return self.version.views

    @property
    def view_indexes(self) -> Mapping[str, ViewIndex]:
        """The indexes on materialized views by name."""
        return self.version.view_indexes

    @property
    def qualified(self) -> Mapping[str, str]:
        """SQL spelling of every table and view by canonical name."""
        return self.version.qualified

    @property
    def names(self) -> NameRules:
        """Resolves names."""
        return self.version.names

    def expect_views(self, names: Iterable[str]) -> None:
        """Announces names whose tables hold views that `add_view` will add: no base tables."""
        self._change(expected=frozenset(names))

    def load_tables(
        self,
        tables: Mapping[str, TableInfo],
        schemas: Iterable[Path],
        view_indexes: Mapping[str, ViewIndex],
    ) -> None:
        """Replaces all but the views by what is in the file; some tables hold views."""
        held = self.views.keys() | self.version.expected
        self._change(
            qualified={name: info.qualified for name, info in tables.items()},
            tables={name: info for name, info in tables.items() if name not in held},
            schemas=tuple(schemas),
            view_indexes=view_indexes,
        )

    def load_databases(self, names: Iterable[str]) -> None:
        """Replaces the names of the attached databases."""
        self._change(databases=tuple(names))

    def add_view(self, view: View) -> View:
        """Adds a view whose `reads` are all known, or puts it in the place of its former self.

        Returns:
            The view with what is derived: `bases` and `recomputed_below`.
        """
        bases: set[str] = set()
        below: dict[str, None] = {}
        for name in view.reads:
            lower = self.views.get(name)
            if lower is None:
                bases.add(name)
                continue
            bases |= lower.bases
            below.update(dict.fromkeys(lower.recomputed_below))
            if not lower.incremental:
                below[name] = None
        recomputed_below = tuple(name for name in self.views if name in below)
        view = replace(view, bases=frozenset(bases), recomputed_below=recomputed_below)
        self._change(
            views={**self.views, view.name: view},
            tables={name: info for name, info in self.tables.items() if name != view.name},
            expected=self.version.expected - {view.name},  # once dropped, a table may have its name
        )
        return view

    def change_views(self, names: Iterable[str], **parts: Any) -> None:
        """Gives some views other attributes, which concern no relation that they read."""
        self._change(views=_changed(self.views, names, parts))

    def break_views(self, names: Iterable[str], reason: str) -> None:
        """Notes why views cannot follow the changes, whatever becomes of the open transaction."""
        names, parts = frozenset(names), {"broken": reason}
        committed = self.version.committed
        self._change(
            views=_changed(self.views, names, parts),
            committed=None if committed is None else _changed(committed, names, parts),
        )

    def remove_view(self, name: str) -> None:
        self._change(views={other: view for other, view in self.views.items() if other != name})

    def begin_change(self) -> None:
        """Notes that a transaction is about to change the catalog."""
        self._change(committed=self.views)

    def restore(self) -> None:
        """Undoes what the transaction did to the views; the caller loads the tables anew."""
        self._change(views=self.version.committed_views)

    def end_change(self) -> None:
        """Notes that a transaction has ended, whether it has changed the catalog or not."""
        if self.version.is_changing:
            self._change(committed=None)

    def resolve(self, parts: Sequence[str], hidden: frozenset[str] = NOTHING) -> str | None:
        """The canonical name of a relation, or None if there is none; see `NameRules.resolve`."""
        return self.names.resolve(parts, hidden)

    def committed_view(self, parts: Sequence[str]) -> View | None:
        """The view of that name as of the last commit; None if there is none.

        Raises:
            SqlError: see `NameRules.resolve`.
        """
        path = self.names.path(parts)
        found = self.version.committed_views.items()
        named = (view for name, view in found if tuple(map(fold, path_of(name))) == path)
        return next(named, None)

    def view(self, parts: Sequence[str]) -> View:
        """The view of that name.

        Raises:
            SqlError: there is none.
        """
        name = self.resolve(parts)
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
        version = self.version
        there = {fold(name) for name in (*version.tables, *version.views)}
        below = [version.views[name] for name in version.at_or_below([name])]
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


def _changed(
    views: Mapping[str, View], names: Iterable[str], parts: Mapping[str, Any]
) -> dict[str, View]:
    """The views, those of these names with other attributes."""
    changed = frozenset(names)
    return {n: replace(view, **parts) if n in changed else view for n, view in views.items()}


class BindingCatalog:
    """A version of the catalog as the binder sees it: relations are named by qualified spelling.

    Args:
        version: has the tables and views.
    """

    def __init__(self, version: CatalogVersion) -> None:
        self._version = version

    def canonical(self, spelling: str) -> str:
        """The canonical name of the relation with a qualified spelling."""
        for name, qualified in self._version.qualified.items():
            if qualified == spelling:
                return name
        raise InternalError(f"relation {spelling} is bound but not in the catalog")

    def resolve(self, parts: Sequence[str]) -> str | None:
        """See `ivm.sql.resolve.catalog.RelationCatalog`."""
        name = self._version.names.resolve(parts)
        return None if name is None else self._version.qualified[name]

    def path(self, parts: Sequence[str]) -> Path | None:
        """See `ivm.sql.resolve.catalog.RelationCatalog`."""
        return self._version.names.path(parts)

    def schema(self, name: str) -> Schema | None:
        """See `ivm.sql.resolve.catalog.RelationCatalog`."""
        return self._version.relation_schema(self.canonical(name))

    def view_plan(self, name: str) -> Plan | None:
        """See `ivm.sql.resolve.catalog.RelationCatalog`."""
        view = self._version.views.get(self.canonical(name))
        return None if view is None else view.plan

    def primary_key(self, name: str) -> tuple[str, ...]:
        """See `ivm.sql.resolve.catalog.RelationCatalog`."""
        info = self._version.tables.get(self.canonical(name))
        return () if info is None else tuple(info.schema[i][0] for i in info.primary_key)
