"""The result of a query that was answered from memory."""

from __future__ import annotations

import pyarrow as pa

from ivm.reads.answer import Answer
from ivm.session.results.result import Result, Row


class StateResult(Result):
    """Rows that are in memory already; they become Python objects or Arrow when they are asked for.

    Args:
        answer: the rows.
        rowcount: rows changed, if a change returns them.
    """

    def __init__(self, answer: Answer, rowcount: int = -1) -> None:
        shape = answer.shape
        super().__init__("rows", shape.names, [type.sql for type in shape.types], rowcount)
        self._answer: Answer | None = answer
        self._rows: list[Row] | None = None
        self._read = 0

    def fetchmany(self, size: int | None = 1) -> list[Row]:
        """See `Result.fetchmany`."""
        if self._rows is None and self._answer is not None:
            self._rows = self._answer.rows()
        rows = self._rows
        if rows is None or self._answer is None:
            return super().fetchmany(size)
        if size is None or size < 0:
            size = len(rows)
        found = rows[self._read : self._read + size]
        self._read += len(found)
        return found

    def _held(self) -> pa.Table | None:
        """The rows that are left, as an Arrow table from here on."""
        if self._answer is not None:
            self._table = self._answer.arrow(self._read)
            self._answer = self._rows = None
        return super()._held()
