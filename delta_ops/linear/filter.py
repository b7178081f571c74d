"""Filter: the rows a predicate holds for; linear."""

from __future__ import annotations

from collections.abc import Sequence

from ivm.delta_ops.operator import Operator, Predicate
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
