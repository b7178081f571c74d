"""A chunk of decoded lines, as bytes that Spark carries from a worker to the database.

Law: `unpacked(packed(chunk, schema), schema)` has the chunk's values bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivm.cdc.formats.events import Decoded, Events
from ivm.storage.values.column import Column, Indexes, Mask, column_from_arrow
from ivm.storage.values.types import Schema


@dataclass(frozen=True)
class Chunk:
    """Lines that follow one another in one stream.

    Attributes:
        decoded: their events, numbered by the lines of the chunk.
        texts: of the lines; NULL where nobody will ask for it.
        positions: int64[n], of the lines in the stream.
        facts: of the lines, each an array, in the order in which they were asked for.
    """

    decoded: Decoded
    texts: pa.Array
    positions: Indexes
    facts: Sequence[pa.Array] = ()


def packed(chunk: Chunk, schema: Schema) -> bytes:
    """The chunk as bytes.

    Args:
        chunk: of events of one table.
        schema: the columns of the table.
    """
    found = chunk.decoded
    lines = {"text": chunk.texts, "position": pa.array(chunk.positions)}
    lines |= {f"f{i}": array for i, array in enumerate(chunk.facts)}
    told = {
        "refused": {str(line): why for line, why in found.refused.items()},
        "truncates": found.truncates,
        "ignored": found.ignored,
        "superseded": found.superseded,
    }
    events = {"line": pa.array(found.lines), "op": pa.array(found.events.operations)}
    events |= _arrays("c", found.events.columns, schema)
    events |= _arrays("o", found.events.old or {}, schema)
    events |= {f"u{i}": pa.array(mask) for i, mask in found.events.unknown.items()}
    events |= {f"k{i}": pa.array(mask) for i, mask in found.events.unchanged.items()}
    if found.origins is not None:
        lines["origin"] = found.origins
    metadata = {"told": json.dumps(told, ensure_ascii=False)}
    sink = pa.BufferOutputStream()
    for table in (pa.table(lines).replace_schema_metadata(metadata), pa.table(events)):
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpacked(content: pa.Buffer, schema: Schema) -> Chunk:
    """The chunk of bytes that `packed` gave, whose arrays lie in the buffer."""
    source = pa.BufferReader(content)
    lines, events = (pa.ipc.open_stream(source).read_all().combine_chunks() for _ in range(2))
    told = json.loads(lines.schema.metadata[b"told"])
    old = _columns("o", events, schema)
    found = Decoded(
        Events(
            events["op"].to_numpy(),
            _columns("c", events, schema),
            _masks("u", events, schema),
            old or None,
            _masks("k", events, schema),
        ),
        events["line"].to_numpy(),
        {int(line): why for line, why in told["refused"].items()},
        told["truncates"],
        told["ignored"],
        told["superseded"],
        _one_array(lines["origin"]) if "origin" in lines.column_names else None,
    )
    facts = [_one_array(lines[name]) for name in lines.column_names if name[0] == "f"]
    return Chunk(found, _one_array(lines["text"]), lines["position"].to_numpy(), facts)


def with_texts_of(chunk: Chunk) -> Chunk:
    """The chunk with the texts of those lines alone that may become dead letters."""
    asked = np.zeros(len(chunk.texts), np.bool_)
    asked[chunk.decoded.lines] = True
    asked[list(chunk.decoded.refused)] = True
    none = pa.scalar(None, chunk.texts.type)
    texts = pc.if_else(pa.array(asked), chunk.texts, none)
    return replace(chunk, texts=texts)


def _arrays(kind: str, columns: Mapping[int, Column], schema: Schema) -> dict[str, Any]:
    return {f"{kind}{i}": column.to_arrow(schema[i][1]) for i, column in columns.items()}


def _columns(kind: str, table: pa.Table, schema: Schema) -> dict[int, Column]:
    names = set(table.column_names)
    return {
        i: column_from_arrow(table[f"{kind}{i}"], type)
        for i, (_, type) in enumerate(schema)
        if f"{kind}{i}" in names
    }


def _masks(kind: str, table: pa.Table, schema: Schema) -> dict[int, Mask]:
    names = set(table.column_names)
    places = [i for i in range(len(schema)) if f"{kind}{i}" in names]
    return {i: table[f"{kind}{i}"].to_numpy() for i in places}


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
