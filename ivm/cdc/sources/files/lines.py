"""JSON lines of a file.

Law: a line that is no UTF-8 stands for itself among its neighbours, as a text that is no JSON. A
last line without its end is taken only if it is an object, to which nothing can be added.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivm.cdc.formats.texts import texts_of
from ivm.cdc.sources.files.cut_text import CutText
from ivm.cdc.sources.files.cutter import Cutter, Offsets, line_ends
from ivm.cdc.sources.files.identity import Followed
from ivm.cdc.sources.files.text import Text

_SHORT = 16  # bytes; a line that is blank or null is not longer


class Lines(CutText):
    """See `Rows`; they are large strings with their ends of line, NULL for blank lines."""

    def __init__(self, file: Followed, descriptor: int) -> None:
        self._text = Text(file, descriptor, file.at)
        self._cutter = Cutter(self._text.read, line_ends, file.at, file.open)

    def take(self, limit: int, settled: bool) -> pa.Array | None:
        """See `Rows`."""
        found = self._cutter.take(limit)
        if found is None and settled and self.waits() and _is_object(self._cutter.rest):
            found = self._cutter.take_rest()
        return None if found is None else _texts(*found)

    def waits(self) -> bool:
        """See `Rows`."""
        text = self._cutter.rest
        return text.lstrip()[:1] == b"{" and text.rstrip()[-1:] == b"}"


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _texts(data: bytes, offsets: Offsets) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    lines = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
    try:
        lines.validate(full=True)
    except pa.ArrowInvalid:
        lines = texts_of(lines.view(pa.large_binary()))
    return _without_blanks(lines, offsets)


def _without_blanks(lines: pa.Array, offsets: Offsets) -> pa.Array:
    short = np.flatnonzero(np.diff(offsets) <= _SHORT)
    if not len(short):
        return lines
    trimmed = pc.utf8_trim_whitespace(lines.take(pa.array(short)))
    blank = pc.is_in(trimmed, pa.array(["", "null"], trimmed.type)).to_numpy(zero_copy_only=False)
    if not blank.any():
        return lines
    kept = np.ones(len(lines), np.bool_)
    kept[short[blank]] = False
    return pc.if_else(pa.array(kept), lines, pa.scalar(None, lines.type))
