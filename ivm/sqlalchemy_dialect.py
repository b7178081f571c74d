"""SQLAlchemy's dialect: `create_engine("ivm:///shop.duckdb")`.

Contract: SQL is PostgreSQL's as SQLAlchemy writes it, as far as DuckDB reads that; tables, views
and constraints are reflected from DuckDB's catalog. Materialized views are reflected as such. A
transaction begins at its first statement that is no query: a program that only reads holds up no
writer.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import duckdb
from sqlalchemy import pool, text
from sqlalchemy import types as sqltypes
from sqlalchemy.dialects.postgresql.base import PGDDLCompiler, PGIdentifierPreparer
from sqlalchemy.engine import URL
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.interfaces import IsolationLevel
from sqlalchemy.exc import ArgumentError

from ivm import dbapi
from ivm.sqlalchemy_reflection import Reflection, counting, own_sequence

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
        if column is column.table._autoincrement_column:
            sequence = self._sequence(column.table)
            default = default if sequence is None else counting(sequence)
        parts += [] if default is None else [f"DEFAULT {default}"]
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
        if column is None or column.default is not None:
            return None
        sequence = own_sequence(self.preparer, table.name, column.name, table.schema)
        default = self.get_column_default_string(column)
        return sequence if default in (None, counting(sequence)) else None  # reflected ones have it


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


class IvmDialect(Reflection):
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
        k: v for k, v in Reflection.colspecs.items() if k is not sqltypes.JSON
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
        if url.host or url.username or url.port is not None:  # in memory, all would be lost
            shown = url.set(query={}).render_as_string()
            raise ArgumentError(
                f"{shown} names a host, and a file has three slashes before its path, or four if "
                "the path begins with one: ivm:///shop.duckdb. What `ivm serve` serves is opened "
                "by ivm.connect, or by PostgreSQL's dialect on its --pg port"
            )
        given = {name: str(value) for name, value in url.query.items()}
        options = {n: int(value) if value.isdigit() else value for n, value in given.items()}
        return [url.database or ":memory:"], options

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
