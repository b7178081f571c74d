"""Upstream tables as parts of batches describe them: from the catalog, and from the stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ivm.cdc.formats.upstream_schema import UpstreamColumn
from ivm.cdc.sources.postgres.catalog import Table, load_table, load_types
from ivm.cdc.sources.postgres.messages import Relation
from ivm.cdc.sources.postgres.parts import Described
from ivm.cdc.sources.postgres.server import connect
from ivm.cdc.sources.postgres.table_names import TableName
from ivm.cdc.sources.postgres.texts import constant
from ivm.cdc.sources.postgres.types import NUMBER_TEXT, PostgresType, Reading, reading
from ivm.cdc.sources.source import Upstream


class Catalog:
    """The database's tables and types, asked for when they are needed; `close` it.

    Args:
        dsn: of the database.
        into: the name of our table, where it is not that of the upstream's.
    """

    def __init__(self, dsn: str, into: str | None) -> None:
        self._dsn = dsn
        self._into = into
        self._connection: Any = None
        self._types: dict[int, PostgresType] | None = None

    @property
    def connection(self) -> Any:
        """A connection for questions of this thread.

        Raises:
            UnavailableError: the server does not answer.
        """
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._dsn)
        return self._connection

    @property
    def types(self) -> dict[int, PostgresType]:
        """The types of the database, by oid."""
        if self._types is None:
            self._types = load_types(self.connection)
        return self._types

    def table(self, name: TableName) -> Table:
        """A table as it is now."""
        return load_table(self.connection, self.types, name)

    def described(self, table: Table) -> Described:
        """A table as COPY sends it."""
        columns = {column.name: column.reading for column in table.columns}
        found_by = None if table.is_full else frozenset(table.key)
        return self._described(table.name, columns, table.key, found_by)

    def sent(self, relation: Relation) -> Described:
        """A table as the stream sends it."""
        name = TableName(relation.schema, relation.name)
        if any(column.oid not in self.types for column in relation.columns):
            self._types = load_types(self.connection)
        columns = {c.name: reading(self.types, c.oid, c.modifier) for c in relation.columns}
        key = [column.name for column in relation.columns if column.is_key]
        now = self.table(name)
        before = {
            c.name: c.before
            for c in now.columns
            if c.before is not None
            and (sent := columns.get(c.name)) is not None
            and sent.type == c.reading.type
        }
        found_by = None if relation.identity == "f" else frozenset(key)
        ordered = now.key if found_by in (None, set(now.key)) else tuple(key)
        described = self._described(name, columns, ordered, found_by, before)
        return replace(described, upstream=replace(described.upstream, goes_on=True))

    def close(self) -> None:
        """Ends the connection."""
        if self._connection is not None:
            self._connection.close()

    def _described(
        self,
        name: TableName,
        columns: Mapping[str, Reading],
        key: tuple[str, ...],
        found_by: frozenset[str] | None,
        before: Mapping[str, str] = MappingProxyType({}),
    ) -> Described:
        values = {label: constant(columns[label], text) for label, text in before.items()}
        listed = [
            UpstreamColumn(label, r.type, label not in key, values.get(label), r is NUMBER_TEXT)
            for label, r in columns.items()
        ]
        upstream = Upstream(tuple(listed), key)
        return Described(self._into or name.ours, upstream, columns, found_by, before)
