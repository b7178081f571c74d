"""Lines cut out of a stream of bytes, block by block.

Law: the lines are those of the whole stream, however it is cut into blocks; a line that is no UTF-8
stands for itself, as a text that is no JSON, among its neighbours. Memory is bounded by a block and
the longest line.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ivm.cdc.sources.source import SourceError

BLOCK = 8 << 20
LONGEST = 256 << 20
_SHORT = 16  # bytes; a line that is blank or null is not longer
_NEWLINE = b"\n"


class Lines:
    """The lines of a file from some byte on.

    Args:
        read: gives the next bytes, at most so many; none where the stream ends for now.
        at: how many bytes of the text come before.
        open: the line before has been taken before its end had come.
    """

    def __init__(self, read: Callable[[int], bytes], at: int, open: bool) -> None:
        self._read = read
        self._rest = b""
        self._lines = pa.array([], pa.large_string())
        self._ends: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self.at = at
        self.open = open

    def take(self, limit: int) -> pa.Array | None:
        """The next lines, or None where the stream ends for now.

        Args:
            limit: how many at most.

        Returns:
            Large strings with their ends of line; NULL for blank lines.
        """
        while not len(self._lines):
            if not self._fill():
                return None
        found = self._lines.slice(0, limit)
        self.at += int(self._ends[len(found)] - self._ends[0])
        self._lines, self._ends = self._lines.slice(len(found)), self._ends[len(found) :]
        return found

    def has_more(self) -> bool:
        """Whether lines have been read that are not taken."""
        return len(self._lines) > 0

    def unfinished(self) -> bytes:
        """What has been read of a line whose end has not come."""
        return self._rest

    def take_unfinished(self) -> pa.Array:
        """The unfinished line as one that is whole."""
        found = _texts(self._rest, np.array([0, len(self._rest)]))
        self.at += len(self._rest)
        self._rest, self.open = b"", True
        return found

    def _fill(self) -> bool:
        block = self._read(BLOCK)
        if not block:
            return False
        data = self._closed(self._without_mark(self._rest + block))
        end = data.rfind(_NEWLINE) + 1
        self._rest = data[end:]
        if len(self._rest) > LONGEST:
            raise SourceError(f"a line is longer than {LONGEST >> 20} MiB")
        if end:
            newlines = np.flatnonzero(np.frombuffer(data, np.uint8, end) == _NEWLINE[0])
            self._ends = np.concatenate([[0], newlines + 1])
            self._lines = _texts(data, self._ends)
        return True

    def _without_mark(self, data: bytes) -> bytes:
        """Leaves out the mark with which some programs begin texts in UTF-8."""
        if self.at or not data.startswith(BOM_UTF8):
            return data
        self.at = len(BOM_UTF8)
        return data[self.at :]

    def _closed(self, data: bytes) -> bytes:
        """Leaves out the end of a line that has been taken without it."""
        if not self.open or _NEWLINE not in data:
            return data
        self.open = False
        end = data.index(_NEWLINE) + 1
        if data[:end].strip():  # the line went on: what came later is a line of its own
            return data
        self.at += end
        return data[end:]


def _texts(data: bytes, offsets: npt.NDArray[np.int64]) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    lines = pa.LargeStringArray.from_buffers(len(offsets) - 1, buffers[1], buffers[2])
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid:
        raw = lines.view(pa.large_binary()).to_pylist()
        lines = pa.array([_text(line) for line in raw], pa.large_string())
    return _without_blanks(lines, np.diff(offsets))


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return f"no UTF-8: {line.decode(errors='backslashreplace')}"


def _without_blanks(lines: pa.Array, lengths: npt.NDArray[np.int64]) -> pa.Array:
    short = np.flatnonzero(lengths <= _SHORT)
    if not len(short):
        return lines
    trimmed = pc.utf8_trim_whitespace(lines.take(pa.array(short)))
    blank = pc.is_in(trimmed, pa.array(["", "null"], trimmed.type)).to_numpy(zero_copy_only=False)
    if not blank.any():
        return lines
    kept = np.ones(len(lines), np.bool_)
    kept[short[blank]] = False
    return pc.if_else(pa.array(kept), lines, pa.scalar(None, lines.type))
