"""What SQLAlchemy asks of tables, views and constraints, answered from DuckDB's catalog.

Law: what is reflected makes the same tables again; materialized views are told from plain ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlalchemy import Sequence, text
from sqlalchemy import types as sqltypes
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.reflection import cache
from sqlalchemy.exc import NoSuchTableError

from ivm.storage.identifiers import canonical_name, fold, literal, written_name

_TYPES: dict[str, Callable[[], Any]] = {
    "BOOLEAN": sqltypes.BOOLEAN, "TINYINT": sqltypes.SMALLINT, "SMALLINT": sqltypes.SMALLINT,
    "INTEGER": sqltypes.INTEGER, "BIGINT": sqltypes.BIGINT, "UTINYINT": sqltypes.SMALLINT,
    "USMALLINT": sqltypes.INTEGER, "UINTEGER": sqltypes.BIGINT, "UBIGINT": sqltypes.BIGINT,
    "HUGEINT": sqltypes.BIGINT, "UHUGEINT": sqltypes.BIGINT, "FLOAT": sqltypes.FLOAT,
    "DOUBLE": sqltypes.DOUBLE, "VARCHAR": sqltypes.VARCHAR, "BLOB": sqltypes.LargeBinary,
    "DATE": sqltypes.DATE, "TIME": sqltypes.TIME, "TIMESTAMP": sqltypes.TIMESTAMP,
    "TIMESTAMP_S": sqltypes.TIMESTAMP, "TIMESTAMP_MS": sqltypes.TIMESTAMP,
    "TIMESTAMP_NS": sqltypes.TIMESTAMP, "INTERVAL": sqltypes.Interval, "UUID": sqltypes.UUID,
    "JSON": sqltypes.JSON, "TIMESTAMP WITH TIME ZONE": lambda: sqltypes.TIMESTAMP(timezone=True),
    "TIME WITH TIME ZONE": lambda: sqltypes.TIME(timezone=True),
}  # fmt: skip
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_RELATIONS = """
SELECT table_name, 'table' AS kind FROM duckdb_tables()
WHERE NOT internal AND schema_name = :schema AND database_name = current_database()
UNION ALL
SELECT view_name, 'view' FROM duckdb_views()
WHERE NOT internal AND schema_name = :schema AND database_name = current_database()
"""
_CONSTRAINTS = """
SELECT constraint_column_names, constraint_name, expression, referenced_table,
    referenced_column_names
FROM duckdb_constraints()
WHERE schema_name = :schema AND table_name = :name AND constraint_type = :kind
    AND database_name = current_database()
ORDER BY constraint_index
"""


class Reflection(PGDialect):
    """The part of the dialect that reflects; see SQLAlchemy's `Dialect` for its methods."""

    get_multi_columns = DefaultDialect.get_multi_columns  # type: ignore[assignment]
    get_multi_pk_constraint = DefaultDialect.get_multi_pk_constraint  # type: ignore[assignment]
    get_multi_foreign_keys = DefaultDialect.get_multi_foreign_keys  # type: ignore[assignment]
    get_multi_indexes = DefaultDialect.get_multi_indexes  # type: ignore[assignment]
    get_multi_unique_constraints = DefaultDialect.get_multi_unique_constraints  # type: ignore[assignment]
    get_multi_check_constraints = DefaultDialect.get_multi_check_constraints  # type: ignore[assignment]
    get_multi_table_comment = DefaultDialect.get_multi_table_comment  # type: ignore[assignment]
    get_multi_table_options = DefaultDialect.get_multi_table_options  # type: ignore[assignment]

    @cache
    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        query = """SELECT schema_name FROM duckdb_schemas()
            WHERE NOT internal AND database_name = current_database() ORDER BY schema_name"""
        found = connection.scalars(text(query)).all()
        return sorted({"main", *found} - {"_ivm"})

    def _names(self, connection: Any, schema: str | None, kind: str) -> list[str]:
        live = set(self._materialized(connection))
        rows = connection.execute(text(_RELATIONS), {"schema": schema or "main"}).all()
        kinds = {n: "materialized" if _canonical(n, schema) in live else k for n, k in rows}
        return sorted(name for name, found in kinds.items() if found == kind)

    @staticmethod
    def _materialized(connection: Any) -> dict[str, str]:
        """The queries of the materialized views, by their canonical names."""
        views = connection.connection.dbapi_connection.database.views()
        return {view.name: view.sql for view in views}

    @cache
    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        return self._names(connection, schema, "table")

    @cache
    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        return self._names(connection, schema, "view")

    @cache
    def get_materialized_view_names(
        self, connection: Any, schema: str | None = None, **kw: Any
    ) -> list[str]:
        return self._names(connection, schema, "materialized")

    @cache
    def get_temp_table_names(
        self, connection: Any, schema: str | None = None, **kw: Any
    ) -> list[str]:
        query = "SELECT table_name FROM duckdb_tables() WHERE temporary ORDER BY table_name"
        return list(connection.scalars(text(query)).all())

    @cache
    def get_temp_view_names(
        self, connection: Any, schema: str | None = None, **kw: Any
    ) -> list[str]:
        query = "SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal ORDER BY 1"
        return list(connection.scalars(text(query)).all())

    @cache
    def get_sequence_names(
        self, connection: Any, schema: str | None = None, **kw: Any
    ) -> list[str]:
        query = (
            "SELECT sequence_name FROM duckdb_sequences() WHERE schema_name = :schema ORDER BY 1"
        )
        return list(connection.scalars(text(query), {"schema": schema or "main"}).all())

    @cache
    def has_sequence(
        self, connection: Any, sequence_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        return sequence_name in self.get_sequence_names(connection, schema, **kw)

    @cache
    def has_schema(  # type: ignore[override]
        self, connection: Any, schema_name: str, **kw: Any
    ) -> bool:
        return schema_name in self.get_schema_names(connection, **kw)

    @cache
    def has_table(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        return bool(self._columns(connection, table_name, schema))

    @staticmethod
    def _columns(connection: Any, name: str, schema: str | None) -> list[Any]:
        query = """SELECT column_name, data_type, is_nullable, column_default, comment,
            generation_expression
            FROM duckdb_columns() WHERE table_name = :name AND schema_name = :schema
            AND database_name IN (current_database(), 'temp')
            QUALIFY (database_name = 'temp') = max(database_name = 'temp') OVER ()
            ORDER BY column_index"""  # a temporary table hides another one
        values = {"name": name, "schema": schema or "main"}
        return list(connection.execute(text(query), values).all())

    @cache
    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        found = self._columns(connection, table_name, schema)
        if not found:
            raise NoSuchTableError(table_name)
        return [self._column(table_name, schema, *row) for row in found]

    def _column(
        self, table: str, schema: str | None, name: str, sql: str, nullable: bool,
        default: str | None, comment: str | None, generated: str | None,
    ) -> dict[str, Any]:  # fmt: skip
        counts = default == counting(own_sequence(self.identifier_preparer, table, name, schema))
        column = {"name": name, "type": type_of(sql), "nullable": nullable, "comment": comment,
                  "default": None if generated else default, "autoincrement": counts}  # fmt: skip
        return column | ({"computed": {"sqltext": generated}} if generated else {})

    def _constraints(self, connection: Any, name: str, schema: str | None, kind: str) -> list[Any]:
        values = {"name": name, "schema": schema or "main", "kind": kind}
        return list(connection.execute(text(_CONSTRAINTS), values).all())

    @cache
    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        for columns, name, *_ in self._constraints(connection, table_name, schema, "PRIMARY KEY"):
            return {"constrained_columns": columns, "name": name}
        return {"constrained_columns": [], "name": None}

    @cache
    def get_unique_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        found = self._constraints(connection, table_name, schema, "UNIQUE")
        return [{"name": name, "column_names": columns} for columns, name, *_ in found]

    @cache
    def get_check_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        found = self._constraints(connection, table_name, schema, "CHECK")
        return [{"name": name, "sqltext": check} for _, name, check, *_ in found]

    @cache
    def get_foreign_keys(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        found = self._constraints(connection, table_name, schema, "FOREIGN KEY")
        return [
            {"name": name, "constrained_columns": columns, "referred_schema": schema,
             "referred_table": other, "referred_columns": others}
            for columns, name, _, other, others in found
        ]  # fmt: skip

    @cache
    def get_indexes(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        query = """SELECT index_name, is_unique, CAST(expressions AS VARCHAR[])
            FROM duckdb_indexes() WHERE table_name = :name AND schema_name = :schema
            AND database_name = current_database() ORDER BY index_name"""
        values = {"name": table_name, "schema": schema or "main"}
        columns = {fold(row[0]): row[0] for row in self._columns(connection, table_name, schema)}
        found = []
        for name, unique, listed in connection.execute(text(query), values).all():
            keys = [columns.get(written_name(key) or "") for key in listed]
            if None not in keys:  # an index of expressions is none of columns
                found.append({"name": name, "unique": unique, "column_names": keys})
        return found

    @cache
    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        query = """SELECT comment FROM duckdb_tables()
            WHERE table_name = :name AND schema_name = :schema"""
        values = {"name": table_name, "schema": schema or "main"}
        return {"text": connection.scalar(text(query), values)}

    @cache
    def get_table_options(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        return {}

    @cache
    def get_view_definition(
        self, connection: Any, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        live, name = self._materialized(connection), _canonical(view_name, schema)
        if name in live:
            return live[name]
        query = "SELECT sql FROM duckdb_views() WHERE view_name = :name AND schema_name = :schema"
        values = {"name": view_name, "schema": schema or "main"}
        found = connection.scalar(text(query), values)
        if found is None:
            raise NoSuchTableError(view_name)
        return str(found)


def own_sequence(preparer: Any, table: str, column: str, schema: str | None) -> str:
    """The quoted name of the sequence from which a key that counts by itself takes its values."""
    return str(preparer.format_sequence(Sequence(f"{table}_{column}_seq", schema=schema)))


def counting(sequence: str) -> str:
    """The default of such a key."""
    return f"nextval({literal(sequence)})"


def _canonical(name: str, schema: str | None) -> str:
    return canonical_name((schema or "main", name))


def type_of(sql: str) -> Any:
    """SQLAlchemy's type for one of DuckDB's; lists, structs and the like have none."""
    if sql in _TYPES:
        return _TYPES[sql]()
    if decimal := _DECIMAL.fullmatch(sql):
        return sqltypes.NUMERIC(int(decimal[1]), int(decimal[2]))
    if sql.startswith("ENUM("):
        return sqltypes.VARCHAR()
    return sqltypes.NullType()
