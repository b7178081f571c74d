"""Files that were copied or compressed after they had been read, in whole or in part.

Law: where a file is gone or was truncated, one beside it that is new, has its name with something
behind it (`app.log.1`, `app.log.1.gz`), and whose text begins with the bytes that were read, is the
same: it is read on from there, not from its beginning. While a file and its compressed copy are
both there, only the file is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from ivm.cdc.sources.files.identity import COMPARED, Followed, begins, mark_of
from ivm.cdc.sources.files.text import Text
from ivm.cdc.sources.source import SourceError

_ENDING = re.compile(r"\.(gz|zst)$")
_LATER = re.compile(r" \(\d+\)$")
_BLOCK = 1 << 20


def compressed_copies(paths: Iterable[str], files: Iterable[Followed]) -> list[str]:
    """Those of the paths that are compressed copies of files that are there."""
    plain = {file.path for file in files if file.here}
    return [path for path in paths if _ENDING.search(path) and _ENDING.sub("", path) in plain]


def become_copy(file: Followed, paths: Iterable[str]) -> str | None:
    """The path at which the file is now, if it was copied or compressed, and makes it that."""
    if not file.seen:
        return None
    name = re.escape(os.path.basename(_LATER.sub("", file.stream)))
    alike = re.compile(rf"{name}\b")
    for path in paths:
        if alike.match(os.path.basename(path)) and _become(file, path):
            return path
    return None


def _become(file: Followed, path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        status = os.fstat(descriptor)
        copy = Followed(path, path, 0, 0, size=status.st_size)
        if not file.is_in(descriptor):
            if not _has_text(file, Text(copy, descriptor, 0)):
                return False
            file.see(descriptor, status.st_size)
        file.look(path, status)
        return True
    except SourceError:  # it is damaged, which is told when it is read
        return False
    finally:
        os.close(descriptor)


def _has_text(file: Followed, text: Text) -> bool:
    if file.at != file.seen:  # it is known by bytes that are no text
        return False
    seen, head, tail = 0, b"", b""
    while seen < file.at:
        block = text.read(_BLOCK)[: file.at - seen]
        seen += len(block)
        head = (head + block)[:COMPARED] if len(head) < COMPARED else head
        tail = (tail + block)[-COMPARED:]
        if not block or (seen >= COMPARED and not file.mark.startswith(begins(head))):
            return False
    return mark_of(head, tail) == file.mark
