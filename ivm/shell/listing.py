"""What the open database holds, as the shell lists and completes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ivm.database import Database
from ivm.shell.completion import Column
from ivm.storage.errors import InputError
from ivm.storage.identifiers import literal, quote

_COLUMNS = """
SELECT schema_name, table_name, column_name, data_type
FROM duckdb_columns()
WHERE NOT internal AND schema_name <> '_ivm' AND database_name = current_database()
ORDER BY schema_name <> 'main', schema_name, table_name, column_index
"""
_TEXTS = """
SELECT schema_name, name, sql FROM (
  SELECT 0 AS rank, oid, database_name, schema_name, internal, '' AS name,
    'CREATE SCHEMA ' || schema_name AS sql FROM duckdb_schemas() WHERE schema_name <> 'main'
  UNION ALL SELECT 1, sequence_oid, database_name, schema_name, false, sequence_name, sql
    FROM duckdb_sequences()
  UNION ALL SELECT 2, table_oid, database_name, schema_name, internal, table_name, sql
    FROM duckdb_tables()
  UNION ALL SELECT 2, view_oid, database_name, schema_name, internal, view_name, sql
    FROM duckdb_views()
  UNION ALL SELECT 3, index_oid, database_name, schema_name, false, index_name, sql
    FROM duckdb_indexes()
)
WHERE NOT internal AND schema_name <> '_ivm' AND database_name = current_database()
ORDER BY rank, oid
"""
_PLAIN_VIEWS = """
SELECT schema_name, view_name FROM duckdb_views()
WHERE NOT internal AND database_name = current_database()
"""


@dataclass(frozen=True)
class ListedRelation:
    """A table or view.

    Attributes:
        name: `name`, or `schema.name` outside the schema main.
        parts: schema and name.
        kind: "table", "view" or "materialized view".
        columns: in their order.
    """

    name: str
    parts: tuple[str, str]
    kind: str
    columns: tuple[Column, ...]


def relations(database: Database) -> list[ListedRelation]:
    """Everything that can be read by its name, the user's own schema first."""
    materialized = {view.name.lower() for view in database.views()}
    plain = {tuple(row) for row in database.execute(_PLAIN_VIEWS)}
    found: dict[tuple[str, str], list[Column]] = {}
    for schema, name, column, data_type in database.execute(_COLUMNS):
        found.setdefault((schema, name), []).append(Column(column, data_type))
    return [
        ListedRelation(canonical(parts), parts, _kind(parts, materialized, plain), tuple(columns))
        for parts, columns in found.items()
    ]


Listing = dict[str, tuple[Column, ...]]


def listed(database: Database) -> tuple[Listing, Listing]:
    """Columns of tables (and plain views), and of materialized views, by name.

    Inside a transaction no query is run for it: one would leave the transaction's fast path, and
    be refused if the transaction was rolled back.
    """
    views = {v.name: _as_columns(v.columns) for v in database.views()}
    if database.in_transaction or database.aborted:
        return {t.name: _as_columns(t.columns) for t in database.tables()}, views
    tables = {r.name: r.columns for r in relations(database) if r.kind != "materialized view"}
    return tables, views


def _as_columns(columns: tuple[tuple[str, str], ...]) -> tuple[Column, ...]:
    return tuple(Column(name, data_type) for name, data_type in columns)


def _kind(parts: tuple[str, str], materialized: set[str], plain: set[tuple[str, ...]]) -> str:
    if canonical(parts).lower() in materialized:
        return "materialized view"
    return "view" if parts in plain else "table"


def canonical(parts: tuple[str, str]) -> str:
    """`name` in the schema main, else `schema.name`."""
    schema, name = parts
    return name if schema == "main" else f"{schema}.{name}"


def tables_query(found: list[ListedRelation]) -> str | None:
    """A query that lists relations, if any, with their rows counted (those of plain views not)."""
    return " UNION ALL ".join(_table_row(relation) for relation in found) or None


def _table_row(relation: ListedRelation) -> str:
    quoted = ".".join(map(quote, relation.parts))
    rows = "NULL" if relation.kind == "view" else f"(SELECT count(*) FROM {quoted})"
    columns = ", ".join(column.name for column in relation.columns)
    return (
        f"SELECT {literal(relation.name)} AS name, {literal(relation.kind)} AS kind, "
        f"{rows} AS rows, {literal(columns)} AS columns"
    )


def statements(database: Database, name: str = "") -> Iterator[str]:
    """The CREATE statements of all that was made, in an order that can be run again, or of one.

    Raises:
        InputError: there is no relation of that name.
    """
    queries = {view.name.lower(): view for view in database.views()}
    wanted = name.lower().removeprefix("main.").replace('"', "")
    rows = list(database.execute(_TEXTS))
    if wanted and wanted not in {canonical(row[:2]).lower() for row in rows}:
        known = ", ".join(canonical(row[:2]) for row in rows) or "none yet"
        raise InputError(f"there is no table or view {name!r}; there are: {known}")
    for *parts, text in rows:
        relation = canonical((parts[0], parts[1]))
        view = queries.get(relation.lower())
        if wanted in ("", relation.lower()):
            made = f"CREATE MATERIALIZED VIEW {relation} AS\n{view.sql}" if view else text
            yield made.rstrip().rstrip(";")


def named(text: str) -> str:
    """A name as the user typed it, fit for a statement: `my view` is quoted, `"x".y` is not."""
    return text if '"' in text or text.replace(".", "").replace("_", "").isalnum() else quote(text)
