"""Events of one table that are JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from ivm.cdc.formats.events import Decoded
from ivm.cdc.formats.json_lines import decode, decode_before
from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.sources.source import Upstream
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo


@dataclass(frozen=True)
class JsonPart:
    """A run of lines of one stream; see `Part`.

    Attributes:
        table: our table.
        lines: large strings; NULL for a message without a value.
        envelope: of their format.
        stream: from which they come.
        first: the position of the first line; those of the others follow.
        positions: of each line, where they do not follow one another.
        upstream: see `Part`.
    """

    table: str
    lines: pa.Array
    envelope: Envelope
    stream: str
    first: int = 0
    positions: Sequence[int | None] | None = None
    upstream: Upstream | None = None

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def version(self) -> str:
        """See `Part`."""
        return self.envelope.version

    def decode(self, cursor: Cursor, info: TableInfo) -> Decoded:
        """See `Part`."""
        return decode(cursor, self.lines, info, self.envelope)

    @property
    def tables(self) -> tuple[str, ...]:
        """See `Part`."""
        return self.envelope.tables

    @property
    def is_exact(self) -> bool:
        """See `Part`; events may come again, or alone."""
        return False

    def befores(self, cursor: Cursor, info: TableInfo, lines: Sequence[int]) -> Decoded | None:
        """See `Part`."""
        return decode_before(cursor, self._some(lines), info, self.envelope)

    def keyed(self, cursor: Cursor, key: TableInfo, lines: Sequence[int]) -> Decoded:
        """See `Part`."""
        return decode(cursor, self._some(lines), key, self.envelope)

    def _some(self, lines: Sequence[int]) -> pa.Array:
        return self.lines.take(pa.array(lines, pa.int64()))

    def payloads(self, lines: Sequence[int]) -> list[str | None]:
        """See `Part`."""
        found: list[str | None] = self._some(lines).to_pylist()
        return found

    def places(self, lines: Sequence[int]) -> list[tuple[str, int | None]]:
        """See `Part`."""
        if self.positions is None:
            return [(self.stream, self.first + line) for line in lines]
        return [(self.stream, self.positions[line]) for line in lines]
