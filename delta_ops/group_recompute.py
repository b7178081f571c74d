"""Any function of a group: its own SQL over the touched groups, old and new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ivm.delta_ops.operator import CursorFactory, Operator, Strategy
from ivm.storage.types import ColumnType


class GroupRecompute(Operator):
    """The difference of a query's answers over the touched groups' rows.

    Args:
        inputs: the input's types.
        partition: positions of the columns by which the query is separable; none for one group of
            all rows.
        sql: a SELECT over the table `delta` with columns c0, c1, …, one row per unit of weight.
        types: the output's types, as DuckDB describes `sql`.
        cursor_factory: see `CursorFactory`.
    """

    strategy: ClassVar[Strategy] = "group recompute"
    stateful: ClassVar[bool] = True

    def __init__(
        self,
        inputs: Sequence[ColumnType],
        partition: Sequence[int],
        sql: str,
        types: Sequence[ColumnType],
        cursor_factory: CursorFactory,
    ) -> None:
        super().__init__(types)
