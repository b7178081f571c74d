"""What PostgreSQL's catalog says of the tables of a source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ivm.cdc.sources.postgres.server import ask
from ivm.cdc.sources.postgres.table_names import TableName
from ivm.cdc.sources.postgres.types import TYPES_QUERY, PostgresType, Reading, reading
from ivm.cdc.sources.source import SourceError
from ivm.storage.identifiers import fold, quote

_TABLES = """
    SELECT c.oid::bigint, c.relkind::text, c.reltuples, c.relreplident::text,
        ARRAY(SELECT a.attname::text FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(n, at)
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.n
            WHERE i.indrelid = c.oid AND CASE c.relreplident::text
                WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
            ORDER BY k.at)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')
"""
_COLUMNS = """
    SELECT a.attname::text, a.atttypid::bigint, a.atttypmod, a.attnotnull,
        (SELECT (m.attmissingval::text::text[])[1] FROM pg_attribute m
            WHERE m.attname = a.attname AND m.atthasmissing AND (m.attrelid = a.attrelid
                OR m.attrelid IN (SELECT relid FROM pg_partition_tree(a.attrelid)))
            LIMIT 1)
    FROM pg_attribute a
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    ORDER BY a.attnum
"""


@dataclass(frozen=True)
class Column:
    """A column of an upstream table.

    Attributes:
        name: as PostgreSQL stores it.
        reading: how its values are read.
        nullable: it may be NULL.
        before: the text of the value that rows have which are older than the column, and of which
            the stream does not tell; None if that is NULL.
    """

    name: str
    reading: Reading
    nullable: bool
    before: str | None


@dataclass(frozen=True)
class Table:
    """An upstream table.

    Attributes:
        oid: tells it from a table that had its name before.
        name: of the table.
        columns: those that are published, in order.
        key: its primary key, or its replica identity where that is an index; empty if it has none.
        is_full: its replica identity is the whole row.
        is_partitioned: its rows are those of its partitions.
        rows: how many it has, about.
    """

    oid: int
    name: TableName
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    is_full: bool
    is_partitioned: bool
    rows: int

    @property
    def source(self) -> str:
        """What to read its rows from, in PostgreSQL's SQL; tables that inherit are others."""
        return self.name.sql if self.is_partitioned else f"ONLY {self.name.sql}"


def load_types(connection: Any) -> dict[int, PostgresType]:
    """The types of the database, by oid."""
    return {row[0]: PostgresType(*row) for row in ask(connection, TYPES_QUERY)}


def load_table(connection: Any, types: Mapping[int, PostgresType], name: TableName) -> Table:
    """A table as it is now.

    Raises:
        SourceError: there is none, or its updates cannot be followed.
    """
    found = ask(connection, _TABLES, name)
    if not found:
        raise SourceError(
            f"PostgreSQL has no table {name.sql} that can be published (views and foreign tables "
            "cannot); names without quotes are in lower case, as there"
        )
    oid, kind, rows, identity, key = found[0]
    if identity == "n" or (identity in "di" and not key):
        raise SourceError(
            f"the updates and deletes of PostgreSQL's table {name.sql} do not tell which row they "
            f"change: its replica identity is {'NOTHING' if identity == 'n' else 'DEFAULT'}"
            f"{' without a primary key' if identity == 'd' else ''}. Run in PostgreSQL: "
            f"ALTER TABLE {name.sql} REPLICA IDENTITY FULL, or give it a primary key and "
            "REPLICA IDENTITY DEFAULT"
        )
    columns = [
        Column(label, reading(types, kind, modifier), not required, before)
        for label, kind, modifier, required, before in ask(connection, _COLUMNS, [oid])
    ]
    _demand_apart(name, columns)
    whole, partitioned = identity == "f", kind == "p"
    return Table(oid, name, tuple(columns), tuple(key), whole, partitioned, max(int(rows), 0))


def _demand_apart(table: TableName, columns: Iterable[Column]) -> None:
    """Raises SourceError if two columns would be one here."""
    known: dict[str, str] = {}
    for column in columns:
        other = known.setdefault(fold(column.name), column.name)
        if other != column.name:
            raise SourceError(
                f"the columns {quote(other)} and {quote(column.name)} of PostgreSQL's table "
                f"{table.sql} would be one column here. Run in PostgreSQL: ALTER TABLE {table.sql} "
                f"RENAME COLUMN {quote(column.name)} TO …; then RESUME SOURCE"
            )
