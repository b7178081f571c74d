"""DuckUnnest: each row once for every row that a table function of DuckDB gives for it; linear.

Law: the rows of an input row are a function of it alone, so its weight is theirs. DuckDB sees the
arguments and a row number; the columns that are passed on stay here, bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.delta_ops.linear.duck_eval import BIGINT, ROW, column_names, numbered, row_numbers, run_sql
from ivm.delta_ops.operator import CursorFactory, Operator
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, empty


class DuckUnnest(Operator):
    """Columns of a table function beside columns that are passed on, one statement a step.

    Args:
        kept: types and positions of the columns to pass on.
        arguments: types and positions of the columns that the function is called with.
        elements: the types of the function's columns.
        columns: SQL of the function's columns.
        source: SQL of `delta` beside the function; it calls the columns by their positions.
        cursor_factory: see `CursorFactory`.
    """

    why = "applied to the change alone, by a DuckDB statement"

    def __init__(
        self,
        kept: Sequence[tuple[ColumnType, int]],
        arguments: Sequence[tuple[ColumnType, int]],
        elements: Sequence[ColumnType],
        columns: Sequence[str],
        source: str,
        cursor_factory: CursorFactory,
    ) -> None:
        super().__init__([*[t for t, _ in kept], *elements])
        self._kept = tuple(i for _, i in kept)
        self._arguments = tuple(i for _, i in arguments)
        self._schema = (*[(f"c{i}", t) for t, i in arguments], (ROW, BIGINT))
        self._output = (*column_names(elements), (ROW, BIGINT))
        self._sql = f"SELECT {', '.join([*columns, ROW])} FROM {source}"
        self._cursor_factory = cursor_factory

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        (delta,) = inputs
        if not len(delta):
            return empty(self.types)
        arguments = [delta.columns[i] for i in self._arguments]
        lent = {"delta": (numbered(arguments, len(delta)), self._schema)}
        found = run_sql(self._cursor_factory, self._sql, lent, self._output)
        rows = row_numbers(found.columns[-1])
        kept = [delta.columns[i].take(rows) for i in self._kept]
        return ZSet((*kept, *found.columns[:-1]), delta.weights[rows])

    def describe(self) -> str:
        return f"DuckUnnest({self._sql})"
