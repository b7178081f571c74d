"""Files that were copied or compressed after they had been read, in whole or in part.

Law: where a file is gone or was truncated, one beside it that is new, has its name with something
else behind it (`app.log.1`, `app.log.2.gz`), and whose text begins with the bytes that were read,
is the same: it is read on from there, not from its beginning. While a file and its compressed copy
are both there, only the file is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from ivm.cdc.sources.files.identity import COMPARED, Followed, begins, mark_of
from ivm.cdc.sources.files.listing import Inode, inode_of
from ivm.cdc.sources.files.text import Text
from ivm.cdc.sources.source import SourceError

_ENDING = re.compile(r"\.(gz|zst)$")
_BEHIND = re.compile(r"(\.\d+)?(\.(gz|zst))?( \(\d+\))?$")  # what rotation, or a stream, has added
_BLOCK = 1 << 20


def compressed_copies(paths: Iterable[str], files: Iterable[Followed]) -> list[str]:
    """Those of the paths that are compressed copies of files that are there."""
    plain = {file.path for file in files if file.here}
    return [path for path in paths if _ENDING.search(path) and _ENDING.sub("", path) in plain]


class Copies:
    """Finds files again among others; it remembers how their texts begin, not to read all anew."""

    def __init__(self) -> None:
        self._heads: dict[Inode, tuple[int, str]] = {}

    def become(self, file: Followed, paths: Mapping[str, Inode]) -> str | None:
        """The path at which a file is now, if it was copied or compressed, and makes it that.

        Args:
            file: is gone.
            paths: of files that may be copies of it, and their inodes.
        """
        if not file.seen:
            return None
        name = re.escape(_BEHIND.sub("", os.path.basename(file.stream)))
        alike = re.compile(rf"{name}\b")
        for path, inode in paths.items():
            if alike.match(os.path.basename(path)) and self._becomes(file, path, inode):
                return path
        return None

    def _becomes(self, file: Followed, path: str, inode: Inode) -> bool:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return False
        try:
            status = os.fstat(descriptor)
            if inode_of(status) != inode:  # renamed meanwhile
                return False
            if not file.is_in(descriptor):
                if not self._has_text(file, descriptor, status):
                    return False
                file.see(descriptor, status.st_size)
            file.look(path, status)
            return True
        except SourceError:  # it is damaged, which is told when it is read
            return False
        finally:
            os.close(descriptor)

    def _has_text(self, file: Followed, descriptor: int, status: os.stat_result) -> bool:
        if file.at != file.seen:  # it is known by bytes that are no text
            return False
        copy = Followed("", "", *inode_of(status), size=status.st_size)
        head = self._head(copy, descriptor, status)
        if head and file.at >= COMPARED and not file.mark.startswith(head):
            return False
        return _mark(Text(copy, descriptor, 0), file.at) == file.mark

    def _head(self, copy: Followed, descriptor: int, status: os.stat_result) -> str:
        """The fingerprint of the first bytes of a text; "" if it has fewer than are compared."""
        changed, head = self._heads.get(inode_of(status), (0, ""))
        if changed != status.st_mtime_ns:  # an inode is used again
            text = _begin(Text(copy, descriptor, 0))
            head = begins(text) if len(text) == COMPARED else ""
            self._heads[inode_of(status)] = status.st_mtime_ns, head
        return head


def _begin(text: Text) -> bytes:
    """The first bytes of a text, as many as are compared."""
    head = b""
    while len(head) < COMPARED and (block := text.read(COMPARED)):
        head += block
    return head[:COMPARED]


def _mark(text: Text, size: int) -> str:
    """The fingerprint of the first bytes of a text; "" if it has not so many."""
    seen, head, tail = 0, b"", b""
    while seen < size:
        block = text.read(_BLOCK)[: size - seen]
        if not block:
            return ""
        seen += len(block)
        head = (head + block)[:COMPARED] if len(head) < COMPARED else head
        tail = (tail + block)[-COMPARED:]
    return mark_of(head, tail)
