"""Map: each row through kernels; linear, so a delta's output is the output's delta."""

from __future__ import annotations

from collections.abc import Sequence

from ivm.delta_ops.operator import Kernel, Operator
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet


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
