"""Arrange: the integral of a delta, indexed by a key and shared by all readers.

Law: within a step `before` is the integral without the step's delta and `after` with it, so the
product rule reads both at no cost; the output is the input, unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from ivm.delta_ops.operator import Fetch, Operator, Strategy
from ivm.delta_ops.state.partitions import Partitions
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.values.column import Column
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet


class Arrange(Operator):
    """An arrangement kept up to date.

    Args:
        types: the input's (and output's) types; all columns are stored.
        key: positions of the key columns; none for all rows under one key, of which a column more
            is stored.
        order: the order of rows under one key.
    """

    strategy: ClassVar[Strategy] = "indexed"
    why: ClassVar[str] = "sorted by the key, for lookups"
    stateful: ClassVar[bool] = True
    transparent: ClassVar[bool] = True

    def __init__(
        self,
        types: Sequence[ColumnType],
        key: Sequence[int],
        order: Sequence[OrderKey] = (),
    ) -> None:
        super().__init__(types)
        self.key = tuple(key)
        self.order = tuple(order)
        self._rows = Partitions(self.types, self.key, order)
        self.parts = (self._rows,)

    @property
    def before(self) -> Arrangement:
        return self._rows.before

    @property
    def after(self) -> Arrangement:
        return self._rows.after

    def keys(self, rows: ZSet) -> tuple[Column, ...]:
        """The key's columns of rows of the input."""
        return self._rows.layout.key_columns(self._rows.keyed(rows).columns)

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        (delta,) = inputs
        self._rows.stage(delta)
        return delta

    def hydration_key(self, number: int) -> tuple[int, ...]:
        return self.key

    def hydrate(self, inputs: Fetch) -> None:
        self._rows.build(inputs(0))

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        return inputs(0)

    def describe(self) -> str:
        return f"Arrange(key {list(self.key)})"

    def state_rows(self) -> int:
        return self._rows.row_count
