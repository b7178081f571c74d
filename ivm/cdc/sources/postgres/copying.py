"""Batches of the copies of tables.

A copy's position counts rows, over all attempts, so that it grows. Its detail is how far the copy
is; of one that is done, with the oid of the table: another table of the same name has another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ivm.cdc.sources.postgres.connections.table_names import TableName
from ivm.cdc.sources.postgres.rows.parts import PostgresPart
from ivm.cdc.sources.postgres.rows.texts import inserts
from ivm.cdc.sources.postgres.snapshot import Chunk
from ivm.cdc.sources.postgres.tables.catalog import Table
from ivm.cdc.sources.postgres.tables.described import Catalog
from ivm.cdc.sources.postgres.tables.identities import Identities
from ivm.cdc.sources.postgres.tables.identity import Identity, identity
from ivm.cdc.sources.source import Position

COPYING, DONE, DROPPED = "copying", "done", "dropped"
_COPY = "copy "


def copy_stream(table: TableName) -> str:
    """The stream of positions of a table's copy."""
    return _COPY + table.sql


def copied_oid(positions: Mapping[str, Position], table: TableName) -> int | None:
    """The oid of the table whose copy is complete; None if it is not."""
    found = positions.get(copy_stream(table))
    if found is None or not found.detail.startswith(DONE):
        return None
    return int(found.detail.split(" ", 2)[1])


def copied_identities(
    positions: Mapping[str, Position], tables: Iterable[TableName]
) -> dict[TableName, Identity]:
    """The identities of those of these tables whose copies are complete."""
    details = {table: positions.get(copy_stream(table), Position(0)).detail for table in tables}
    words = {table: detail.split(" ", 2) for table, detail in details.items()}
    return {t: identity(w[2]) for t, w in words.items() if w[0] == DONE and len(w) > 2}


def done(oid: int, known: Identity) -> str:
    """The detail of a copy that is complete."""
    return f"{DONE} {oid} {known.text}"


def dropped(positions: Mapping[str, Position], tables: Iterable[TableName]) -> dict[str, Position]:
    """New positions of copies of tables that are no longer among these."""
    known = {copy_stream(table) for table in tables}
    return {
        stream: Position(at.offset + 1, DROPPED)
        for stream, at in positions.items()
        if stream.startswith(_COPY) and stream not in known and at.detail != DROPPED
    }


class Copier:
    """Makes parts of chunks.

    Args:
        catalog: of the database.
        positions: of the source; moved by what is made.
        identities: of the tables.

    Attributes:
        rows: how many were copied, by table.
    """

    def __init__(
        self, catalog: Catalog, positions: dict[str, Position], identities: Identities
    ) -> None:
        self._catalog = catalog
        self._identities = identities
        self._positions = positions
        self._begun: set[TableName] = set()
        self.rows: dict[TableName, int] = {}

    def part(self, chunk: Chunk) -> PostgresPart:
        """The rows of a chunk; the first one empties the table."""
        name, texts = chunk.table.name, inserts(chunk.columns, chunk.count)
        truncates = [] if name in self._begun else [-1]
        self._begun.add(name)
        self.rows[name] = self.rows.get(name, 0) + chunk.count
        at = self.move(name, chunk.count, COPYING)
        described, lines = self._catalog.described(chunk.table), np.arange(chunk.count)
        stream = copy_stream(name)
        return PostgresPart(described, texts, lines, truncates, stream, at.offset)

    def copied(self, table: Table) -> None:
        """Notes that all rows of a table are copied."""
        self._identities.copied(table)

    def finish(self, table: Table) -> None:
        """Moves the position of a copy to its end."""
        known = self._identities.of(table.name)
        assert known is not None
        self.move(table.name, 0, done(table.oid, known))

    def stored(self) -> dict[str, Position]:
        """Positions of the copies that are complete, with identities that have changed."""
        oids = {table: copied_oid(self._positions, table) for table in self._identities.changed}
        self._identities.changed.clear()
        for table, oid in oids.items():
            known = self._identities.of(table)
            if oid is not None and known is not None:
                self.move(table, 0, done(oid, known))
        return {copy_stream(t): self._positions[copy_stream(t)] for t in oids}

    def position(self, table: TableName) -> dict[str, Position]:
        """The position of a copy, by its stream."""
        stream = copy_stream(table)
        return {stream: self._positions[stream]}

    def move(self, table: TableName, rows: int, detail: str) -> Position:
        """Moves the position of a copy."""
        stream = copy_stream(table)
        before = self._positions.get(stream, Position(0))
        self._positions[stream] = Position(before.offset + rows + 1, detail)
        return self._positions[stream]
