"""The identities of a source's tables where its stream stands, and what contradicts them.

Law: a table's identity is that of its copy, then of each shape that the stream has shown, and of
each look at the catalog with the same columns once the stream has come to it. A look that
contradicts it, or a shape that could be of other columns, stops the source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ivm.cdc.sources.postgres.connections.server import ask
from ivm.cdc.sources.postgres.connections.table_names import TableName
from ivm.cdc.sources.postgres.log.messages import Relation
from ivm.cdc.sources.postgres.log.slot import replaced
from ivm.cdc.sources.postgres.tables.catalog import Table
from ivm.cdc.sources.postgres.tables.identity import (
    Attribute,
    Identity,
    missed,
    numbers,
    retyped,
    seen,
)
from ivm.cdc.sources.postgres.tables.type_changes import Types, keeps
from ivm.cdc.sources.source import SourceError
from ivm.storage.errors import UnavailableError


class Shown(NamedTuple):
    """A column as the stream has shown it.

    Attributes:
        number: tells it from others.
        was: its name before; empty if it was not there.
    """

    number: int
    was: str


class Identities:
    """What is known of each table.

    Args:
        known: of the tables that are copied; one of an older version has none.

    Attributes:
        changed: the tables whose identities are to be stored.
    """

    def __init__(self, known: Mapping[TableName, Identity]) -> None:
        self._known = dict(known)
        self._looks: dict[TableName, tuple[int, Identity]] = {}
        self.changed: set[TableName] = set()

    def of(self, table: TableName) -> Identity | None:
        """The identity of a table; None if it is not copied, or was by an older version."""
        return self._known.get(table)

    def copied(self, table: Table) -> None:
        """Notes that a table is copied as it is in this look."""
        self._known[table.name] = table.identity
        self._looks.pop(table.name, None)

    def look(self, connection: Any, types: Types, table: Table) -> None:
        """Compares a table that is copied with what it was.

        Args:
            connection: to the database.
            types: of the database.
            table: as it is now.

        Raises:
            SourceError: changes may have been missed.
        """
        before, now = self._known.get(table.name), table.identity
        if before is not None:
            _demand_same(connection, types, table.name, before, now)
        if before != now and (before is None or now.has_columns_of(before)):
            sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"
            ((end,),) = ask(connection, sql)  # where all that the look has seen is before
            self._looks.setdefault(table.name, (end, now))

    def reach(self, position: int) -> None:
        """Takes the looks to which the stream has come."""
        due = [table for table, (end, _) in self._looks.items() if end <= position]
        for table in due:
            (_, now), before = self._looks.pop(table), self._known.get(table)
            if before is None or now.has_columns_of(before):
                self._known[table] = now
                self.changed.add(table)

    def show(self, connection: Any, types: Types, relation: Relation, table: Table) -> list[Shown]:
        """Notes that the stream has shown a table.

        Args:
            connection: to the database.
            types: of the database.
            relation: the shape of the table.
            table: as it is now.

        Returns:
            Its columns, in the order in which they are sent.

        Raises:
            SourceError: changes may have been missed.
            UnavailableError: the catalog does not show the columns yet.
        """
        name, now = table.name, table.identity
        before = self._known[name]
        _demand_same(connection, types, name, before, now)
        sent = [(c.name, c.oid, c.modifier) for c in relation.columns]
        chosen = self._chosen(name, before, now, [label for label, _, _ in sent])
        after = seen(before, now, chosen, sent)
        _demand_same(connection, types, name, before, after)
        if after is not before:
            self._known[name] = after
            self.changed.add(name)
        names = [column.name for column in before.columns]
        return [Shown(n, names[n - 1] if n <= len(names) else "") for n in chosen]

    def _chosen(
        self, table: TableName, before: Identity, now: Identity, names: Sequence[str]
    ) -> list[int]:
        found = numbers(before, now, names)
        if len(found) == 1:
            return found[0]
        if found:
            raise replaced(table, f"was altered more than once: {_doubt(found, names)}")
        raise UnavailableError(
            f"PostgreSQL's catalog does not show the columns ({', '.join(names)}) of table "
            f"{table.sql} that the stream has. If this lasts: {replaced(table)}"
        )


def _doubt(found: Sequence[Sequence[int]], names: Sequence[str]) -> str:
    """Which column could be another one."""
    at = next(i for i, chosen in enumerate(zip(*found, strict=True)) if len(set(chosen)) > 1)
    return f"its column {names[at]!r} may be a new one, or one that had another name before"


def _demand_same(
    connection: Any, types: Types, table: TableName, before: Identity, now: Identity
) -> None:
    why = missed(before, now)
    if why is not None:
        raise replaced(table, why)
    for old, new in retyped(before, now):
        if not keeps(types, (old.type, old.modifier), (new.type, new.modifier)):
            raise _rewritten(connection, table, old, new)


def _rewritten(connection: Any, table: TableName, old: Attribute, new: Attribute) -> SourceError:
    sql = "SELECT format_type(%s, %s), format_type(%s, %s)"
    ((was, now),) = ask(connection, sql, [old.type, old.modifier, new.type, new.modifier])
    return replaced(
        table,
        f"has a column {new.name!r} that was {was} and is {now}, so its values may have been "
        "rewritten, which is not sent",
    )
