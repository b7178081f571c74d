"""Filter: the rows for which a predicate holds, evaluated by a kernel or by DuckDB; linear.

Law: σ(a + b) = σ(a) + σ(b), so the filtered delta is the output's delta.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.delta_ops.linear.duck_eval import duck_predicate
from ivm.delta_ops.operator import CursorFactory, Operator, Predicate
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet


class Filter(Operator):
    """Selection, with the columns that only the predicate needs dropped on the way.

    Args:
        predicate: over all input columns.
        types: the output types.
        keep: positions of the input columns to pass on; None for all.
    """

    def __init__(
        self,
        predicate: Predicate,
        types: Sequence[ColumnType],
        keep: Sequence[int] | None = None,
    ) -> None:
        super().__init__(types)
        self._predicate = predicate
        self._keep = None if keep is None else tuple(keep)

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        (delta,) = inputs
        mask = self._predicate(delta.columns, len(delta.weights))
        if self._keep is not None:
            delta = delta.project(self._keep)
        found = mask.nonzero()[0]
        return delta if len(found) == len(mask) else delta.take(found)

    def origin(self, column: int) -> int | None:
        return column if self._keep is None else self._keep[column]


class DuckFilter(Filter):
    """Selection by a SQL condition, one statement a step.

    Args:
        condition: SQL over c0, c1, … of the input.
        inputs: the input's types.
        cursor_factory: see `CursorFactory`.
        keep: positions of the input columns to pass on; None for all.
    """

    why = "applied to the change alone, by a DuckDB statement"

    def __init__(
        self,
        condition: str,
        inputs: Sequence[ColumnType],
        cursor_factory: CursorFactory,
        keep: Sequence[int] | None = None,
    ) -> None:
        kept = inputs if keep is None else [inputs[i] for i in keep]
        super().__init__(duck_predicate(condition, inputs, cursor_factory), kept, keep)
        self._condition = condition

    def origin(self, column: int) -> int | None:
        return None

    def describe(self) -> str:
        return f"DuckFilter({self._condition})"
