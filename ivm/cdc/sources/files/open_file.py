"""A file that is open at the row where it was left."""

from __future__ import annotations

import json
import os

import pyarrow as pa

from ivm.cdc.sources.files.folder import forbidden
from ivm.cdc.sources.files.identity import Followed
from ivm.cdc.sources.files.lines import Lines
from ivm.cdc.sources.source import SourceError


class OpenFile:
    """Reads a file on, up to the size that it had when the folder was last looked at.

    Raises:
        FileNotFoundError: it is gone, or another file has its place.
        SourceError: it may not be read.
    """

    def __init__(self, file: Followed) -> None:
        self._file = file
        try:
            self._descriptor = os.open(file.path, os.O_RDONLY)
        except PermissionError:
            raise forbidden(file.path) from None
        if not file.is_in(self._descriptor):
            self.close()
            raise FileNotFoundError(file.path)
        self._position = file.at
        self._lines = Lines(self._read, file.at, file.open)

    def take(self, limit: int) -> pa.Array | None:
        """The next rows, at most so many; None if there are none for now."""
        try:
            found = self._lines.take(limit)
        except SourceError as error:
            raise SourceError(f"{self._file.path!r}, row {self._file.rows + 1}: {error}") from None
        if found is None and self._file.settled and _is_object(self._lines.unfinished()):
            found = self._lines.take_unfinished()
        if found is not None:
            self._note(len(found))
        return found

    def drained(self) -> None:
        """Notes that there are no rows for now."""
        file = self._file
        file.drained, file.more = (file.size, file.changed), False
        file.waits = not file.settled and _may_be_object(self._lines.unfinished())

    def is_here(self) -> bool:
        """Whether the file is still there."""
        return self._file.here

    def close(self) -> None:
        """Closes it."""
        os.close(self._descriptor)

    def _read(self, count: int) -> bytes:
        left = max(0, self._file.size - self._position)
        found = os.pread(self._descriptor, min(count, left), self._position)
        self._position += len(found)
        return found

    def _note(self, rows: int) -> None:
        file = self._file
        file.rows += rows
        file.at, file.open = self._lines.at, self._lines.open
        file.more = self._lines.has_more() or self._position < file.size
        file.see(self._descriptor, file.at)


def _may_be_object(line: bytes) -> bool:
    return line.lstrip()[:1] == b"{" and line.rstrip()[-1:] == b"}"


def _is_object(line: bytes) -> bool:
    """Whether a line that has no end is an object, to which nothing can be added."""
    try:
        return _may_be_object(line) and isinstance(json.loads(line), dict)
    except ValueError:
        return False
