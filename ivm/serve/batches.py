"""The rows of a result in batches of some thousand rows, and of some megabytes at most.

Law: a batch has rows as long as there are any; what a client is sent at a time takes a few times a
batch's memory, however large its values are.
"""

from __future__ import annotations

import pyarrow as pa

from ivm.session.results.result import Result

_ROWS = 20_000
_BYTES = 1 << 22


class Batches:
    """Reads a result.

    Args:
        result: of kind "rows".
    """

    def __init__(self, result: Result) -> None:
        self._result = result
        self._left: pa.Table | None = None

    def next(self) -> pa.Table | None:
        """The next rows as a lossless Arrow table; None after the last."""
        taken: list[pa.Table] = []
        rows = size = 0
        while rows < _ROWS and size < _BYTES and (table := self._read()) is not None:
            each = max(table.nbytes // len(table), 1)
            count = max(min(len(table), _ROWS - rows, (_BYTES - size) // each), 1)
            if count < len(table):
                self._left = table.slice(count)
            taken.append(table.slice(0, count))
            rows, size = rows + count, size + count * each
        return pa.concat_tables(taken).combine_chunks() if taken else None

    def _read(self) -> pa.Table | None:
        if self._left is not None:
            left, self._left = self._left, None
            return left
        return self._result.batch()
