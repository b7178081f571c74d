"""DuckFilter: a selection whose predicate DuckDB evaluates over the delta; linear."""

from __future__ import annotations

from collections.abc import Sequence

from ivm.delta_ops.linear.duck_eval import duck_predicate
from ivm.delta_ops.linear.filter import Filter
from ivm.delta_ops.operator import CursorFactory
from ivm.storage.values.types import ColumnType


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

    def describe(self) -> str:
        return f"DuckFilter({self._condition})"
