"""What SQLAlchemy reads of a database: tables, views, columns and constraints.

Invariant: a materialized view is a materialized view here, never a table.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.engine import Connection
from sqlalchemy.exc import NoSuchTableError

from ivm.integrations.dialect_ddl import type_of
from ivm.storage.identifiers import path_of

_HERE = " AND database_name = current_database() AND schema_name = ?"


class Reflection:
    """The dialect's questions about the database; a schema of None is `main`."""

    def get_schema_names(self, connection: Connection, **kw: Any) -> list[str]:
        return _names(
            connection,
            "SELECT schema_name FROM duckdb_schemas() WHERE NOT internal AND schema_name <> '_ivm'"
            " AND database_name = current_database() UNION SELECT 'main' ORDER BY 1",
        )

    def has_schema(self, connection: Connection, schema_name: str, **kw: Any) -> bool:
        return schema_name in self.get_schema_names(connection)

    def get_table_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        text = f"SELECT table_name FROM duckdb_tables() WHERE NOT temporary{_HERE} ORDER BY 1"
        views = _materialized(connection, schema)
        return [n for n in _names(connection, text, schema or "main") if n not in views]

    def get_temp_table_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        return _names(connection, "SELECT table_name FROM duckdb_tables() WHERE temporary")

    def get_view_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        """The plain views and the materialized ones, as most tools ask for views alone."""
        text = f"SELECT view_name FROM duckdb_views() WHERE NOT internal{_HERE} ORDER BY 1"
        plain = _names(connection, text, schema or "main")
        return [*plain, *_materialized(connection, schema)]

    def get_temp_view_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        text = "SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal"
        return _names(connection, text)

    def get_materialized_view_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        return list(_materialized(connection, schema))

    def get_view_definition(
        self, connection: Connection, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        text = f"SELECT sql FROM duckdb_views() WHERE view_name = ?{_HERE}"
        found = _materialized(connection, schema).get(view_name)
        if found is None:
            for found in _names(connection, text, view_name, schema or "main"):
                return found
            raise NoSuchTableError(view_name)
        return found

    def get_sequence_names(
        self, connection: Connection, schema: str | None = None, **kw: Any
    ) -> list[str]:
        text = f"SELECT sequence_name FROM duckdb_sequences() WHERE true{_HERE}"
        return _names(connection, text, schema or "main")

    def has_sequence(
        self, connection: Connection, sequence_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        return sequence_name in self.get_sequence_names(connection, schema)

    def has_table(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        return bool(_columns(connection, table_name, schema))

    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        found = _columns(connection, table_name, schema)
        if not found:
            raise NoSuchTableError(table_name)
        return [
            {
                "name": name,
                "type": type_of(kind),
                "nullable": nullable,
                "default": default,
                "autoincrement": bool(default and default.startswith("nextval(")),
                "comment": None,
            }
            for name, kind, nullable, default in found
        ]

    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        found = _constraints(connection, "PRIMARY KEY", table_name, schema)
        return {"constrained_columns": list(found[0][1]) if found else [], "name": None}

    def get_foreign_keys(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        return [
            {
                "name": None,
                "constrained_columns": list(columns),
                "referred_schema": schema,
                "referred_table": table,
                "referred_columns": list(referred),
                "options": {},
            }
            for _, columns, table, referred, _ in _constraints(
                connection, "FOREIGN KEY", table_name, schema
            )
        ]

    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        found = _constraints(connection, "UNIQUE", table_name, schema)
        return [{"name": row[0], "column_names": list(row[1])} for row in found]

    def get_check_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        found = _constraints(connection, "CHECK", table_name, schema)
        return [{"name": row[0], "sqltext": row[4]} for row in found]

    def get_indexes(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        """The indexes on columns; those on other expressions are left out."""
        columns = {name for name, *_ in _columns(connection, table_name, schema)}
        found = _rows(
            connection,
            "SELECT index_name, is_unique, CAST(expressions AS VARCHAR[]) FROM duckdb_indexes()"
            f" WHERE table_name = ?{_HERE}",
            table_name,
            schema or "main",
        )
        return [
            {"name": name, "unique": unique, "column_names": plain}
            for name, unique, expressions in found
            if columns.issuperset(plain := [part.strip("'\"") for part in expressions])
        ]

    def get_table_comment(
        self, connection: Connection, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        return {"text": None}


def _rows(connection: Connection, sql: str, *values: object) -> list[Any]:
    return list(connection.exec_driver_sql(sql, values).fetchall())


def _names(connection: Connection, sql: str, *values: object) -> list[str]:
    return [str(name) for (name,) in _rows(connection, sql, *values)]


def _materialized(connection: Connection, schema: str | None) -> dict[str, str]:
    """The queries of a schema's materialized views by name."""
    views = connection.connection.driver_connection.views()  # type: ignore[union-attr]
    paths = {path_of(view.name): view.sql for view in views}
    return {path[-1]: sql for path, sql in paths.items() if path[-2:-1] == ((schema or "main"),)}


def _columns(connection: Connection, table: str, schema: str | None) -> list[Any]:
    return _rows(
        connection,
        "SELECT column_name, data_type, is_nullable, column_default FROM duckdb_columns()"
        " WHERE table_name = ? AND schema_name = ?"
        " AND database_name IN (current_database(), 'temp') ORDER BY column_index",
        table,
        schema or "main",
    )


def _constraints(connection: Connection, kind: str, table: str, schema: str | None) -> list[Any]:
    return _rows(
        connection,
        "SELECT constraint_name, constraint_column_names, referenced_table,"
        " referenced_column_names, expression FROM duckdb_constraints()"
        f" WHERE constraint_type = ? AND table_name = ?{_HERE} ORDER BY constraint_index",
        kind,
        table,
        schema or "main",
    )
