"""What PostgreSQL's catalog says of the tables of a source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ivm.cdc.sources.postgres.connections.server import ask
from ivm.cdc.sources.postgres.connections.table_names import TableName
from ivm.cdc.sources.postgres.connections.types import TYPES_QUERY, PostgresType, Reading, reading
from ivm.cdc.sources.postgres.tables.identity import Attribute, Identity
from ivm.cdc.sources.source import SourceError
from ivm.storage.identifiers import fold, quote

# As pg_partition_tree, which would wait for locks: behind somebody's that waits for a copy of ours.
_TREE = """
    WITH RECURSIVE tree(oid) AS (SELECT {}::oid
        UNION ALL SELECT i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid
            JOIN pg_class k ON k.oid = i.inhrelid AND k.relispartition)
    SELECT oid FROM tree
"""
_TABLES = f"""
    SELECT c.oid::bigint, c.relkind::text, c.reltuples, c.relreplident::text,
        ARRAY(SELECT a.attname::text FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(n, at)
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.n
            WHERE i.indrelid = c.oid AND CASE c.relreplident::text
                WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
            ORDER BY k.at),
        c.relpersistence <> 'u',
        ARRAY(SELECT f.oid || ' ' || f.relfilenode FROM pg_class f
            WHERE f.relkind = 'r' AND f.oid IN ({_TREE.format("c.oid")}))
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')
"""
_LEAVES = f"""
    SELECT c.oid::regclass::text, ARRAY(
        SELECT a.attname::text FROM pg_index i, unnest(i.indkey) k(n)
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.n
            WHERE i.indrelid = c.oid AND CASE c.relreplident::text
                WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END)
    FROM pg_class c WHERE c.relkind = 'r' AND c.relreplident IN ('d', 'i')
        AND c.oid IN ({_TREE.format("%s")})
"""
_COLUMNS = f"""
    SELECT a.attnum::int, a.attname::text, a.atttypid::bigint, a.atttypmod, a.xmin::text,
        coalesce(d.oid, 0)::bigint, a.attisdropped OR a.attgenerated <> '', a.attnotnull,
        ARRAY(SELECT DISTINCT (m.attmissingval::text::text[])[1] FROM pg_attribute m
            WHERE m.attname = a.attname AND m.atthasmissing
                AND m.attrelid IN ({_TREE.format("a.attrelid")}))
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = %s AND a.attnum > 0 ORDER BY a.attnum
"""
_PARTS = """
    WITH RECURSIVE used(oid) AS (
        SELECT atttypid FROM pg_attribute
            WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
        UNION SELECT n.oid FROM used u JOIN pg_type t ON t.oid = u.oid CROSS JOIN LATERAL (
            SELECT t.typbasetype UNION ALL SELECT t.typelem
            UNION ALL SELECT rngsubtype FROM pg_range WHERE rngtypid = t.oid
            UNION ALL SELECT atttypid FROM pg_attribute
                WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped) n(oid)
    )
    SELECT e.oid::text, e.enumlabel::text FROM pg_enum e JOIN used u ON u.oid = e.enumtypid
    UNION ALL SELECT t.oid::text, string_agg(a.attnum || ' ' || a.atttypid || ' ' || a.atttypmod,
            ', ' ORDER BY a.attnum)
        FROM used u JOIN pg_type t ON t.oid = u.oid AND t.typtype = 'c'
        JOIN pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        GROUP BY t.oid
"""
_PUBLICATION = """
    SELECT p.oid || ' ' || p.xmin, p.puballtables, ARRAY(
        SELECT r.oid::text FROM pg_publication_rel r WHERE r.prpubid = p.oid AND (r.prrelid = %s
            OR r.prrelid IN (SELECT relid FROM pg_partition_ancestors(%s))))
    FROM pg_publication p WHERE p.pubname = %s
"""
_SCHEMAS = """
    SELECT n.oid::text FROM pg_publication_namespace n JOIN pg_publication p ON p.oid = n.pnpubid
    JOIN pg_class c ON c.relnamespace = n.pnnspid
    WHERE (c.oid = %s OR c.oid IN (SELECT relid FROM pg_partition_ancestors(%s))) AND p.pubname = %s
"""


@dataclass(frozen=True)
class Column:
    """A column of an upstream table.

    Attributes:
        number: tells it from a column that had its name before.
        name: as PostgreSQL stores it.
        reading: how its values are read.
        nullable: it may be NULL.
        before: the texts of the values that rows have which are older than the column, and of which
            the stream does not tell: none if they have NULL, or were rewritten since.
    """

    number: int
    name: str
    reading: Reading
    nullable: bool
    before: Sequence[str]


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
        identity: tells its columns and its publication from others.
    """

    oid: int
    name: TableName
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    is_full: bool
    is_partitioned: bool
    rows: int
    identity: Identity

    @property
    def source(self) -> str:
        """What to read its rows from, in PostgreSQL's SQL; tables that inherit are others."""
        return self.name.sql if self.is_partitioned else f"ONLY {self.name.sql}"


def load_types(connection: Any) -> dict[int, PostgresType]:
    """The types of the database, by oid."""
    return {row[0]: PostgresType(*row) for row in ask(connection, TYPES_QUERY)}


def load_table(
    connection: Any, types: Mapping[int, PostgresType], name: TableName, publication: str = ""
) -> Table:
    """A table as it is now.

    Args:
        connection: to the database.
        types: of the database, by oid.
        name: of the table.
        publication: of the table; if it is not given, it is none of the identity.

    Raises:
        SourceError: there is none, or its updates cannot be followed.
    """
    found = ask(connection, _TABLES, name)
    if not found:
        raise SourceError(
            f"PostgreSQL has no table {name.sql} that can be published (views and foreign tables "
            "cannot); names without quotes are in lower case, as there"
        )
    oid, kind, rows, identity, key, is_logged, files = found[0]
    if identity == "n" or (identity in "di" and not key):
        raise SourceError(
            f"the updates and deletes of PostgreSQL's table {name.sql} do not tell which row they "
            f"change: its replica identity is {'NOTHING' if identity == 'n' else 'DEFAULT'}"
            f"{' without a primary key' if identity == 'd' else ''}. Run in PostgreSQL: "
            f"ALTER TABLE {name.sql} REPLICA IDENTITY FULL, or give it a primary key and "
            "REPLICA IDENTITY DEFAULT"
        )
    if kind == "p":
        _demand_alike(name, key, ask(connection, _LEAVES, [oid]))
    asked = ask(connection, _COLUMNS, [oid])
    columns = [
        Column(number, label, reading(types, kind, modifier), not required, before)
        for number, label, kind, modifier, _, _, is_hidden, required, before in asked
        if not is_hidden
    ]
    _demand_apart(name, columns)
    known = Identity(
        tuple([_attribute(*row) for row in asked]),
        dict(ask(connection, _PARTS, [oid])),
        dict([file.split(" ") for file in files]),
        *_published(connection, oid, publication),
        is_logged,
    )
    whole, partitioned = identity == "f", kind == "p"
    rows = max(int(rows), 0)
    return Table(oid, name, tuple(columns), tuple(key), whole, partitioned, rows, known)


def _attribute(
    number: int,
    name: str,
    type: int,
    modifier: int,
    written: str,
    default: int,
    is_hidden: bool,
    required: bool,
    before: Sequence[str],
) -> Attribute:
    if is_hidden:
        return Attribute(number, "", 0, -1, written, 0, False)
    return Attribute(number, name, type, modifier, written, default, bool(before))


def _published(connection: Any, oid: int, publication: str) -> tuple[str, tuple[str, ...]]:
    """The identity of a publication, and the entries of it that publish a table."""
    given = [oid, oid, publication]
    found = ask(connection, _PUBLICATION, given) if publication else []
    if not found:
        return "", ()
    ((known, of_all, tables),) = found
    has_schemas = connection.info.server_version >= 150000
    schemas = ask(connection, _SCHEMAS, given) if has_schemas else []
    entries = [*(["all"] if of_all else []), *tables, *[schema for (schema,) in schemas]]
    return known, tuple(sorted(entries))


def _demand_alike(
    table: TableName, key: Sequence[str], leaves: Iterable[tuple[str, Sequence[str]]]
) -> None:
    """Raises SourceError if updates of a partition tell their rows by other columns.

    PostgreSQL logs them by the partition's replica identity, whatever that of the whole table is,
    and refuses them if it has none.
    """
    told = f"the key ({', '.join(key)})" if key else "the whole rows"
    for partition, columns in leaves:
        if columns and not (key and set(key) <= set(columns)):
            raise SourceError(
                f"the updates and deletes of partition {partition} tell their rows by "
                f"({', '.join(columns)}), not by {told} of PostgreSQL's table {table.sql}. Run in "
                f"PostgreSQL: ALTER TABLE {partition} REPLICA IDENTITY FULL; if it has changed "
                "rows since it was so, let the table be copied anew"
            )


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
