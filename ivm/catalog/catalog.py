"""What relations there are: base tables, materialized views, and which reads which.

Law: `views` stands in dependency order (a view after everything it reads), so one pass over it
serves every propagation. Names are canonical (see `identifiers`); `NameRules` says which is meant.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ivm.catalog.names import NOTHING, NameRules
from ivm.sql.compile.compile import CircuitCompiler
from ivm.sql.plan.nodes import Plan
from ivm.storage.errors import InputError, InternalError, SqlError
from ivm.storage.identifiers import Path, is_text, split_name
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.table_info import TableInfo


def name_parts(name: object) -> tuple[str, ...]:
    """The parts of a name given in Python, written as in SQL (quotes may be left out).

    Raises:
        InputError: it is no text.
    """
    if not isinstance(name, str) or not is_text(name):
        raise InputError(f"a table or view is named by text such as 'orders', not by {name!r}")
    return split_name(name)


@dataclass
class View:
    """One materialized view.

    Attributes:
        name: canonical name; its rows lie in the DuckDB table of that name.
        query: the user's SELECT, verbatim.
        schema: names and types of its columns.
        reads: relations it reads directly (base tables and views), canonical.
        plan: what is maintained incrementally, or None: whole recompute.
        reason: why there is no plan.
        compiled: its plan in a circuit of its own, until the circuit of all views takes it over.
        described: names and types as DuckDB describes the query, when it was created.
        key: positions of columns known to be unique in the view, None if none are.
        rounds: DuckDB's answer to the query may differ from the circuit's in its last bits.
        bases: base tables it reads, also through other views.
        recomputed_below: recomputed views it reads, also through other views, lowest first.
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

    @property
    def incremental(self) -> bool:
        return self.plan is not None

    @property
    def constant(self) -> bool:
        """It reads no table, so its rows never change."""
        return not self.bases


class Catalog:
    """Base tables and materialized views of one database.

    Args:
        database: DuckDB's name of it.

    Attributes:
        tables: base tables by canonical name.
        views: materialized views by canonical name, in dependency order.
        qualified: SQL spelling of every table and view by canonical name.
        names: which relation a name means; another object after every change of the catalog.
        committed: the views before the open transaction changed the catalog; None if none does.
    """

    def __init__(self, database: str) -> None:
        self.tables: dict[str, TableInfo] = {}
        self.views: dict[str, View] = {}
        self.committed: Mapping[str, View] | None = None
        self.qualified: dict[str, str] = {}
        self.database = database
        self._databases: tuple[str, ...] = ()
        self._schemas: tuple[Path, ...] = ()
        self._expected: frozenset[str] = frozenset()
        self._indexing = threading.Lock()
        self._index()

    def expect_views(self, names: Iterable[str]) -> None:
        """These tables hold views, though they are not entered yet."""
        self._expected = frozenset(names)

    def load_tables(self, tables: Mapping[str, TableInfo], schemas: Iterable[Path]) -> None:
        """Take the file's tables and schemas as they are now; some tables hold views."""
        self.qualified = {name: info.qualified for name, info in tables.items()}
        held = self.views.keys() | self._expected
        self.tables = {name: info for name, info in tables.items() if name not in held}
        self._schemas = tuple(schemas)
        self._index()

    def load_databases(self, names: Iterable[str]) -> None:
        """Take the names of all attached databases as they are now."""
        self._databases = tuple(names)
        self._index()

    def add_view(self, view: View) -> None:
        """Enter a view whose `reads` are all known; derives `bases` and `recomputed_below`."""
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
        view.bases = frozenset(bases)
        view.recomputed_below = tuple(name for name in self.views if name in below)
        self.views[view.name] = view
        self.tables.pop(view.name, None)
        self._index()

    def with_sources(self, reads: Iterable[str]) -> frozenset[str]:
        """Relations, and what they follow from: base tables and recomputed views."""
        lower = [view for name in reads if (view := self.views.get(name)) is not None]
        below = [{*view.bases, *view.recomputed_below} for view in lower]
        return frozenset(reads).union(*below)

    def relation_schema(self, name: str) -> Schema:
        """Columns of a table or view by its canonical name."""
        view = self.views.get(name)
        return self.tables[name].schema if view is None else view.schema

    def snapshot(self) -> dict[str, View]:
        """The views as they are now, for `restore`."""
        return {name: replace(view) for name, view in self.views.items()}

    def restore(self, views: dict[str, View]) -> None:
        """Take back changes of the views (tables are loaded anew by the caller)."""
        self.views = views

    def remove_view(self, name: str) -> None:
        del self.views[name]
        self._index()

    def _index(self) -> None:
        with (
            self._indexing
        ):  # databases are attached without the writer lock: the last one sees all
            relations = (*self.tables, *self.views)
            self.names = NameRules(self.database, self._databases, self._schemas, relations)

    def resolve(self, parts: Sequence[str], hidden: frozenset[str] = NOTHING) -> str | None:
        """The canonical name of a relation, or None if there is none; see `NameRules.resolve`."""
        return self.names.resolve(parts, hidden)

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
        """What there is instead of a view that is not there."""
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

    def at_or_below(self, names: Iterable[str]) -> set[str]:
        """The views among these relations, and all views they read."""
        found = self.views.keys() & names
        for view in reversed(self.views.values()):
            if view.name in found:
                found |= self.views.keys() & view.reads
        return found

    def recomputed(self, changed: Iterable[str]) -> Iterator[View]:
        """Whole-recompute views that a change of these base tables makes stale."""
        touched = set(changed)
        for view in self.views.values():
            if not view.incremental and not view.bases.isdisjoint(touched):
                yield view

    @property
    def tables_by_schema(self) -> dict[str, Schema]:
        """Columns of every base table, for the log's segment headers."""
        return {name: info.schema for name, info in self.tables.items()}


class BindingCatalog:
    """The catalog as the binder asks it: a relation's one name is its qualified SQL spelling.

    Args:
        catalog: tables and views.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def canonical(self, spelling: str) -> str:
        """The canonical name behind a spelling."""
        for name, qualified in self._catalog.qualified.items():
            if qualified == spelling:
                return name
        raise InternalError(f"relation {spelling} is bound but not in the catalog")

    def resolve(self, parts: Sequence[str]) -> str | None:
        """See `ivm.sql.resolve.catalog.RelationCatalog`."""
        name = self._catalog.resolve(parts)
        return None if name is None else self._catalog.qualified[name]

    def path(self, parts: Sequence[str]) -> Path | None:
        """See `ivm.sql.resolve.catalog.RelationCatalog`."""
        return self._catalog.names.path(parts)

    def schema(self, name: str) -> Schema | None:
        """See `ivm.sql.resolve.catalog.RelationCatalog`."""
        return self._catalog.relation_schema(self.canonical(name))

    def view_plan(self, name: str) -> Plan | None:
        """See `ivm.sql.resolve.catalog.RelationCatalog`."""
        view = self._catalog.views.get(self.canonical(name))
        return None if view is None else view.plan

    def primary_key(self, name: str) -> tuple[str, ...]:
        """See `ivm.sql.resolve.catalog.RelationCatalog`."""
        info = self._catalog.tables.get(self.canonical(name))
        return () if info is None else tuple(info.schema[i][0] for i in info.primary_key)
