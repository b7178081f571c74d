"""Changes of one table in a batch of an engine's events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ivm.cdc.formats.events import Decoded
from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.sources.debezium.records import Events, Ints, Known, Shape, with_schema
from ivm.cdc.sources.json_part import JsonPart
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo


@dataclass(frozen=True)
class DebeziumPart(JsonPart):
    """Events of one table; see `Part`.

    Attributes:
        shape: the schema of all lines, which are without it; None if each line has its own.
        empties: whether the table is emptied before the first event.
    """

    shape: Shape | None = None
    empties: bool = False

    def decode(self, cursor: Cursor, info: TableInfo) -> Decoded:
        """See `Part`."""
        decoded = super().decode(cursor, info)
        if self.empties:
            return replace(decoded, truncates=[-1, *decoded.truncates])
        return decoded

    def payloads(self, lines: Sequence[int]) -> list[str | None]:
        """See `Part`; each with its schema, by which it is read when it is tried again."""
        if self.shape is None:
            return super().payloads(lines)
        found = self.lines.take(pa.array(lines, pa.int64()))
        texts: list[str | None] = with_schema(found, self.shape).to_pylist()
        return texts


def parts_of(
    batch: Sequence[Events],
    tables: Mapping[int, str],
    known: Known,
    envelope: Envelope,
    stream: tuple[str, int],
) -> list[DebeziumPart]:
    """The changes of tables.

    Args:
        batch: runs of events, in order.
        tables: the names of our tables by the numbers of the upstream ones.
        known: of the engine.
        envelope: of the format.
        stream: its name, and the position before the batch.
    """
    lines = pa.concat_arrays([events.lines for events in batch])
    of = np.concatenate([events.tables for events in batch])
    shapes = np.concatenate([events.shapes for events in batch])
    parts = []
    for number, table in tables.items():
        where = (of == number).nonzero()[0]
        runs = _runs(shapes[where], known)
        texts, form, shape = lines.take(pa.array(where)), envelope, runs[-1][2]
        if len(runs) > 1:  # a transaction, which is not split, has changed the table
            texts = pa.concat_arrays([with_schema(texts[b:e], shape) for b, e, shape in runs])
        else:
            form = replace(envelope, schema=None, encodings=shape.encodings)
        parts.append(
            DebeziumPart(
                *(table, texts, form, stream[0]),
                positions=(where + stream[1]).tolist(),
                upstream=shape.upstream,
                shape=shape if len(runs) == 1 else None,
            )
        )
    return parts


def emptied(table: str, envelope: Envelope, stream: str) -> DebeziumPart:
    """A part without events, which empties a table."""
    return DebeziumPart(table, pa.array([], pa.large_string()), envelope, stream, empties=True)


def _runs(numbers: Ints, known: Known) -> list[tuple[int, int, Shape]]:
    """The first and the last event of each run of one schema, and the schema."""
    begins = [0, *((numbers[1:] != numbers[:-1]).nonzero()[0] + 1).tolist()]
    shapes = [known.shape(int(numbers[begin])) for begin in begins]
    return list(zip(begins, [*begins[1:], len(numbers)], shapes, strict=True))
