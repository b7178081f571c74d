"""Batches of the copies of tables.

A copy's position counts rows, over all attempts, so that it grows; it tells how far the copy is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ivm.cdc.postgres.described import Catalog
from ivm.cdc.postgres.parts import PostgresPart
from ivm.cdc.postgres.snapshot import Chunk
from ivm.cdc.postgres.table_names import TableName
from ivm.cdc.postgres.texts import inserts
from ivm.cdc.sources.source import Position

COPYING, DONE, DROPPED = "copying", "done", "dropped"
_COPY = "copy "


def copy_stream(table: TableName) -> str:
    """The stream of positions of a table's copy."""
    return _COPY + table.sql


def complete(positions: Mapping[str, Position], table: TableName) -> bool:
    """Whether a table's copy is complete."""
    found = positions.get(copy_stream(table))
    return found is not None and found.detail == DONE


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
    """

    def __init__(self, catalog: Catalog, positions: dict[str, Position]) -> None:
        self._catalog = catalog
        self._positions = positions
        self._begun: set[TableName] = set()

    def part(self, chunk: Chunk) -> PostgresPart:
        """The rows of a chunk; the first one empties the table."""
        name, texts = chunk.table.name, inserts(chunk.columns, chunk.count)
        truncates = [] if name in self._begun else [-1]
        self._begun.add(name)
        at = self.move(name, chunk.count, COPYING)
        described, lines = self._catalog.described(chunk.table), np.arange(chunk.count)
        stream = copy_stream(name)
        return PostgresPart(described, texts, lines, truncates, stream, at.offset)

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
