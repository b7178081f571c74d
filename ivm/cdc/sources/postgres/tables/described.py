"""Upstream tables as parts of batches describe them: from the catalog, and from the stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ivm.cdc.formats.upstream_schema import UpstreamColumn
from ivm.cdc.sources.postgres.connections.server import connect
from ivm.cdc.sources.postgres.connections.table_names import TableName
from ivm.cdc.sources.postgres.connections.types import NUMBER_TEXT, PostgresType, Reading, reading
from ivm.cdc.sources.postgres.log.messages import Relation
from ivm.cdc.sources.postgres.log.slot import replaced
from ivm.cdc.sources.postgres.rows.parts import Described
from ivm.cdc.sources.postgres.rows.texts import constant
from ivm.cdc.sources.postgres.tables.catalog import Table, load_table, load_types
from ivm.cdc.sources.postgres.tables.identities import Identities, Shown
from ivm.cdc.sources.postgres.tables.identity import Identity
from ivm.cdc.sources.postgres.tables.retyped import kept, may_be_filled
from ivm.cdc.sources.source import Upstream


class Catalog:
    """The database's tables and types, asked for when they are needed; `close` it.

    Args:
        dsn: of the database.
        into: the name of our table, where it is not that of the upstream's.
        publication: of the tables; if it is not given, their identities tell nothing of it.
    """

    def __init__(self, dsn: str, into: str | None, publication: str = "") -> None:
        self._dsn = dsn
        self._into = into
        self._publication = publication
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
        return load_table(self.connection, self.types, name, self._publication)

    def look(self, table: Table, identities: Identities) -> None:
        """Compares a table with what it was; see `Identities`."""
        self._know([column.type for column in table.identity.columns if column.name])
        identities.look(self.connection, self.types, table)

    def described(self, table: Table) -> Described:
        """A table as COPY sends it."""
        columns = {column.name: column.reading for column in table.columns}
        found_by = None if table.is_full else frozenset(table.key)
        return self._described(table.name, columns, table.key, found_by)

    def sent(self, relation: Relation, identities: Identities | None = None) -> Described:
        """A table as the stream sends it.

        Args:
            relation: as it is sent.
            identities: of the tables; without them columns are known by their names.

        Raises:
            SourceError: changes may have been missed.
            UnavailableError: the catalog does not show the table's columns yet.
        """
        name = TableName(relation.schema, relation.name)
        now, since = self.table(name), None if identities is None else identities.of(name)
        self._know([c.oid for c in relation.columns] + [c.type for c in now.identity.columns])
        columns = {c.name: reading(self.types, c.oid, c.modifier) for c in relation.columns}
        shown: dict[str, Shown] | None = None
        after = since
        if identities is not None and since is not None:
            found = identities.show(self.connection, self.types, relation, now)
            shown, after = dict(zip(columns, found, strict=True)), identities.of(name)
        key = [column.name for column in relation.columns if column.is_key]
        found_by = None if relation.identity == "f" else frozenset(key)
        ordered = now.key if found_by in (None, set(now.key)) else tuple(key)
        types = {c.name: (c.oid, c.modifier) for c in relation.columns}
        before = _before(self.connection, now, since, types, shown)
        described = self._described(name, columns, ordered, found_by, before, shown)
        rows = None
        if since is not None and after is not None:
            rows = kept(self.connection, since, after, now, described)
        return replace(described, upstream=replace(described.upstream, goes_on=True, kept=rows))

    def _know(self, types: Iterable[int]) -> None:
        """Loads the types again if one of these is not known."""
        if any(oid not in self.types for oid in types if oid):
            self._types = load_types(self.connection)

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
        shown: Mapping[str, Shown] | None = None,
    ) -> Described:
        values = {label: constant(columns[label], text) for label, text in before.items()}
        listed = [
            UpstreamColumn(
                *(label, r.type, label not in key, values.get(label), r is NUMBER_TEXT),
                was=None if shown is None else shown[label].was,
            )
            for label, r in columns.items()
        ]
        upstream = Upstream(tuple(listed), key)
        return Described(self._into or name.ours, upstream, columns, found_by, before)


def _before(
    connection: Any,
    now: Table,
    since: Identity | None,
    types: Mapping[str, tuple[int, int]],
    shown: Mapping[str, Shown] | None,
) -> dict[str, str]:
    """The texts that rows have which are older than columns, where those are not NULL.

    Raises:
        SourceError: they cannot be known.
    """
    numbers = {column.name: column.number for column in now.columns}
    if shown is not None:
        numbers = {name: column.number for name, column in shown.items() if not column.was}
    published = {column.number: column for column in now.columns}
    found = {n: published[numbers[n]] for n in types if numbers.get(n) in published}
    is_rewritten = since is not None and now.identity.is_rewritten(since)
    for name, column in found.items():
        own = now.identity.columns[column.number - 1]
        # What a later change of its type has written is looked at when the stream shows that.
        is_last = types[name] == (own.type, own.modifier)
        must = not column.nullable or bool(own.default)
        is_lost = is_rewritten and not column.before
        is_lost = is_lost and (must or (is_last and may_be_filled(connection, now, own)))
        if is_lost or len(column.before) > 1:
            raise replaced(
                now.name,
                f"has a new column {name!r} and was written anew, so that the values of older "
                "rows cannot be told",
            )
    return {name: column.before[0] for name, column in found.items() if column.before}
