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

    def take(self, limit: int, *, whole: bool = False) -> list[tuple[int, bytes]]:
        """Removes the first messages.

        Args:
            limit: at most so many.
            whole: and those behind them that have the number of the last one.
        """
        found: list[tuple[int, bytes]] = []
        self._file.seek(self._read)
        while len(found) < (self._count if whole else min(limit, self._count)):
            number, size = _FRAME.unpack(self._file.read(_FRAME.size))
            if len(found) >= limit and number != found[-1][0]:
                break
            found.append((number, self._file.read(size)))
            self._read += _FRAME.size + size
        self._count -= len(found)
        if not self._count:
            self._file.seek(0)
            self._file.truncate()
            self._read = self._end = 0
        return found

    def close(self) -> None:
        """Drops the messages."""
        self._file.close()
