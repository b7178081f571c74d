"""The deltas of a view as bytes: each epoch is encoded once, for all subscribers.

Law: `{"type": "changes", "epoch": e, "rows": […]}` has every row that comes or goes in the epoch,
with its `_weight`; in Arrow it is one batch with the metadata `epoch`, `type` and `last`. The rows
of a snapshot come in parts, of which the last has `"last": true`.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ivm.cdc.sinks.encode import EPOCH, Delta, Shape, encoded
from ivm.engine.engine import Engine
from ivm.engine.feeds.changefeed import WEIGHT
from ivm.serve.http.formats import joined, no_rows
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, empty
from ivm.storage.warehouse.duckdb.duck import run

PART = 20_000
"""Rows of a part of a snapshot."""
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of an Arrow stream
CHANGES, SNAPSHOT = "changes", "snapshot"


class Message(NamedTuple):
    """What subscribers get at a time.

    Attributes:
        kind: CHANGES or SNAPSHOT.
        epoch: at whose end the view has these rows, or of the changes.
        part: its number, from 0.
        last: whether no part follows.
        rows: of the view, with weights.
    """

    kind: str
    epoch: int
    part: int
    last: bool
    rows: ZSet


class Encoder:
    """Writes the messages of one view; any thread calls it.

    Args:
        engine: of the database.
        view: canonical name.
        schema: of the view, see `refuse_names`.
    """

    def __init__(self, engine: Engine, view: str, schema: Schema) -> None:
        self._schema = schema
        self._shape = Shape(view, schema, None)
        self._none = no_rows(self._table(empty([type for _, type in schema])).schema)
        self._cursor = engine.warehouse.cursor()
        self._lock = threading.Lock()
        run(self._cursor, "SET TimeZone = 'UTC'")

    def json(self, messages: Sequence[Message]) -> list[bytes]:
        """Messages of different epochs as JSON."""
        return [text.encode() for text in self._texts(messages)]

    def _texts(self, messages: Sequence[Message]) -> Iterator[str]:
        bodies = self._bodies([message for message in messages if len(message.rows)])
        for message in messages:
            about = {"type": message.kind, "epoch": message.epoch}
            if message.kind == SNAPSHOT:
                about |= {"part": message.part, "last": message.last}
            yield f'{json.dumps(about)[:-1]}, "rows": [{bodies.get(message.epoch, "")}]}}'

    def _bodies(self, messages: Sequence[Message]) -> dict[int, str]:
        """The rows of messages by their epochs: one statement takes as long as for one message."""
        if not messages:
            return {}
        deltas = [Delta(message.epoch, 0, message.rows) for message in messages]
        with self._lock:
            found = list(encoded(self._cursor, "jsonl", self._shape, deltas))
        starts = {epoch: len(f'{{"{EPOCH}":{epoch},') for epoch, _, _ in found}
        return {
            epoch: "{" + joined(pc.utf8_slice_codeunits(lines, start=starts[epoch]), ", {")
            for epoch, lines, _ in found
        }

    def sse(self, messages: Sequence[Message]) -> list[bytes]:
        """Messages as server-sent events; an id is the epoch, once all of it is there."""
        return [
            f"{_id(message)}event: {message.kind}\ndata: {text}\n\n".encode()
            for message, text in zip(messages, self._texts(messages), strict=True)
        ]

    def arrow_schema(self) -> bytes:
        """The beginning of an Arrow stream."""
        out = io.BytesIO()
        pa.ipc.new_stream(out, self._none.schema).close()
        return out.getvalue()[: -len(_END)]

    def arrow(self, messages: Sequence[Message]) -> list[bytes]:
        """Messages as batches of an Arrow stream, in lossless types."""
        return [self._written(self._batch(each.rows), _about(each)) for each in messages]

    def arrow_end(self) -> bytes:
        """A batch without rows that says that the feed has ended; else the client comes back."""
        return self._written(self._none, {"type": "end", "epoch": "0", "last": "1"})

    def _written(self, batch: pa.RecordBatch, about: dict[str, str]) -> bytes:
        out = io.BytesIO()
        with pa.ipc.new_stream(out, self._none.schema) as writer:
            writer.write_batch(batch, custom_metadata=about)
        return out.getvalue()[len(self.arrow_schema()) : -len(_END)]

    def _batch(self, rows: ZSet) -> pa.RecordBatch:
        found = self._table(rows)
        for i, field in enumerate(self._none.schema):
            if found.schema.field(i).type != field.type:  # a dictionary's
                found = found.set_column(i, field, found.column(i).cast(field.type))
        [batch] = found.combine_chunks().to_batches() or [self._none]
        return batch

    def _table(self, rows: ZSet) -> pa.Table:
        weights = pa.array(rows.weights, pa.int64())
        return rows.to_arrow(self._schema).append_column(WEIGHT, weights)


def _id(message: Message) -> str:
    return f"id: {message.epoch}\n" if message.last else ""


def _about(message: Message) -> dict[str, str]:
    last = str(int(message.last))
    return {"type": message.kind, "epoch": str(message.epoch), "last": last}


def changes(epoch: int, delta: ZSet, schema: Schema) -> Message:
    """The message of an epoch's delta."""
    return Message(CHANGES, epoch, 0, True, consolidate(delta, [type for _, type in schema]))


def snapshot(epoch: int, rows: ZSet) -> Iterator[Message]:
    """The messages of a view's rows, one at least."""
    ends = range(PART, len(rows) + PART, PART) if len(rows) else [PART]
    for part, end in enumerate(ends):
        taken = rows.slice(end - PART, min(end, len(rows)))
        yield Message(SNAPSHOT, epoch, part, end >= len(rows), taken)
