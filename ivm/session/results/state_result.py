"""The result of a query that was answered from memory."""

from __future__ import annotations

import threading

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
        self._taking = threading.Lock()

    def _fetch(self, size: int | None) -> list[Row]:
        with self._taking:
            if self._rows is None and self._answer is not None:
                self._rows = self._answer.rows()
            rows = self._rows
            if rows is not None and self._answer is not None:
                end = len(rows) if size is None else self._read + size
                found = rows[self._read : end]
                self._read += len(found)
                return found
        return super()._fetch(size)

    def _held(self) -> pa.Table | None:
        """The rows that are left, as an Arrow table from here on."""
        if self._answer is not None:
            self._table = self._answer.arrow(self._read)
            self._answer = self._rows = None
        return super()._held()
