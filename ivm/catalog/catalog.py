"""The catalog of a database, which changes: each change puts another version in its place.

Law: those who read have no lock. A version is replaced whole, in one assignment.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ivm.catalog.names import NameRules
from ivm.catalog.version import CatalogVersion, View
from ivm.storage.identifiers import Path
from ivm.storage.warehouse.tables.table_info import TableInfo
from ivm.storage.warehouse.tables.view_indexes import ViewIndex


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
            committed=None
            if committed is None
            else replace(committed, views=_changed(committed.views, names, parts)),
        )

    def remove_view(self, name: str) -> None:
        self._change(views={other: view for other, view in self.views.items() if other != name})

    def begin_change(self) -> None:
        """Notes that a transaction is about to change the catalog."""
        self._change(committed=self.version)

    def restore(self) -> None:
        """Undoes what the transaction did to the views; the caller loads the tables anew."""
        self._change(views=self.version.committed_views)

    def end_change(self) -> None:
        """Notes that a transaction has ended, whether it has changed the catalog or not."""
        if self.version.is_changing:
            self._change(committed=None)


def _changed(
    views: Mapping[str, View], names: Iterable[str], parts: Mapping[str, Any]
) -> dict[str, View]:
    """The views, those of these names with other attributes."""
    changed = frozenset(names)
    return {n: replace(view, **parts) if n in changed else view for n, view in views.items()}
