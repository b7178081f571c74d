"""What relations there are: base tables, materialized views, and which reads which.

Law: `views` stands in dependency order (a view after everything it reads), so one pass over it
serves every propagation. Names are canonical: `name` in schema main, else `schema.name`, matched
without regard to case as DuckDB does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ivm.sql.plan import Plan
from ivm.storage.errors import SqlError
from ivm.storage.types import Schema
from ivm.storage.warehouse import TableInfo


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
        broken: what a change from a stream broke in it, else None.
    """

    name: str
    query: str
    schema: Schema
    reads: frozenset[str]
    plan: Plan | None = None
    reason: str | None = None
    broken: str | None = None
    bases: frozenset[str] = field(default=frozenset())
    recomputed_below: tuple[str, ...] = ()

    @property
    def incremental(self) -> bool:
        return self.plan is not None


class Catalog:
    """Base tables and materialized views of one database.

    It is the binder's catalog too: `schema`, `view_plan` and `primary_key` are asked by it.
    """

    def __init__(self) -> None:
        self.tables: dict[str, TableInfo] = {}
        self.views: dict[str, View] = {}
        self._names: dict[str, str] = {}

    def load_tables(self, tables: Mapping[str, TableInfo]) -> None:
        """Take the user's tables as they are now; tables that hold views are not among them."""
        self.tables = {name: info for name, info in tables.items() if name not in self.views}
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

    def remove_view(self, name: str) -> None:
        del self.views[name]
        self._index()

    def _index(self) -> None:
        self._names = {name.lower(): name for name in (*self.tables, *self.views)}

    def resolve(self, parts: Iterable[str]) -> str | None:
        """The canonical name of a relation, or None if there is none.

        Args:
            parts: one to three parts of a name; a leading database part is dropped.
        """
        parts = list(parts)[-2:]
        if len(parts) == 2 and parts[0].lower() == "main":
            parts = parts[1:]
        return self._names.get(".".join(parts).lower())

    def view(self, parts: Iterable[str]) -> View:
        """The view of that name.

        Raises:
            SqlError: there is none.
        """
        parts = list(parts)
        name = self.resolve(parts)
        if name is None or name not in self.views:
            known = ", ".join(self.views) or "none yet"
            raise SqlError(f"there is no materialized view {'.'.join(parts)!r}; there are: {known}")
        return self.views[name]

    def readers(self, names: Iterable[str]) -> list[View]:
        """Views that read any of the relations, directly or through other views."""
        found = set(names)
        views = []
        for view in self.views.values():
            if view.reads & found:
                found.add(view.name)
                views.append(view)
        return views

    def recomputed(self, changed: Iterable[str]) -> Iterator[View]:
        """Whole-recompute views that a change of these base tables makes stale."""
        touched = set(changed)
        for view in self.views.values():
            if not view.incremental and not view.bases.isdisjoint(touched):
                yield view

    # -- the binder's questions ---------------------------------------------------------------

    def schema(self, name: str) -> Schema | None:
        """Columns of a base table or view, None if there is none of that name."""
        canonical = self._names.get(name.lower())
        if canonical is None:
            return None
        if canonical in self.views:
            return self.views[canonical].schema
        return self.tables[canonical].schema

    def view_plan(self, name: str) -> Plan | None:
        """The plan of an incremental view, None for anything else."""
        view = self.views.get(self._names.get(name.lower(), ""))
        return None if view is None else view.plan

    def primary_key(self, name: str) -> tuple[int, ...]:
        """Positions of a base table's primary key, empty without one."""
        info = self.tables.get(self._names.get(name.lower(), ""))
        return () if info is None else info.primary_key
