"""ORDER BY … LIMIT and ROW_NUMBER() ≤ k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ivm.delta_ops.operator import Operator, Strategy
from ivm.storage.layout import OrderKey
from ivm.storage.types import ColumnType, type_of


class TopK(Operator):
    """The first rows of each partition; ties follow all columns of the row.

    Args:
        inputs: the input's types.
        partition: positions of the PARTITION BY columns; none for LIMIT.
        order: the ORDER BY.
        limit: rows to keep after the offset; None for all.
        offset: rows to pass over.
        rank_column: put ROW_NUMBER() (BIGINT, counted from 1 before the offset) out as the last
            column.
    """

    strategy: ClassVar[Strategy] = "indexed"
    stateful: ClassVar[bool] = True

    def __init__(
        self,
        inputs: Sequence[ColumnType],
        partition: Sequence[int],
        order: Sequence[OrderKey],
        limit: int | None,
        offset: int = 0,
        *,
        rank_column: bool = False,
    ) -> None:
        super().__init__([*inputs, type_of("BIGINT")] if rank_column else inputs)
