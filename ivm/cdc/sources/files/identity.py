"""Which file a file is, whatever it is called: the one read before, or another.

Law: a file is the one that was read before if it has the same inode or the same path, and begins
with the bytes that were read; of these the first and the last are compared. So a renamed file is
known again, and one that was truncated or replaced is another, though it has the name.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass

from ivm.cdc.sources.source import Position

COMPARED = 1024
"""Bytes at either end by which a file is known."""
_STORED = ("path", "device", "inode", "at", "open", "seen", "mark", "more")


@dataclass(eq=False)
class Followed:
    """A file, how far it has been read, and what it looked like.

    Attributes:
        stream: its name as a stream of the source: the path at which it was first seen, and a
            number if an earlier file was there.
        path: where it is now, or was last.
        device, inode: where the file system has it.
        rows: how many have been read.
        at: how many bytes of the text they are.
        open: the last one was taken before its end of line had come.
        seen: a size that the file has had.
        mark: of the bytes until then, see `mark`.
        more: whether it had rows that were not read.
        passed: how many bytes of the file were read, about.
        here: whether there is such a file.
        size, changed: as the file system told last, in bytes and nanoseconds.
        drained: `size` and `changed` when there was nothing left to read.
        settled: it has not been changed for long enough to take a last line without its end.
        waits: it has such a line.
    """

    stream: str
    path: str
    device: int
    inode: int
    rows: int = 0
    at: int = 0
    open: bool = False
    seen: int = 0
    mark: str = ""
    more: bool = False
    passed: int = 0
    here: bool = True
    size: int = 0
    changed: int = 0
    drained: tuple[int, int] = (0, 0)
    settled: bool = False
    waits: bool = False

    @classmethod
    def stored(cls, stream: str, position: Position) -> Followed:
        """The file of a stored position."""
        known = json.loads(position.detail)
        return cls(stream=stream, rows=position.offset, passed=known["seen"], **known)

    def is_unread(self) -> bool:
        """Whether it is known to have rows that were not read."""
        return self.more or self.size > max(self.seen, self.drained[0])

    def position(self) -> Position:
        """What is stored of it."""
        detail = {name: getattr(self, name) for name in _STORED}
        return Position(self.rows, json.dumps(detail, ensure_ascii=False))

    def see(self, descriptor: int, size: int) -> None:
        """Notes what its first bytes are."""
        self.seen, self.mark = size, mark(descriptor, size)

    def is_in(self, descriptor: int) -> bool:
        """Whether an open file is this one."""
        if os.fstat(descriptor).st_size < self.seen:
            return False
        return not self.seen or mark(descriptor, self.seen) == self.mark

    def look(self, path: str, status: os.stat_result) -> None:
        """Takes over what the file system tells."""
        self.path, self.device, self.inode = path, status.st_dev, status.st_ino
        self.size, self.changed, self.here = status.st_size, status.st_mtime_ns, True


def mark(descriptor: int, size: int) -> str:
    """A fingerprint of the first bytes of an open file: of their beginning, and of their end."""
    count = min(size, COMPARED)
    return mark_of(os.pread(descriptor, count, 0), os.pread(descriptor, count, size - count))


def mark_of(head: bytes, tail: bytes) -> str:
    """The fingerprint of bytes of which these are the first and the last `COMPARED`."""
    return begins(head) + hashlib.blake2b(tail, digest_size=8).hexdigest()


def begins(head: bytes) -> str:
    """With what the fingerprint begins."""
    return hashlib.blake2b(head, digest_size=8).hexdigest()
