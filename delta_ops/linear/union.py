"""Union of Z-sets: weights add up; a negated input subtracts its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ivm.delta_ops.operator import Fetch, Operator
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add, empty


class UnionAll(Operator):
    """The sum of the inputs, all of the output's types.

    Args:
        types: the types of every input and of the output.
        negated: one flag an input; a negated one is subtracted.
    """

    def __init__(self, types: Sequence[ColumnType], negated: Sequence[bool]) -> None:
        super().__init__(types)
        self._negated = tuple(negated)

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        parts = [self._signed(i, delta) for i, delta in enumerate(inputs) if len(delta.weights)]
        return add(parts) if parts else empty(self.types)

    def _signed(self, position: int, delta: ZSet) -> ZSet:
        return delta.negate() if self._negated[position] else delta

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        for position in range(len(self._negated)):
            for chunk in inputs(position):
                yield self._signed(position, chunk)
