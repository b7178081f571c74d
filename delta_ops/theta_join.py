"""Cross and non-equi join."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ivm.delta_ops.operator import CursorFactory, Operator, Predicate, Strategy
from ivm.storage.types import ColumnType


class ThetaJoin(Operator):
    """Inner join on any condition.

    Args:
        left: types of the left input.
        right: types of the right input.
        output: positions in (left columns, right columns) to put out, in order.
        condition: None for a cross join; a predicate over all columns of left and right; or SQL
            over c0, c1, … (left, then right columns numbered on), evaluated by DuckDB.
        cursor_factory: needed for a SQL condition.
    """

    strategy: ClassVar[Strategy] = "indexed"
    stateful: ClassVar[bool] = True

    def __init__(
        self,
        left: Sequence[ColumnType],
        right: Sequence[ColumnType],
        output: Sequence[int],
        condition: Predicate | str | None = None,
        cursor_factory: CursorFactory | None = None,
    ) -> None:
        both = (*left, *right)
        super().__init__([both[i] for i in output])
