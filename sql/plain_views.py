"""Plain views of the user's database: where they stand, and what names mean in their texts.

Law: in the text of a view of another schema than main a name without a schema means what that
schema has (DuckDB looks at the innermost schema's name alone), and only then what main has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp

from ivm.sql.plan import NotIncremental
from ivm.storage.duck import Cursor, rows
from ivm.storage.identifiers import Path, fold, quote
from ivm.storage.table_info import read_schemas

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
        qualified: its whole path, for SQL.
        sql: its CREATE VIEW.
    """

    path: Path
    qualified: str
    sql: str


def find_view(cursor: Cursor, path: Path) -> PlainView | None:
    """The plain view at a folded path of the database, or None."""
    database = _database(cursor)
    found = [row for row in rows(cursor, _VIEWS, [database]) if fold(row[1]) == path[-1]]
    schemas = read_schemas(cursor, database) if found else {}
    for schema, name, sql in found:
        whole = (*schemas[schema], name)
        if tuple(map(fold, whole)) == path:
            return PlainView(whole, ".".join(map(quote, (database, *whole))), sql)
    return None


def in_its_schema(query: exp.Expression, view: PlainView, cursor: Cursor) -> exp.Expression:
    """The query of a view with the names that mean relations of its schema written in full.

    Raises:
        NotIncremental: the schema may give other names another meaning, too.
    """
    schema, database = view.path[-2], _database(cursor)
    if schema == "main":
        return query
    if rows(cursor, _OWN, [database, schema]):
        raise NotIncremental("a view of a schema that has macros or types of its own")
    query = query.copy()
    schemas = read_schemas(cursor, database)
    named = [oid for oid, path in schemas.items() if tuple(map(fold, path)) == (fold(schema),)]
    known = {fold(name) for oid, name in rows(cursor, _RELATIONS, [database]) if oid in named}
    taken = {fold(cte.alias) for cte in query.find_all(exp.CTE)}
    for table in _unqualified(query):
        if fold(table.name) not in known:
            continue
        if fold(table.name) in taken:
            raise NotIncremental("a view that names a query like a table of its schema")
        table.set("db", exp.to_identifier(schema, quoted=True))
        table.set("catalog", exp.to_identifier(database, quoted=True))
    return query


def _unqualified(query: exp.Expression) -> Iterator[exp.Table]:
    for table in query.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and not table.db:
            yield table


def _database(cursor: Cursor) -> str:
    return str(rows(cursor, "SELECT system.main.current_database()")[0][0])
