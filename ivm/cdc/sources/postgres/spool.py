"""A queue of messages that lies in a file when it is large."""

from __future__ import annotations

from struct import Struct
from tempfile import SpooledTemporaryFile

_IN_MEMORY = 32 << 20
_FRAME = Struct(">QI")


class Spool:
    """Messages in order, each with a number of its owner's; `close` it."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 (closed by its owner)
        self._read, self._end, self._count = 0, 0, 0

    def __len__(self) -> int:
        return self._count

    def add(self, number: int, message: bytes) -> None:
        """Adds a message."""
        self._file.seek(self._end)
        self._file.write(_FRAME.pack(number, len(message)) + message)
        self._end = self._file.tell()
        self._count += 1

    def take(self, limit: int) -> list[tuple[int, bytes]]:
        """Removes the first messages, at most so many."""
        found = []
        self._file.seek(self._read)
        for _ in range(min(limit, self._count)):
            number, size = _FRAME.unpack(self._file.read(_FRAME.size))
            found.append((number, self._file.read(size)))
        self._read, self._count = self._file.tell(), self._count - len(found)
        if not self._count:
            self._file.seek(0)
            self._file.truncate()
            self._read = self._end = 0
        return found

    def close(self) -> None:
        """Drops the messages."""
        self._file.close()
