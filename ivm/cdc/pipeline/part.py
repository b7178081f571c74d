"""The events of one micro-batch, decoded by Spark's workers when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivm.cdc.formats.events import Decoded, interleaved
from ivm.cdc.formats.json_lines import decode_before, decode_by, settings_for
from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.pipeline.chunk import Chunk, unpacked
from ivm.cdc.pipeline.worker import DDL, Decoding
from ivm.cdc.sources.source import Upstream
from ivm.spark_backfill.session import asking
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkPart:
    """See `Part`.

    Args:
        table: our table.
        lines: see `Decoding.run`.
        envelope: of their format.
        deletion: see `Decoding`.
        demand_read: checks that lines of these streams are all.
        by_time: the streams come in the order of their times.
        facts: the names of those of the lines that are carried with them.
    """

    upstream: Upstream | None = None
    is_exact = False

    def __init__(
        self,
        table: str,
        lines: DataFrame,
        envelope: Envelope,
        deletion: Callable[[bytes], bytes] | None,
        demand_read: Callable[[Collection[str]], None],
        *,
        by_time: bool,
        facts: Sequence[str] = (),
    ) -> None:
        self.table = table
        self.version = envelope.version
        self.tables = envelope.tables
        self._frame = lines
        self._envelope = envelope
        self._deletion = deletion
        self._demand_read = demand_read
        self._facts = facts
        self._order = [(name, "ascending") for name in ("time", "stream", "first")[not by_time :]]
        self._streams: list[str] = []
        self._chunks: list[Chunk] = []
        self._first = np.zeros(1, np.int64)  # line of each chunk, and the number of all

    def __len__(self) -> int:
        """See `Part`; known once they are decoded."""
        return int(self._first[-1])

    def decode(self, cursor: Cursor, info: TableInfo) -> Decoded:
        """See `Part`.

        Raises:
            UnavailableError: Spark fails, or has not read all.
        """
        settings = settings_for(cursor, info)
        decoding = Decoding(info, self._envelope, settings, self._deletion, self._facts)
        found = _each_once(self._collected(decoding).sort_by(self._order))
        self._streams = found["stream"].to_pylist()
        self._demand_read(self._streams)
        self._chunks = [unpacked(c.as_buffer(), info.schema) for c in found["content"]]
        sizes = [len(chunk.texts) for chunk in self._chunks]
        self._first = np.append(0, np.cumsum(sizes, dtype=np.int64))
        if not self._chunks:
            return decode_by(settings, pa.array([], pa.large_string()), info, self._envelope)
        numbers = map(np.arange, self._first[:-1], self._first[1:])
        return interleaved(
            [(n, chunk.decoded) for n, chunk in zip(numbers, self._chunks, strict=True)], {}
        )

    def carried(self, place: int) -> Sequence[pa.Array]:
        """See `Carrier`."""
        return [chunk.facts[place] for chunk in self._chunks]

    def _collected(self, decoding: Decoding) -> pa.Table:
        with asking():
            return self._frame.mapInArrow(decoding.run, DDL).toArrow()

    def befores(self, cursor: Cursor, info: TableInfo, lines: Sequence[int]) -> Decoded | None:
        """See `Part`."""
        texts = pa.array(self.payloads(lines), pa.large_string())
        return decode_before(cursor, texts, info, self._envelope)

    def keyed(self, cursor: Cursor, key: TableInfo, lines: Sequence[int]) -> Decoded:
        """See `Part`."""
        texts = pa.array(self.payloads(lines), pa.large_string())
        return decode_by(settings_for(cursor, key), texts, key, self._envelope)

    def payloads(self, lines: Sequence[int]) -> list[str | None]:
        """See `Part`."""
        return [chunk.texts[line].as_py() for _, chunk, line in map(self._find, lines)]

    def places(self, lines: Sequence[int]) -> list[tuple[str, int | None]]:
        """See `Part`."""
        found = map(self._find, lines)
        return [(stream, int(chunk.positions[line])) for stream, chunk, line in found]

    def _find(self, line: int) -> tuple[str, Chunk, int]:
        number = int(self._first.searchsorted(line, "right")) - 1
        return self._streams[number], self._chunks[number], line - int(self._first[number])


def _each_once(found: pa.Table) -> pa.Table:
    """Chunks in order, each once.

    Beside a file with a name such as `a[1].json`, a pattern, Spark reads all others twice.
    """
    keys = [found[name].combine_chunks() for name in ("stream", "first")]
    again = [pc.equal(key[1:], key[:-1]) for key in keys]
    kept = pc.invert(pc.and_(*again)).to_numpy(zero_copy_only=False)
    return found.filter(pa.array(np.append(np.ones(min(len(found), 1), np.bool_), kept)))
