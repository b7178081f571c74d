"""The tables of PostgreSQL's catalog, made of what DuckDB and the engine tell of the database.

Law: an OID is a UINTEGER, and nothing else is. They are DuckDB's own numbers; those of temporary
things are above them, and those of constraints above all. `_ivm` is not in the catalog, nor what
only another session sees; materialized views are relations of kind "m".
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from ivm.serve.pg.values import types
from ivm.serve.pg.values.types import pg_type
from ivm.session.session import Session
from ivm.storage.identifiers import fold, written_name
from ivm.storage.warehouse.duckdb.duck import Cursor, roll_back, rows, run

OWNER = 10
CATALOG, INFORMATION = 11, 13_000
TEMPORARY = "temp"
"""The schema of temporary things; statements find them by this name, too."""
_TEMPORARY = 1 << 22
_CONSTRAINTS = 1 << 24
_PER_TABLE = 256
_MINE = f"database_name IN (current_database(), '{TEMPORARY}') AND schema_name <> '_ivm'"
_ON = re.compile(r"( ON [^(]+?)\s*\(")

Facts = dict[str, pa.Table]

_RELATIONS = {
    "oid": pa.uint32(),
    "name": pa.string(),
    "schema": pa.uint32(),
    "kind": pa.string(),
    "columns": pa.int32(),
    "rows": pa.float32(),
    "comment": pa.string(),
    "definition": pa.string(),
    "has_index": pa.bool_(),
    "checks": pa.int32(),
    "temporary": pa.bool_(),
}
_COLUMNS = {
    "relation": pa.uint32(),
    "name": pa.string(),
    "number": pa.int32(),
    "type": pa.uint32(),
    "size": pa.int32(),
    "modifier": pa.int32(),
    "not_null": pa.bool_(),
    "default_sql": pa.string(),
    "generated": pa.string(),
    "comment": pa.string(),
    "duckdb": pa.string(),
}
_KEYS = {
    "oid": pa.uint32(),
    "name": pa.string(),
    "schema": pa.uint32(),
    "relation": pa.uint32(),
    "kind": pa.string(),
    "numbers": pa.list_(pa.int32()),
    "text": pa.string(),
    "other": pa.uint32(),
    "others": pa.list_(pa.int32()),
}
_INDEXES = {
    "oid": pa.uint32(),
    "name": pa.string(),
    "schema": pa.uint32(),
    "relation": pa.uint32(),
    "is_unique": pa.bool_(),
    "is_primary": pa.bool_(),
    "numbers": pa.list_(pa.int32()),
    "text": pa.string(),
}
_SCHEMAS = {"oid": pa.uint32(), "name": pa.string()}
_KINDS = {"PRIMARY KEY": "p", "UNIQUE": "u", "FOREIGN KEY": "f", "CHECK": "c"}


def facts_of(session: Session) -> Facts:
    """What there is for a session, of one moment: as of the last commit, or as it alone sees it."""
    views = {view.name: view.written for view in session.views}
    if not session.sees_more():
        with contextlib.closing(session.engine.warehouse.cursor()) as cursor, _moment(cursor):
            return _facts(cursor, views)
    session.release()
    transaction = session.transaction
    if transaction is not None and transaction.idle_cursor is None:
        return _facts(session.cursor, views)
    with _moment(session.cursor):
        return _facts(session.cursor, views)


@contextlib.contextmanager
def _moment(cursor: Cursor) -> Iterator[None]:
    """Lets all statements of the block see what the first one sees."""
    run(cursor, "BEGIN TRANSACTION READ ONLY")
    try:
        yield
    finally:
        roll_back(cursor)


def _facts(cursor: Cursor, views: dict[str, str]) -> Facts:
    relations = list(_relations(cursor, views))
    columns = list(_columns(cursor))
    constraints = list(_constraints(cursor, relations, columns))
    indexes = list(_indexes(cursor, relations, columns, constraints))
    return {
        "schemas": _table(_SCHEMAS, _schemas(cursor, relations)),
        "relations": _table(_RELATIONS, relations),
        "columns": _table(_COLUMNS, columns),
        "constraints": _table(_KEYS, constraints),
        "indexes": _table(_INDEXES, indexes),
        "pg_types": _types(),
    }


def _oid(column: str) -> str:
    """SQL of an OID: each of DuckDB's two databases numbers its entries anew."""
    return f"{column} + CASE database_name WHEN '{TEMPORARY}' THEN {_TEMPORARY} ELSE 0 END"


def _schemas(cursor: Cursor, relations: Sequence[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """The schemas, that of temporary things only where there are some."""
    yield CATALOG, "pg_catalog"
    yield INFORMATION, "information_schema"
    sql = (
        f"SELECT {_oid('oid')}, schema_name, database_name FROM system.main.duckdb_schemas() WHERE "
        f"{_MINE} AND schema_name NOT IN ('pg_catalog', 'information_schema')"
    )
    used = {relation[2] for relation in relations}
    for oid, name, database in rows(cursor, sql):
        if database != TEMPORARY:
            yield oid, name
        elif oid in used:
            yield oid, TEMPORARY


def _relations(cursor: Cursor, views: dict[str, str]) -> Iterator[Sequence[Any]]:
    sql = (
        f"SELECT {_oid('table_oid')}, table_name, {_oid('schema_oid')}, schema_name, column_count, "
        "estimated_size, comment, index_count > 0 OR has_primary_key, check_constraint_count, "
        f"temporary FROM system.main.duckdb_tables() WHERE {_MINE} AND NOT internal"
    )
    for oid, name, schema, schema_name, count, size, comment, indexed, checks, own in rows(
        cursor, sql
    ):
        query = views.get(name if schema_name == "main" else f"{schema_name}.{name}")
        kind = "r" if query is None or own else "m"
        yield oid, name, schema, kind, count, float(size or 0), comment, query, indexed, checks, own
    sql = (
        f"SELECT {_oid('view_oid')}, view_name, {_oid('schema_oid')}, column_count, comment, sql, "
        f"temporary FROM system.main.duckdb_views() WHERE {_MINE} AND NOT internal"
    )
    for oid, name, schema, count, comment, text, own in rows(cursor, sql):
        query = text[text.upper().find(" AS ") + 4 :].rstrip(";")
        yield oid, name, schema, "v", count, 0.0, comment, query, False, 0, own
    sql = (
        f"SELECT {_oid('sequence_oid')}, sequence_name, {_oid('schema_oid')}, comment, temporary "
        f"FROM system.main.duckdb_sequences() WHERE {_MINE}"
    )
    for oid, name, schema, comment, own in rows(cursor, sql):
        yield oid, name, schema, "S", 3, 1.0, comment, None, False, 0, own


def _columns(cursor: Cursor) -> Iterator[Sequence[Any]]:
    sql = (
        f"SELECT {_oid('table_oid')}, column_name, column_index, data_type, NOT is_nullable, "
        "column_default, is_generated, comment FROM system.main.duckdb_columns() "
        f"WHERE {_MINE} AND NOT internal ORDER BY 1, column_index"
    )
    for oid, name, number, duckdb, not_null, default, generated, comment in rows(cursor, sql):
        type = pg_type(duckdb)
        mark = "s" if generated else ""
        text = None if default is None else str(default)
        yield oid, name, number, *type, not_null, text, mark, comment, duckdb


def _constraints(
    cursor: Cursor, relations: Sequence[Sequence[Any]], columns: Sequence[Sequence[Any]]
) -> Iterator[Sequence[Any]]:
    by_name = {(relation[2], relation[1]): relation[0] for relation in relations}
    numbers = {(column[0], column[1]): column[2] for column in columns}
    sql = (
        f"SELECT {_oid('table_oid')}, {_oid('schema_oid')}, constraint_type, "
        "constraint_column_names, constraint_text, constraint_name, referenced_table, "
        "referenced_column_names FROM system.main.duckdb_constraints() "
        f"WHERE {_MINE} ORDER BY 1, constraint_index"
    )
    counts: dict[int, int] = {}
    for table, schema, type, names, text, name, other, other_names in rows(cursor, sql):
        if type not in _KINDS:
            continue
        counts[table] = counts.get(table, 0) + 1
        oid = _CONSTRAINTS + table * _PER_TABLE + counts[table]
        there = by_name.get((schema, other), 0)
        others = [numbers.get((there, column), 0) for column in other_names or ()]
        here = [numbers.get((table, column), 0) for column in names or ()]
        yield oid, name, schema, table, _KINDS[type], here, text, there, others


def _indexes(
    cursor: Cursor,
    relations: Sequence[Sequence[Any]],
    columns: Sequence[Sequence[Any]],
    constraints: Sequence[Sequence[Any]],
) -> Iterator[Sequence[Any]]:
    """The user's indexes, and those of keys."""
    folded = {(column[0], fold(column[1])): column[2] for column in columns}
    names = {(column[0], column[2]): column[1] for column in columns}
    sql = (
        f"SELECT {_oid('index_oid')}, index_name, {_oid('schema_oid')}, {_oid('table_oid')}, "
        "is_unique, CAST(expressions AS VARCHAR[]), sql "
        f"FROM system.main.duckdb_indexes() WHERE {_MINE}"
    )
    for oid, name, schema, table, unique, keys, text in rows(cursor, sql):
        found = [folded.get((table, written_name(key) or ""), 0) for key in keys]
        yield (
            oid,
            name,
            schema,
            table,
            unique,
            False,
            found,
            _ON.sub(r"\1 USING btree (", str(text).rstrip(";"), 1),
        )
    tables = {oid: name for oid, name, *_ in relations}
    for oid, name, schema, table, kind, found, _, _, _ in constraints:
        if kind in "pu":
            listed = ", ".join(names.get((table, number), "?") for number in found)
            text = f"CREATE UNIQUE INDEX {name} ON {tables.get(table, '?')} USING btree ({listed})"
            yield oid, name, schema, table, True, kind == "p", found, text


_NAMES = {
    types.BOOL: ("bool", "boolean", "B"),
    types.BYTEA: ("bytea", "bytea", "U"),
    types.CHAR: ("char", '"char"', "Z"),
    types.NAME: ("name", "name", "S"),
    types.INT8: ("int8", "bigint", "N"),
    types.INT2: ("int2", "smallint", "N"),
    types.INT4: ("int4", "integer", "N"),
    types.TEXT: ("text", "text", "S"),
    types.OID: ("oid", "oid", "N"),
    types.JSON: ("json", "json", "U"),
    types.FLOAT4: ("float4", "real", "N"),
    types.FLOAT8: ("float8", "double precision", "N"),
    types.UNKNOWN: ("unknown", "unknown", "X"),
    types.BPCHAR: ("bpchar", "character", "S"),
    types.VARCHAR: ("varchar", "character varying", "S"),
    types.DATE: ("date", "date", "D"),
    types.TIME: ("time", "time without time zone", "D"),
    types.TIMESTAMP: ("timestamp", "timestamp without time zone", "D"),
    types.TIMESTAMPTZ: ("timestamptz", "timestamp with time zone", "D"),
    types.INTERVAL: ("interval", "interval", "T"),
    types.TIMETZ: ("timetz", "time with time zone", "D"),
    types.VARBIT: ("varbit", "bit varying", "V"),
    types.NUMERIC: ("numeric", "numeric", "N"),
    types.UUID: ("uuid", "uuid", "U"),
    types.JSONB: ("jsonb", "jsonb", "U"),
}


def _types() -> pa.Table:
    form = {
        "oid": pa.uint32(),
        "name": pa.string(),
        "shown": pa.string(),
        "size": pa.int32(),
        "category": pa.string(),
        "element": pa.uint32(),
        "array": pa.uint32(),
    }
    found: list[Sequence[Any]] = []
    for oid, (name, shown, category) in _NAMES.items():
        array = types.ARRAYS.get(oid, 0)
        found.append((oid, name, shown, types.SIZES.get(oid, -1), category, 0, array))
        if array:
            found.append((array, f"_{name}", f"{shown}[]", -1, "A", oid, 0))
    return _table(form, found)


def _table(
    form: dict[str, pa.DataType], found: Iterator[Sequence[Any]] | Sequence[Sequence[Any]]
) -> pa.Table:
    lists = [list(cells) for cells in zip(*found, strict=True)] or [[] for _ in form]
    arrays = [pa.array(cells, type) for cells, type in zip(lists, form.values(), strict=True)]
    return pa.Table.from_arrays(arrays, list(form))
