"""SQLAlchemy's dialect: `create_engine("ivm:///shop.duckdb")`.

Contract: SQL is PostgreSQL's as SQLAlchemy writes it, as far as DuckDB reads that; tables, views
and constraints are reflected from DuckDB's catalog. Materialized views are reflected as such. A
transaction begins at its first statement that is no query: a program that only reads holds up no
writer.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import duckdb
from sqlalchemy import Sequence, pool, text
from sqlalchemy import types as sqltypes
from sqlalchemy.dialects.postgresql.base import PGDDLCompiler, PGDialect, PGIdentifierPreparer
from sqlalchemy.engine import URL
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.interfaces import IsolationLevel
from sqlalchemy.engine.reflection import cache
from sqlalchemy.exc import NoSuchTableError

from ivm import dbapi

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
_ERRORS = {
    "ConstraintError": "IntegrityError",
    "EvaluationError": "DataError",
    "InputError": "ProgrammingError",
    "IvmError": "DatabaseError",
    "UnavailableError": "OperationalError",
    "UnsupportedError": "NotSupportedError",
}


class _DdlCompiler(PGDDLCompiler):
    """A key that counts by itself takes its values from a sequence beside the table."""

    def get_column_specification(self, column: Any, **given: Any) -> str:
        """Returns the column as PostgreSQL's, without SERIAL."""
        type = self.dialect.type_compiler_instance.process(column.type, type_expression=column)
        default = self.get_column_default_string(column)
        parts = [self.preparer.format_column(column), type]
        parts += [] if default is None else [f"DEFAULT {default}"]
        if default is None and column is column.table._autoincrement_column:
            sequence = self._sequence(column.table)
            parts += [] if sequence is None else [f"DEFAULT nextval('{sequence}')"]
        parts += [] if column.computed is None else [self.process(column.computed)]
        return " ".join([*parts, *([] if column.nullable else ["NOT NULL"])])

    def visit_create_table(self, create: Any, **given: Any) -> str:
        sequence = self._sequence(create.element)
        before = "" if sequence is None else f"CREATE SEQUENCE IF NOT EXISTS {sequence};"
        return before + str(super().visit_create_table(create, **given))  # type: ignore[no-untyped-call]

    def visit_drop_table(self, drop: Any, **given: Any) -> str:
        sequence = self._sequence(drop.element)
        after = "" if sequence is None else f";\nDROP SEQUENCE IF EXISTS {sequence}"
        return str(super().visit_drop_table(drop, **given)) + after  # type: ignore[no-untyped-call]

    def _sequence(self, table: Any) -> str | None:
        """The quoted name of the sequence of a table's key; None if it needs none of ours."""
        column = table._autoincrement_column
        if column is None or column.server_default is not None or column.default is not None:
            return None
        name = Sequence(f"{table.name}_{column.name}_seq", schema=table.schema)
        return str(self.preparer.format_sequence(name))


class _Preparer(PGIdentifierPreparer):
    """Quotes the words that DuckDB reserves."""

    def __init__(self, dialect: Any, **given: Any) -> None:
        super().__init__(dialect, **given)
        self.reserved_words = self.reserved_words | _reserved()


@functools.cache
def _reserved() -> frozenset[str]:
    query = """SELECT keyword_name FROM duckdb_keywords()
        WHERE keyword_category NOT IN ('unreserved', 'column_name')"""
    with duckdb.connect() as connection:
        return frozenset(word for (word,) in connection.execute(query).fetchall())


class IvmDialect(PGDialect):
    """The dialect; see SQLAlchemy's `Dialect` for its methods."""

    name = "ivm"
    driver = "ivm"
    default_paramstyle = "qmark"
    supports_statement_cache = True
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = False
    supports_native_uuid = True
    use_native_hstore = False
    ddl_compiler = _DdlCompiler
    preparer = _Preparer  # type: ignore[assignment]
    dbapi_exception_translation_map = _ERRORS
    colspecs = {  # noqa: RUF012 -- as SQLAlchemy declares it
        k: v for k, v in PGDialect.colspecs.items() if k is not sqltypes.JSON
    }

    # -- connections ----------------------------------------------------------------------------

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        return dbapi

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        in_memory = url.database in (None, "", ":memory:")
        return pool.StaticPool if in_memory else pool.QueuePool

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        return [url.database or ":memory:"], dict(url.query)

    def connect(self, *args: Any, **options: Any) -> Any:
        return dbapi.connect(*args, **options)

    def on_connect(self) -> None:
        return None

    def initialize(self, connection: Any) -> None:
        DefaultDialect.initialize(self, connection)

    def do_begin(self, dbapi_connection: Any) -> None:
        if not dbapi_connection.in_transaction:
            dbapi_connection.begin()

    def do_ping(self, dbapi_connection: Any) -> bool:
        return not dbapi_connection.closed

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        return False

    def get_isolation_level_values(self, dbapi_conn: Any) -> list[IsolationLevel]:
        return ["AUTOCOMMIT", "READ COMMITTED"]

    def get_isolation_level(self, dbapi_connection: Any) -> IsolationLevel:
        return "AUTOCOMMIT" if dbapi_connection.autocommit else "READ COMMITTED"

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        dbapi_connection.autocommit = level == "AUTOCOMMIT"

    def get_default_isolation_level(self, dbapi_conn: Any) -> IsolationLevel:
        return "READ COMMITTED"

    def _get_server_version_info(self, connection: Any) -> tuple[int, int]:
        return (16, 0)  # the PostgreSQL whose SQL is written

    def _get_default_schema_name(self, connection: Any) -> str:
        return str(connection.scalar(text("SELECT current_schema()")))

    # -- reflection -----------------------------------------------------------------------------

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
        prefix = "" if schema in (None, "main") else f"{schema}."
        kinds = {n: "materialized" if prefix + n in live else k for n, k in rows}
        return sorted(name for name, found in kinds.items() if found == kind)

    @staticmethod
    def _materialized(connection: Any) -> dict[str, str]:
        """The queries of the materialized views."""
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
        query = """SELECT column_name, data_type, is_nullable, column_default, comment
            FROM duckdb_columns() WHERE table_name = :name AND schema_name = :schema
            AND database_name IN (current_database(), 'temp') ORDER BY column_index"""
        values = {"name": name, "schema": schema or "main"}
        return list(connection.execute(text(query), values).all())

    @cache
    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        found = self._columns(connection, table_name, schema)
        if not found:
            raise NoSuchTableError(table_name)
        return [
            {"name": name, "type": type_of(sql), "nullable": nullable, "default": default,
             "autoincrement": False, "comment": comment}
            for name, sql, nullable, default, comment in found
        ]  # fmt: skip

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
        query = """SELECT index_name, is_unique, expressions FROM duckdb_indexes()
            WHERE table_name = :name AND schema_name = :schema ORDER BY index_name"""
        values = {"name": table_name, "schema": schema or "main"}
        columns = {row[0] for row in self._columns(connection, table_name, schema)}
        found = []
        for name, unique, listed in connection.execute(text(query), values).all():
            keys = [part.strip().strip("'\"") for part in listed.strip("[]").split(",")]
            if columns.issuperset(keys):  # an index of expressions is none of columns
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
        prefix = "" if schema in (None, "main") else f"{schema}."
        live = self._materialized(connection)
        if prefix + view_name in live:
            return live[prefix + view_name]
        query = "SELECT sql FROM duckdb_views() WHERE view_name = :name AND schema_name = :schema"
        values = {"name": view_name, "schema": schema or "main"}
        found = connection.scalar(text(query), values)
        if found is None:
            raise NoSuchTableError(view_name)
        return str(found)


def type_of(sql: str) -> Any:
    """SQLAlchemy's type for one of DuckDB's; lists, structs and the like have none."""
    if sql in _TYPES:
        return _TYPES[sql]()
    if decimal := _DECIMAL.fullmatch(sql):
        return sqltypes.NUMERIC(int(decimal[1]), int(decimal[2]))
    if sql.startswith("ENUM("):
        return sqltypes.VARCHAR()
    return sqltypes.NullType()
