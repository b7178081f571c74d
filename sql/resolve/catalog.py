"""The interface through which the binder reads the user's relations.

Invariant: a relation has one canonical name, which is also its SQL spelling (quoted where needed),
so that equal scans of one table are one node in whatever spelling the table was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ivm.sql.plan.nodes import Plan
from ivm.storage.identifiers import Path, fold, quote
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, rows


class RelationCatalog(Protocol):
    """The relations that a view may read: base tables and materialized views."""

    def resolve(self, parts: Sequence[str]) -> str | None:
        """Returns the canonical name of a relation.

        Args:
            parts: the name as written, unquoted, with its schemas and database if any.

        Returns:
            The name that the other methods take; None if it is no base table and no materialized
            view (then the binder looks for a plain DuckDB view).
        """

    def path(self, parts: Sequence[str]) -> Path | None:
        """The folded schemas and name that a name as written means; None in another database."""

    def schema(self, name: str) -> Schema | None:
        """Columns of the relation with that canonical name, in the order of the table."""

    def view_plan(self, name: str) -> Plan | None:
        """The rewritten plan of a materialized view; None for tables and recomputed views."""

    def primary_key(self, name: str) -> tuple[str, ...]:
        """Column names of the primary key, () without one."""


class DuckCatalog:
    """The tables of a DuckDB database, without views; the reference implementation.

    Args:
        cursor: sees the tables.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

    def resolve(self, parts: Sequence[str]) -> str | None:
        condition = "system.main.lower(table_name) = system.main.lower(?)"
        condition += (
            " AND system.main.lower(schema_name) = system.main.lower(?)" if len(parts) > 1 else ""
        )
        condition += (
            " AND system.main.lower(database_name) = system.main.lower(?)" if len(parts) > 2 else ""
        )
        found = rows(
            self._cursor,
            "SELECT schema_name, table_name FROM system.main.duckdb_tables()"
            f" WHERE database_name = system.main.current_database() AND {condition}"
            " ORDER BY schema_name = system.main.current_schema() DESC",
            list(reversed(parts)),
        )
        return f"{quote(found[0][0])}.{quote(found[0][1])}" if found else None

    def path(self, parts: Sequence[str]) -> Path | None:
        folded = tuple([fold(part) for part in parts[-2:]])
        return ("main", *folded) if len(folded) == 1 else folded

    def schema(self, name: str) -> Schema | None:
        return describe(self._cursor, f"FROM {name}")

    def view_plan(self, name: str) -> Plan | None:
        return None

    def primary_key(self, name: str) -> tuple[str, ...]:
        found = rows(
            self._cursor,
            "SELECT constraint_column_names FROM system.main.duckdb_constraints()"
            " WHERE constraint_type = 'PRIMARY KEY'"
            ' AND system.main.format(\'"{}"."{}"\', schema_name, table_name) = ?',
            [name],
        )
        return tuple(found[0][0]) if found else ()
