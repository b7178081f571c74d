"""The part of a pipeline that runs in Spark's Python workers: lines in, chunks of events out.

Law: a line is decoded as `Database.ingest` decodes it, by the same code. The lines of a stream come
in the order of their positions, and no chunk has lines of two streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivm.cdc.formats.json_lines import decode_by
from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.formats.line_reader import Settings
from ivm.cdc.formats.texts import texts_of
from ivm.cdc.pipeline.carried_facts import COLUMN
from ivm.cdc.pipeline.chunk import Chunk, packed, with_texts_of
from ivm.cdc.pipeline.superseded import without_superseded
from ivm.storage.values.column import Indexes
from ivm.storage.warehouse.tables.table_info import TableInfo

DDL = "stream STRING, first BIGINT, time BIGINT, content BINARY"
"""What comes out of a chunk: its stream, the position of its first line, the stream's time."""
SCHEMA = pa.schema(
    {
        "stream": pa.large_string(),
        "first": pa.int64(),
        "time": pa.int64(),
        "content": pa.large_binary(),
    }
)

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Decoding:
    """How lines are decoded.

    Attributes:
        info: the table.
        envelope: of the format.
        settings: of the session, by which times are read; see `settings_for`.
        deletion: makes a line of the key of a message without a value, if that is an event.
        facts: the names of those of the lines that are carried with them; an event with some may
            be refused for them, and so supersedes no other.
    """

    info: TableInfo
    envelope: Envelope
    settings: Settings | None
    deletion: Callable[[bytes], bytes] | None = None
    facts: Sequence[str] = ()

    def run(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """For `mapInArrow`.

        Args:
            batches: `stream`, its `time`, `value` as binary, and of messages `position`, `key` and
                facts, see `carried_facts`; without a position, a stream's lines are numbered from
                1.
        """
        return map(self._decoded, _by_stream(batches))

    def _decoded(self, lines: _Lines) -> pa.RecordBatch:
        texts = texts_of(self._values(lines.rows).cast(pa.large_binary()))
        found = decode_by(self.settings, texts, self.info, self.envelope)
        if not (self.envelope.version or self.facts):
            found = without_superseded(found, self.info)
        chunk = with_texts_of(Chunk(found, texts, lines.positions, lines.facts(self.facts)))
        content = [packed(chunk, self.info.schema)]
        first = int(lines.positions[0])
        time = lines.rows.column("time")[0].as_py()
        columns = [[lines.stream], [first], [time], content]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def _values(self, rows: pa.RecordBatch) -> pa.Array:
        values = rows.column("value")
        if self.deletion is None or not values.null_count:
            return values
        deleted = values.is_null().to_numpy(zero_copy_only=False).nonzero()[0]
        found = values.to_pylist()
        keys = rows.column("key").take(pa.array(deleted)).to_pylist()
        for row, key in zip(deleted.tolist(), keys, strict=True):
            found[row] = None if key is None else self.deletion(key)
        return pa.array(found, pa.large_binary())


@dataclass(frozen=True)
class _Lines:
    """Lines of one stream, at least one."""

    stream: str
    rows: pa.RecordBatch
    positions: Indexes

    def facts(self, asked: Sequence[str]) -> list[pa.Array]:
        """Facts by their names: those that came with the lines, or those of a file."""
        if COLUMN in self.rows.schema.names:
            return [*self.rows.column(COLUMN).flatten()]
        changed = pc.multiply(self.rows.column("time"), 1000)
        of_file = {
            "path": pa.repeat(self.stream, len(self.positions)),
            "row": pa.array(self.positions),
            "modified": changed,
        }
        return [of_file[name] for name in asked]


def _by_stream(batches: Iterable[pa.RecordBatch]) -> Iterator[_Lines]:
    """The lines, cut where another stream begins."""
    at = _Lines("", pa.record_batch({}), np.zeros(0, np.int64))
    for batch in batches:
        for rows in _runs(batch):
            stream = rows.column("stream")[0].as_py()
            if "position" in rows.schema.names:
                positions = rows.column("position").to_numpy()
            else:
                before = int(at.positions[-1]) if at.stream == stream else 0
                positions = before + 1 + np.arange(rows.num_rows)
            at = replace(at, stream=stream, rows=rows, positions=positions)
            yield at


def _runs(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows that follow one another with one stream."""
    if not batch.num_rows:
        return
    runs = pc.run_end_encode(batch.column("stream"))
    start = 0
    for end in runs.run_ends.to_pylist():
        yield batch.slice(start, end - start)
        start = end
