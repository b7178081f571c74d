"""A source of files that is read, left and opened again, and what it has given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ivm.cdc.sources.files import Files
from ivm.cdc.sources.source import Batch, Position, Reader


class Following:
    """Reads a source as a job does, and keeps its positions.

    Args:
        path: of the source.
        options: further ones.
    """

    def __init__(self, path: Path | str, **options: Any) -> None:
        self.source = Files(str(path), **{"format": "json appends", "settle": 3600.0, **options})
        self.positions: dict[str, Position] = {}
        self.events: list[tuple[str, int | None, str | None]] = []
        self.reader: Reader | None = None

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *exc: object) -> None:
        self.restart()

    def restart(self) -> None:
        """Closes the reader; the next one goes on from the positions."""
        if self.reader is not None:
            self.reader.close()
        self.reader = None

    def batch(self, limit: int = 1000) -> Batch | None:
        """The next batch, which counts as committed."""
        if self.reader is None:
            self.reader = self.source.open("s", "t", self.positions)
        found = self.reader.read(limit, 0)
        if found is not None:
            [part] = found.parts
            numbers = range(len(part))
            places = part.places(numbers)
            for (stream, row), text in zip(places, part.payloads(numbers), strict=True):
                self.events.append((stream, row, text))
            for stream, position in found.positions.items():
                assert position.offset > self.positions.get(stream, Position(0)).offset
            self.positions.update(found.positions)
        return found

    def read(self, limit: int = 1000) -> list[str | None]:
        """The texts of all that there is to read."""
        before = len(self.events)
        misses = 0  # the first may only have found that there is nothing new in some files
        while misses < 2:
            misses = 0 if self.batch(limit) is not None else misses + 1
        return [text for _, _, text in self.events[before:]]

    def caught_up(self) -> bool:
        """Whether everything is read."""
        assert self.reader is not None
        return self.reader.caught_up()
