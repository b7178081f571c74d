"""The segment file that is written to: what stands behind its end, and its synced mark.

Contract: what was written before `sync` began is there after any crash once that has returned; what
`cut` has removed never is. The caller orders the calls; `sync` and `mark` may run beside `write`.
Behind the end, room for small records is reserved: what is written there moves no end of the file
that a sync would have to write, too.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from ivm.storage.durable_files import reserve, sync_data, write_all
from ivm.storage.log.segment import MARK_AT, SegmentHeader, header_bytes, mark_bytes
from ivm.storage.place import Place

_RESERVED = 1 << 16  # bytes, which a hundred small records fill
_SIZED = (np.ndarray, memoryview)  # their length is not their size
_CLOSED = -1


class SegmentWriter:
    """A segment that is open for writing; without arguments one that is closed.

    Args:
        fd: its file, of which the position is the end.
        end: its length in bytes.

    Attributes:
        end: offset behind the last record that counts, for the caller to move.
    """

    def __init__(self, fd: int = _CLOSED, end: int = 0) -> None:
        self.end = end
        self._fd = fd
        self._room_end = end  # up to which no room is to be reserved: there is some, or was none

    @staticmethod
    def create(path: Path, header: SegmentHeader) -> SegmentWriter:
        """A new file, durable but for its name.

        Raises:
            OSError: the disk refuses.
        """
        body = header_bytes(header)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            write_all(fd, [body])
            os.fsync(fd)
        except BaseException:
            os.close(fd)
            raise
        return SegmentWriter(fd, len(body))

    @property
    def is_open(self) -> bool:
        """Whether it can be written to."""
        return self._fd != _CLOSED

    def at(self, path: Path) -> Place:
        """The file's place, now that it has this path."""
        return Place(path, self._fd)

    def write(self, buffers: list[Any]) -> int:
        """Writes buffers behind the end, which stays; returns the offset behind them.

        Raises:
            OSError: an unknown part of them is written.
        """
        size = size_of(buffers)
        if size < _RESERVED and self.end + size > self._room_end:
            self._room_end = self.end + _RESERVED
            reserve(self._fd, self.end, _RESERVED)
        write_all(self._fd, buffers)
        return self.end + size

    def write_before(self, end: int, data: bytes) -> None:
        """Writes bytes that end at an offset, in the place of others."""
        os.pwrite(self._fd, data, end - len(data))

    def mark(self, synced: int) -> None:
        """Sets the synced mark."""
        os.pwrite(self._fd, mark_bytes(synced), MARK_AT)

    def sync(self) -> None:
        """Makes what is written durable."""
        sync_data(self._fd)

    def cut(self, end: int) -> None:
        """Removes what stands behind an offset, durably: else it might be there after a crash."""
        os.ftruncate(self._fd, end)
        self._room_end = end
        os.lseek(self._fd, end, os.SEEK_SET)
        self.sync()

    def trim(self) -> None:
        """Gives back the room, for good manners: zeros behind the last record are no damage."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, self.end)

    def close(self) -> None:
        """Closes the file."""
        fd, self._fd = self._fd, _CLOSED
        if fd != _CLOSED:
            os.close(fd)


def size_of(buffers: list[Any]) -> int:
    """The length of buffers in bytes."""
    return sum([b.nbytes if isinstance(b, _SIZED) else len(b) for b in buffers])
