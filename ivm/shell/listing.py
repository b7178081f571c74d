"""Lists the relations of the open database, and the statements that made them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ivm.database import Database
from ivm.engine.clock import spelled_tick
from ivm.shell.completion import Column, quoted
from ivm.storage.errors import InputError
from ivm.storage.identifiers import canonical_name, fold, literal, quote, split_name
from ivm.storage.warehouse.system_tables import read_ticks
from ivm.storage.warehouse.view_indexes import read_view_indexes

_RELATIONS = """
SELECT schema_name, table_name,
  table_oid IN (SELECT view_oid FROM duckdb_views() WHERE database_name = current_database()),
  list((column_name, data_type) ORDER BY column_index)
FROM duckdb_columns()
WHERE NOT internal AND schema_name <> '_ivm' AND database_name = current_database()
GROUP BY schema_name, table_name, table_oid ORDER BY schema_name <> 'main', schema_name, table_name
"""
_MADE = """
SELECT kind, schema_name, name, sql FROM (
  SELECT 'schema' AS kind, oid, database_name, schema_name, internal, '' AS name, '' AS sql
    FROM duckdb_schemas() WHERE schema_name <> 'main'
  UNION ALL SELECT 'sequence', sequence_oid, database_name, schema_name, false, sequence_name, sql
    FROM duckdb_sequences()
  UNION ALL SELECT 'table', table_oid, database_name, schema_name, internal, table_name, sql
    FROM duckdb_tables()
  UNION ALL SELECT 'view', view_oid, database_name, schema_name, internal, view_name, sql
    FROM duckdb_views()
  UNION ALL SELECT 'index', index_oid, database_name, schema_name, false, index_name, sql
    FROM duckdb_indexes()
)
WHERE NOT internal AND schema_name <> '_ivm' AND database_name = current_database()
ORDER BY list_position(['schema', 'sequence', 'table', 'view', 'index'], kind), oid
"""
_GIVEN = "SELECT name, columns FROM _ivm.views AS v(name, query, columns, state, number)"
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


@dataclass(frozen=True)
class _Made:
    """The CREATE statement of a schema, sequence, table, view or index.

    Attributes:
        kind: "schema", "sequence", "table", "view" (a materialized one too) or "index".
        name: canonical; empty for a schema.
        text: the statement.
        reads: canonical names of the relations in a view's query, folded.
    """

    kind: str
    name: str
    text: str
    reads: tuple[str, ...] = ()


def statements(database: Database, name: str = "") -> Iterator[str]:
    """Yields the CREATE statements of all, in an order that can be run again, or of one relation.

    Raises:
        InputError: there is no relation of that name.
    """
    made = list(_made(database))
    if name:
        wanted = fold(canonical_name(split_name(name)[-2:]))
        found = [one for one in made if fold(one.name) == wanted]
        if not found:
            known = ", ".join(one.name for one in made if one.name) or "none yet"
            raise InputError(f"there is no table or view {name!r}; there are: {known}")
    else:
        found = list(_in_order(made))
    for one in found:
        yield one.text.rstrip().rstrip(";")


def _made(database: Database) -> Iterator[_Made]:
    queries = {view.name: view.sql for view in database.views()}
    kept = _kept_by_tables(database)
    in_files = {table.name: table.in_files for table in database.tables() if table.in_files}
    reserved = frozenset(word for (word,) in database.execute(RESERVED))
    given: dict[str, list[str]] = dict(database.execute(_GIVEN).fetchall())
    meta = database.execute("SELECT key, value FROM _ivm.meta").fetchall()
    ticks = read_ticks(meta)
    for kind, schema, plain, text in list(database.execute(_MADE)):
        name = canonical_name((schema, plain))
        written = ".".join(quoted(part, reserved) for part in split_name(name))
        if kind == "schema":
            yield _Made(kind, "", f"CREATE SCHEMA {quoted(schema, reserved)}")
        elif kind == "table" and name in queries:
            columns = f" ({_columns(given[name], reserved)})" if given[name] else ""
            tick = f" WITH (tick = '{spelled_tick(ticks[name])}')" if name in ticks else ""
            text = f"CREATE MATERIALIZED VIEW {written}{columns}{tick} AS\n{queries[name]}"
            yield _Made("view", name, text, _read_by(queries[name]))
        elif kind == "view" and name in in_files:
            yield _Made("table", name, in_files[name])
        elif kind == "sequence":  # whose name DuckDB writes without its schema and quotes
            text = f"CREATE SEQUENCE {written}{text.removeprefix(f'CREATE SEQUENCE {plain}')}"
            yield _Made(kind, name, text)
        elif kind == "table":
            yield _Made(kind, name, text.rstrip().rstrip(";") + kept.get(name, ""))
        else:
            yield _Made(kind, name, text, _read_by(text) if kind == "view" else ())
    for index in read_view_indexes(meta).values():
        view = ".".join(quoted(part, reserved) for part in split_name(index.view))
        on = f"{view}({_columns(index.columns, reserved)})"
        yield _Made("index", index.name, f"CREATE INDEX {quoted(index.name, reserved)} ON {on}")


def _columns(names: Iterable[str], reserved: frozenset[str]) -> str:
    return ", ".join([quoted(name, reserved) for name in names])


def _kept_by_tables(database: Database) -> dict[str, str]:
    """How long tables keep their rows, as WITH of CREATE TABLE; the record is made when needed."""
    is_there = "FROM duckdb_tables() WHERE (schema_name, table_name) = ('_ivm', 'retention')"
    if not database.execute(is_there).fetchall():
        return {}
    rules = database.execute('SELECT relation, retain, "column" FROM _ivm.retention').fetchall()
    return {
        name: f" WITH (retain = INTERVAL {literal(retain)}, retain_by = {quote(column)})"
        for name, retain, column in rules
    }


def _read_by(text: str) -> tuple[str, ...]:
    tree = parsed(text)
    tables = tree.find_all(exp.Table) if tree is not None else ()
    return tuple(fold(canonical_name((table.db or "main", table.name))) for table in tables)


def parsed(sql: str) -> exp.Expr | None:
    """Returns the syntax tree of a statement, None where sqlglot does not know its syntax."""
    with suppress(SqlglotError):
        return sqlglot.parse_one(sql, dialect="duckdb")
    return None


def _in_order(made: list[_Made]) -> Iterator[_Made]:
    """Yields each view after the relations that it reads."""
    relations = {fold(one.name): one for one in made if one.kind in ("table", "view")}

    def after_its_inputs(name: str) -> Iterator[_Made]:
        if (one := relations.pop(name, None)) is not None:
            for read in one.reads:
                yield from after_its_inputs(read)
            yield one

    for one in made:
        yield from after_its_inputs(fold(one.name)) if one.kind in ("table", "view") else [one]


def named(text: str) -> str:
    """Writes a typed name as SQL; its quotes may be missing, also in `my view`."""
    return ".".join(map(quote, split_name(text)))
