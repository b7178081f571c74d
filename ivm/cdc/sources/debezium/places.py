"""Where an engine goes on: the files that it reads at its beginning, made of our positions.

Law: what an engine writes into these files is never read again, but for the history of the schema,
which goes into our positions with the next batch. That history may be ahead of the position: the
engine leaves out what is behind the place at which it begins.
"""

from __future__ import annotations

import base64
import json
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ivm.cdc.sources.debezium.jvm import java
from ivm.cdc.sources.source import Position

HISTORY = "schema history"
"""The stream whose detail is the history of the schema."""


def place_of(event: Any) -> tuple[str, str]:
    """The stream of an event, and the place in it after the event, both as JSON."""
    mapper, record = java("com.fasterxml.jackson.databind.ObjectMapper")(), event.sourceRecord()
    partition, offset = record.sourcePartition(), record.sourceOffset()
    return str(mapper.writeValueAsString(partition)), str(mapper.writeValueAsString(offset))


def is_complete(place: str) -> bool:
    """Whether an engine that begins at a place goes on after the copy, and does not copy anew."""
    found = json.loads(place)
    return found.get("snapshot") is None or found.get("snapshot_completed") is True


class Places:
    """A folder of these files.

    Args:
        prefix: what the engine calls the source.
        places: by stream; empty to begin with a copy.
        history: of the schema, as `Places.history` gave it.
    """

    def __init__(self, prefix: str, places: Mapping[str, str], history: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ivm_debezium_")
        self._offsets = Path(self._folder.name, "offsets")
        self._history = Path(self._folder.name, "history")
        self._known = len(zlib.decompress(base64.b64decode(history))) if history else 0
        if places:
            _write_offsets(self._offsets, prefix, places)
        if history:
            self._history.write_bytes(zlib.decompress(base64.b64decode(history)))

    @property
    def properties(self) -> dict[str, str]:
        """The engine's properties that name the files."""
        return {
            "offset.storage.file.filename": str(self._offsets),
            "schema.history.internal.file.filename": str(self._history),
        }

    def history(self) -> str | None:
        """The history of the schema, if it has grown since it was last asked for."""
        if not self._history.exists() or self._history.stat().st_size <= self._known:
            return None
        text = self._history.read_bytes()
        text = text[: text.rfind(b"\n") + 1]  # the last line may not be written yet
        if len(text) <= self._known:
            return None
        self._known = len(text)
        return base64.b64encode(zlib.compress(text)).decode()

    def remove(self) -> None:
        """Removes the folder."""
        self._folder.cleanup()


def places_in(positions: Mapping[str, Position]) -> dict[str, str]:
    """The places by stream, as they are among a source's positions."""
    return {stream: at.detail for stream, at in positions.items() if stream.startswith("{")}


def _write_offsets(path: Path, prefix: str, places: Mapping[str, str]) -> None:
    """Writes them as Kafka Connect's file of offsets."""
    converter = java("org.apache.kafka.connect.json.JsonConverter")()
    converter.configure(java("java.util.Map").of("schemas.enable", "false"), True)
    mapper, bytes_of = (
        java("com.fasterxml.jackson.databind.ObjectMapper")(),
        java("java.lang.String"),
    )
    found = java("java.util.HashMap")()
    for stream, place in places.items():
        partition = mapper.readValue(stream, java("java.util.HashMap").class_)
        key = java("java.util.ArrayList")()
        key.add(prefix)
        key.add(partition)
        found.put(converter.fromConnectData("", None, key), bytes_of(place).getBytes("UTF-8"))
    file = java("java.io.FileOutputStream")(str(path))
    stream = java("java.io.ObjectOutputStream")(file)
    stream.writeObject(found)
    stream.close()
