"""Records cut out of a stream of bytes, block by block: of lines, or rows of CSV.

Law: the records are those of the whole stream, however it is cut into blocks. Memory is bounded by
a block and the longest record.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ivm.cdc.sources.source import SourceError

Offsets = npt.NDArray[np.int64]

BLOCK = 4 << 20
LONGEST = 256 << 20
_NEWLINE = b"\n"


class Cutter:
    """The records of a file from some byte on.

    Args:
        read: gives the next bytes, about so many; none where the stream ends for now.
        ends: where records end in bytes that begin with one: behind their ends of line.
        at: how many bytes of the text come before.
        open: the record before has been taken before its end had come.
    """

    def __init__(
        self,
        read: Callable[[int], bytes],
        ends: Callable[[bytes], Offsets],
        at: int,
        open: bool,
    ) -> None:
        self._read = read
        self._cut = ends
        self._data = b""
        self._offsets: Offsets = np.zeros(1, np.int64)
        self.rest = b""
        self.at = at
        self.open = open

    def take(self, limit: int) -> tuple[bytes, Offsets] | None:
        """The next records, at most so many; None where the stream ends for now.

        Returns:
            Bytes, and where in them the records begin, and the last one ends.
        """
        while not self.has_more():
            if not self._fill():
                return None
        found = self._offsets[: limit + 1]
        self.at += int(found[-1] - found[0])
        self._offsets = self._offsets[len(found) - 1 :]
        return self._data, found

    def has_more(self) -> bool:
        """Whether records have been read that are not taken."""
        return len(self._offsets) > 1

    def take_rest(self) -> tuple[bytes, Offsets]:
        """What has been read of a record whose end has not come, as one that is whole."""
        data, self.rest, self.open = self.rest, b"", True
        self.at += len(data)
        return data, np.array([0, len(data)])

    def _fill(self) -> bool:
        block = self._read(max(BLOCK, len(self.rest)))
        if not block:
            return False
        data = self._closed(self._without_mark(self.rest + block))
        offsets = self._cut(data)
        end = int(offsets[-1]) if len(offsets) else 0
        self.rest = data[end:]
        if len(self.rest) > LONGEST:
            raise SourceError(f"a row is longer than {LONGEST >> 20} MiB: mend the file")
        self._data, self._offsets = data, np.concatenate([np.zeros(1, np.int64), offsets])
        return True

    def _without_mark(self, data: bytes) -> bytes:
        """Leaves out the mark with which some programs begin texts in UTF-8."""
        if self.at or not data.startswith(BOM_UTF8):
            return data
        self.at = len(BOM_UTF8)
        return data[self.at :]

    def _closed(self, data: bytes) -> bytes:
        """Leaves out the end of a record that has been taken without it."""
        if not self.open or _NEWLINE not in data:
            return data
        self.open = False
        end = data.index(_NEWLINE) + 1
        if data[:end].strip():  # the record went on: what came later is one of its own
            return data
        self.at += end
        return data[end:]


def line_ends(data: bytes) -> Offsets:
    """Behind each end of line."""
    return np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE[0]) + 1
