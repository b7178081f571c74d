"""A version of the catalog behind the binder's interface."""

from __future__ import annotations

from collections.abc import Sequence

from ivm.catalog.version import CatalogVersion
from ivm.sql.plan.nodes import Plan
from ivm.storage.errors import InternalError
from ivm.storage.identifiers import Path
from ivm.storage.values.types import Schema


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
