"""The dialect of SQLAlchemy for `ivm:///shop.duckdb`: PostgreSQL's SQL with DuckDB's types.

Contract: the connections of all pools of a process share the one open database of their file; each
has a transaction of its own.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import duckdb
from sqlalchemy import pool, types
from sqlalchemy.dialects.postgresql import INTERVAL
from sqlalchemy.dialects.postgresql.base import PGCompiler, PGIdentifierPreparer
from sqlalchemy.engine import URL, Connection
from sqlalchemy.engine.default import DefaultDialect

from ivm.integrations import dbapi
from ivm.integrations.dialect_ddl import DdlCompiler, TypeCompiler
from ivm.integrations.reflection import Reflection


def _reserved() -> set[str]:
    """DuckDB's words that are no names unless quoted."""
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
        )
        return {word for (word,) in found.fetchall()}


class _Preparer(PGIdentifierPreparer):
    """Quotes what DuckDB needs quoted."""

    reserved_words = _reserved()


class IvmDialect(Reflection, DefaultDialect):
    """Registered with SQLAlchemy by the entry point `ivm`."""

    name = driver = "ivm"
    default_paramstyle = "qmark"
    statement_compiler = PGCompiler
    ddl_compiler = DdlCompiler
    type_compiler_cls = TypeCompiler
    preparer = _Preparer
    colspecs = {types.Interval: INTERVAL}  # noqa: RUF012 -- SQLAlchemy has it so
    _backslash_escapes = False  # PGCompiler asks for it
    delete_returning = insert_returning = update_returning = True
    postfetch_lastrowid = False
    supports_alter = False  # foreign keys stand in CREATE TABLE
    supports_default_metavalue = supports_default_values = True
    supports_multivalues_insert = True
    supports_native_boolean = supports_native_decimal = supports_native_uuid = True
    supports_sequences = True
    supports_statement_cache = True
    use_insertmanyvalues = True
    dbapi_exception_translation_map = {  # noqa: RUF012 -- SQLAlchemy has it so
        "ConstraintError": "IntegrityError",
        "EvaluationError": "DataError",
        "InternalError": "InternalError",
        "SqlError": "ProgrammingError",
        "UnavailableError": "OperationalError",
        "UnsupportedError": "NotSupportedError",
        "IvmError": "DatabaseError",
    }

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        return dbapi

    @classmethod
    def get_pool_class(cls, url: URL) -> type[pool.Pool]:
        """A database in memory is that of one connection, so all share it."""
        return pool.StaticPool if url.database in (None, "", ":memory:") else pool.QueuePool

    def create_connect_args(self, url: URL) -> tuple[list[str], dict[str, Any]]:
        options: dict[str, Any] = dict(url.query)
        for number in ("memory_limit", "threads"):
            if number in options:
                options[number] = int(options[number])
        return [url.database or ":memory:"], options

    def _get_server_version_info(self, connection: Connection) -> tuple[int, ...]:
        return (2, 0)

    def _get_default_schema_name(self, connection: Connection) -> str:
        return "main"

    def get_isolation_level_values(self, dbapi_conn: Any) -> list[Any]:
        return ["AUTOCOMMIT", "SNAPSHOT"]

    def get_default_isolation_level(self, dbapi_conn: Any) -> Any:
        return "SNAPSHOT"

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        return "AUTOCOMMIT" if dbapi_connection.autocommit else "SNAPSHOT"

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        dbapi_connection.autocommit = level == "AUTOCOMMIT"

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        return isinstance(e, dbapi.OperationalError) and "closed" in str(e)
