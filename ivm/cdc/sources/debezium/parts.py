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
from ivm.storage.warehouse.duck import Cursor
from ivm.storage.warehouse.table_info import TableInfo


@dataclass(frozen=True)
class DebeziumPart(JsonPart):
    """Events of one table; see `Part`.

    The first line of each schema has it, which is that of the lines after it.

    Attributes:
        shapes: the number of each line and the schema that begins there, in order.
        empties: whether the table is emptied before the first event.
    """

    shapes: Sequence[tuple[int, Shape]] = ()
    empties: bool = False

    def decode(self, cursor: Cursor, info: TableInfo) -> Decoded:
        """See `Part`."""
        decoded = super().decode(cursor, info)
        if self.empties:
            return replace(decoded, truncates=[-1, *decoded.truncates])
        return decoded

    def payloads(self, lines: Sequence[int]) -> list[str | None]:
        """See `Part`; each with its schema."""
        begins = [begin for begin, _ in self.shapes]
        found: list[str | None] = []
        for line, text in zip(lines, super().payloads(lines), strict=True):
            begin = int(np.searchsorted(begins, line, side="right")) - 1
            alone = text is None or line in begins
            found.append(text if alone else with_schema(str(text), self.shapes[begin][1]))
        return found


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
        texts, begins = _described(lines.take(pa.array(where)), shapes[where], known)
        parts.append(
            DebeziumPart(
                *(table, texts, envelope, stream[0]),
                positions=(where + stream[1]).tolist(),
                upstream=begins[-1][1].upstream,
                shapes=begins,
            )
        )
    return parts


def emptied(table: str, envelope: Envelope, stream: str) -> DebeziumPart:
    """A part without events, which empties a table."""
    return DebeziumPart(table, pa.array([], pa.large_string()), envelope, stream, empties=True)


def _described(
    lines: pa.Array, numbers: Ints, known: Known
) -> tuple[pa.Array, list[tuple[int, Shape]]]:
    """The lines, the first one of each run of a schema with it; and these runs."""
    begins = np.concatenate([[0], (numbers[1:] != numbers[:-1]).nonzero()[0] + 1])
    runs = [(int(begin), known.shape(int(numbers[begin]))) for begin in begins]
    pieces = []
    for (begin, shape), end in zip(runs, [*begins[1:].tolist(), len(lines)], strict=True):
        pieces.append(pa.array([with_schema(lines[begin].as_py(), shape)], pa.large_string()))
        pieces.append(lines.slice(begin + 1, end - begin - 1))
    return pa.concat_arrays(pieces), runs
