"""Finds the plain views of the user's database, and resolves the names in their texts.

Law: in the text of a view outside of schema main a name without a schema means a relation of that
schema (DuckDB matches the innermost schema's name alone) or, if it has none, of main.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sqlglot import exp

from ivm.sql.plan.nodes import NotIncremental
from ivm.sql.statements.text.stored_text import view_query
from ivm.storage.identifiers import Path, fold, quote
from ivm.storage.warehouse.duckdb.duck import Cursor, rows
from ivm.storage.warehouse.tables.history import paths
from ivm.storage.warehouse.tables.table_info import read_schemas

_VIEWS = """
SELECT schema_oid, view_name, sql FROM system.main.duckdb_views()
WHERE NOT internal AND NOT temporary AND database_name = $1
"""
_RELATIONS = """
SELECT schema_oid, table_name FROM system.main.duckdb_tables() WHERE database_name = $1 UNION ALL
SELECT schema_oid, view_name FROM system.main.duckdb_views() WHERE database_name = $1
"""
_OWN = """
SELECT 1 FROM system.main.duckdb_functions()
WHERE database_name = $1 AND schema_name = $2 AND NOT internal
UNION ALL SELECT 1 FROM system.main.duckdb_types() WHERE database_name = $1 AND schema_name = $2
"""


class PlainView(NamedTuple):
    """A view that DuckDB expands.

    Attributes:
        path: its schemas and name.
        qualified: its SQL spelling, with database and schemas.
        sql: its CREATE VIEW statement.
    """

    path: Path
    qualified: str
    sql: str


class PlainViews:
    """The plain views of a database, listed at the first question.

    Args:
        cursor: sees them.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def named(self, name: str) -> Iterator[str]:
        """The queries of the plain views with a folded name, in any schema."""
        return map(view_query, self.texts.get(name, ()))

    @functools.cached_property
    def texts(self) -> Mapping[str, list[str]]:
        """The CREATE VIEW statements by folded name, those of all schemas."""
        found: dict[str, list[str]] = {}
        for path, view in self._known.items():
            found.setdefault(path[-1], []).append(view.sql)
        return found

    def find(self, path: Path) -> PlainView | None:
        """The plain view at a folded path of the database, or None."""
        return self._known.get(path)

    def in_its_schema(self, query: exp.Expr, view: PlainView) -> exp.Expr:
        """Qualifies the names in a view's query that mean relations of the view's schema.

        Raises:
            NotIncremental: the schema could change the meaning of other names, too.
        """
        schema = view.path[-2]
        if schema == "main":
            return query
        if rows(self._cursor, _OWN, [self._database, schema]):
            raise NotIncremental("a view of a schema that has macros or types of its own")
        query = query.copy()
        known = self._relations(schema)
        taken = {fold(cte.alias) for cte in query.find_all(exp.CTE)}
        for table in _unqualified(query):
            if fold(table.name) not in known:
                continue
            if fold(table.name) in taken:
                raise NotIncremental("a view that names a query like a table of its schema")
            table.set("db", exp.to_identifier(schema, quoted=True))
            table.set("catalog", exp.to_identifier(self._database, quoted=True))
        return query

    @functools.cached_property
    def _database(self) -> str:
        return str(rows(self._cursor, "SELECT system.main.current_database()")[0][0])

    @functools.cached_property
    def _schemas(self) -> dict[int, Path]:
        return read_schemas(self._cursor, self._database)

    @functools.cached_property
    def _known(self) -> dict[Path, PlainView]:
        """Folded path → view."""
        found, tables = {}, paths(self._cursor)
        for schema, name, sql in rows(self._cursor, _VIEWS, [self._database]):
            path = (*self._schemas[schema], name)
            if path in tables:
                continue
            qualified = ".".join(map(quote, (self._database, *path)))
            found[tuple(map(fold, path))] = PlainView(path, qualified, sql)
        return found

    def _relations(self, schema: str) -> set[str]:
        """Folded names of a schema's tables and views."""
        own = {
            oid for oid, path in self._schemas.items() if tuple(map(fold, path)) == (fold(schema),)
        }
        found = rows(self._cursor, _RELATIONS, [self._database])
        return {fold(name) for oid, name in found if oid in own}


def _unqualified(query: exp.Expr) -> Iterator[exp.Table]:
    for table in query.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and not table.db:
            yield table
