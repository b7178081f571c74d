"""The text of an open file, which may be compressed with gzip or zstd.

Contract: what a file is compressed with is seen from its first bytes, not from its name, which
changes when logs are rotated. Compressed members may follow one another; of one that is still being
written, the text comes as far as it can be read.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

from ivm.cdc.sources.files.identity import Followed
from ivm.cdc.sources.source import SourceError

_GZIP, _ZSTD = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"
_SKIPPED = b"\x2a\x4d\x18"  # behind 0x5?, of frames that zstd skips; pzstd begins with one
_BLOCK = 1 << 16


class Text:
    """Reads the text of a file on, up to the size that it had when it was last looked at.

    Args:
        file: which it is.
        descriptor: of the open file.
        at: the first byte of the text.
    """

    def __init__(self, file: Followed, descriptor: int, at: int) -> None:
        self._file = file
        self._descriptor = descriptor
        self._position = 0
        self._skip = at
        self._compression: bytes | None = None
        self._member: Any = None
        self._tail = b""
        self._members = 0

    def read(self, count: int) -> bytes:
        """The next bytes, about so many; none where the text ends for now."""
        if self._compression is None and not self._find_compression():
            return b""
        if not self._compression:
            return self._raw(count)
        found = b""
        while not found and (raw := self._tail or self._raw(_BLOCK)):
            found = self._skipped(self._inflated(raw))
        return found

    def has_more(self) -> bool:
        """Whether there are bytes that were not read."""
        return self._position < self._file.size or bool(self._tail)

    def sure(self, at: int) -> int:
        """How many bytes of the file will stay what they are, so that it is known by them.

        Args:
            at: how far the text was taken.
        """
        return at if not self._compression else self._members or self._position

    def passed(self, at: int) -> int:
        """How many bytes of the file were read.

        Args:
            at: how far the text was taken.
        """
        return self._position if self._compression else at

    def _find_compression(self) -> bool:
        head = os.pread(self._descriptor, min(len(_ZSTD), self._file.size), 0)
        for magic in (_GZIP, _ZSTD):
            if head.startswith(magic):
                self._compression = magic
                return True
            if magic.startswith(head):  # it has just begun
                return False
        if head[0] >> 4 == 5 and head[1:] and _SKIPPED.startswith(head[1:]):
            self._compression = _ZSTD if len(head) == len(_ZSTD) else None
            return self._compression is not None
        self._compression, self._position = b"", self._skip
        return True

    def _raw(self, count: int) -> bytes:
        left = max(0, self._file.size - self._position)
        found = os.pread(self._descriptor, min(count, left), self._position)
        self._position += len(found)
        return found

    def _inflated(self, raw: bytes) -> bytes:
        self._tail = b""
        if self._member is None:
            raw = raw.lstrip(b"\0")  # padding between members
            if not raw:
                return b""
            self._member = _new_member(self._compression)
        try:
            found: bytes = self._member.decompress(raw)
        except Exception as error:  # each library has its own
            raise SourceError(f"it is damaged before byte {self._position} ({error})") from error
        if self._member.eof:
            self._tail, self._member = self._member.unused_data, None
            self._members = self._position - len(self._tail)
        return found

    def _skipped(self, text: bytes) -> bytes:
        found = text[self._skip :]
        self._skip -= len(text) - len(found)
        return found


def _new_member(compression: bytes | None) -> Any:
    if compression == _GZIP:
        return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        import zstandard
    except ImportError:
        raise SourceError(
            "it is compressed with zstd, for which a package is missing: pip install 'ivmdb[zstd]'"
        ) from None
    return zstandard.ZstdDecompressor().decompressobj()
