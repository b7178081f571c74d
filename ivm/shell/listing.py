"""Lists the relations of the open database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ivm.database import Database
from ivm.shell.editing.completion import Column
from ivm.storage.identifiers import canonical_name, literal, quote, split_name

_RELATIONS = """
SELECT schema_name, table_name,
  table_oid IN (SELECT view_oid FROM duckdb_views() WHERE database_name = current_database()),
  list((column_name, data_type) ORDER BY column_index)
FROM duckdb_columns()
WHERE NOT internal AND schema_name <> '_ivm' AND database_name = current_database()
GROUP BY schema_name, table_name, table_oid ORDER BY schema_name <> 'main', schema_name, table_name
"""
RESERVED = """
SELECT keyword_name FROM duckdb_keywords()
WHERE keyword_category IN ('reserved', 'type_function')
"""


_MAINTAINED = "materialized view"
_IN_FILES = "table in files"


@dataclass(frozen=True)
class ListedRelation:
    """A table or view.

    Attributes:
        name: canonical.
        kind: "table", "table in files", "view", "materialized view", "unfilled view" or "broken
            view".
        columns: in their order.
    """

    name: str
    kind: str
    columns: tuple[Column, ...]


def relations(database: Database) -> Iterator[ListedRelation]:
    """Yields all tables and views, those of the schema main first."""
    kinds = {v.name: "broken view" if v.broken else _MAINTAINED for v in database.views()}
    kinds |= dict.fromkeys(database.unfilled_views(), "unfilled view")
    kinds |= {t.name: _IN_FILES for t in database.tables() if t.in_files}
    for schema, plain, is_view, columns in database.execute(_RELATIONS).fetchall():
        name = canonical_name((schema, plain))
        kind = kinds.get(name, "view" if is_view else "table")
        yield ListedRelation(name, kind, _as_columns(columns))


Listing = dict[str, tuple[Column, ...]]


def listed(database: Database) -> tuple[Listing, Listing]:
    """Returns the columns of tables (and plain views), and of materialized views, by name.

    Inside a transaction no query is run for it: one would leave the transaction's fast path, and
    be refused if the transaction was rolled back.
    """
    views = {v.name: _as_columns(v.columns) for v in database.views()}
    if database.in_transaction or database.aborted:
        return {t.name: _as_columns(t.columns) for t in database.tables()}, views
    tables = {r.name: r.columns for r in relations(database) if r.name not in views}
    return tables, views


def _as_columns(columns: Iterable[tuple[str, str]]) -> tuple[Column, ...]:
    return tuple(Column(name, data_type) for name, data_type in columns)


def tables_query(found: Iterable[ListedRelation]) -> str | None:
    """Returns a query that lists relations, if any, with their row counts.

    NULL for plain views, which may be long queries, tables in files, and broken views.
    """
    return " UNION ALL ".join(_table_row(relation) for relation in found) or None


def _table_row(relation: ListedRelation) -> str:
    counted = relation.kind in ("table", _MAINTAINED)
    rows = f"(SELECT count(*) FROM {named(relation.name)})" if counted else "NULL"
    columns = ", ".join(column.name for column in relation.columns)
    return (
        f"SELECT {literal(relation.name)} AS name, {literal(relation.kind)} AS kind, "
        f"{rows} AS rows, {literal(columns)} AS columns"
    )


def named(text: str) -> str:
    """Writes a typed name as SQL; its quotes may be missing, also in `my view`."""
    return ".".join(map(quote, split_name(text)))
