"""Map: each row through expressions, by kernels or (unnest() included) by DuckDB; linear.

Law: π(a + b) = π(a) + π(b), so a delta's output is the output's delta.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.delta_ops.linear.duck_eval import BIGINT, ROW, column_names, numbered, row_numbers, run_sql
from ivm.delta_ops.operator import CursorFactory, Kernel, Operator
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, empty


class Map(Operator):
    """Projection.

    Args:
        columns: per output column an input position, or a kernel over all input columns.
        types: the output types.
    """

    def __init__(self, columns: Sequence[int | Kernel], types: Sequence[ColumnType]) -> None:
        super().__init__(types)
        self._columns = tuple(columns)

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        (delta,) = inputs
        columns, count = delta.columns, len(delta.weights)
        out = [columns[c] if isinstance(c, int) else c(columns, count) for c in self._columns]
        return ZSet(tuple(out), delta.weights)

    def origin(self, column: int) -> int | None:
        found = self._columns[column]
        return found if isinstance(found, int) else None


class DuckMap(Operator):
    """Projection by SQL expressions, one statement a step.

    Args:
        expressions: SQL over c0, c1, … of the input; an unnest() may yield any number of rows.
        inputs: the input's types.
        types: the output's types, as DuckDB describes the expressions.
        cursor_factory: see `CursorFactory`.
    """

    why = "applied to the change alone, by a DuckDB statement"

    def __init__(
        self,
        expressions: Sequence[str],
        inputs: Sequence[ColumnType],
        types: Sequence[ColumnType],
        cursor_factory: CursorFactory,
    ) -> None:
        super().__init__(types)
        self._schema = (*column_names(inputs), (ROW, BIGINT))
        self._output = (*column_names(types), (ROW, BIGINT))
        self._sql = f"SELECT {', '.join([*expressions, ROW])} FROM delta"
        self._cursor_factory = cursor_factory

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        (delta,) = inputs
        if not len(delta):
            return empty(self.types)
        registered = {"delta": (numbered(delta.columns, len(delta)), self._schema)}
        found = run_sql(self._cursor_factory, self._sql, registered, self._output)
        return ZSet(found.columns[:-1], delta.weights[row_numbers(found.columns[-1])])

    def describe(self) -> str:
        return f"DuckMap({self._sql})"
