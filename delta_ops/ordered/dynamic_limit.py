"""Dynamic limits: LIMIT and OFFSET whose numbers change with the data.

Law: the second input has one row, (first, last); the output is the rows of ranks first … last − 1
(duplicates counted) in the order of the ORDER BY, then of all columns. A step compares them before
and after, so it costs the rows up to the last rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ivm.delta_ops.operator import Fetch, Operator, Strategy
from ivm.delta_ops.ordered.topk import stretched
from ivm.delta_ops.state.partitions import Partitions
from ivm.delta_ops.state.representatives import has_representatives
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.errors import EvaluationError
from ivm.storage.values.column import FixedColumn
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet, add, empty

_PLACES = (type_of("BIGINT"), type_of("BIGINT"))
WRONG_LIMIT = "LIMIT and OFFSET cannot be negative, nor LIMIT above 100 %"
_ALL = (FixedColumn(np.zeros(1, np.bool_)),)  # the key of the one partition


class DynamicLimit(Operator):
    """The rows between two ranks.

    Args:
        inputs: the types of the first input.
        order: the ORDER BY.
    """

    strategy: ClassVar[Strategy] = "indexed"
    why: ClassVar[str] = "the first live rows up to the last place, before and after"
    stateful: ClassVar[bool] = True
    consolidated = True

    def __init__(self, inputs: Sequence[ColumnType], order: Sequence[OrderKey]) -> None:
        super().__init__(inputs)
        self._state = Partitions(inputs, (), order or [OrderKey(0, False, False)])
        self.parts = (self._state,)
        self._before = self._after = (0, 0)
        self.reproducible = not has_representatives(inputs)

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        rows, ranks = inputs
        self._state.stage(rows)
        self._after = _moved(self._before, ranks)
        old = self._shown(self._state.before, self._before)
        new = self._shown(self._state.after, self._after)
        return consolidate(add([old.negate(), new]), self.types)

    def _shown(self, rows: Arrangement, ranks: tuple[int, int]) -> ZSet:
        first, last = ranks
        if last < 0 and len(rows.first(_ALL, 1).probe):
            raise EvaluationError(WRONG_LIMIT)
        if last <= max(first, 0):
            return empty(self.types)
        found, frame_rows = stretched(rows.first(_ALL, last))
        low = np.maximum(frame_rows.start, first)
        high = np.minimum(frame_rows.start + frame_rows.weights, last)
        kept = (high > low).nonzero()[0]
        return ZSet(self._state.plain(found.take(kept)).columns, (high - low)[kept])

    def commit(self) -> None:
        super().commit()
        self._before = self._after

    def rollback(self) -> None:
        super().rollback()
        self._after = self._before

    def hydrate(self, inputs: Fetch) -> None:
        self._state.build(inputs(0))
        self._before = self._after = _moved((0, 0), add([empty(_PLACES), *inputs(1)]))

    def saved(self) -> tuple[object, ...]:
        return super().saved(), self._before

    def restore(self, saved: Any) -> None:
        super().restore(saved[0])
        self._before = self._after = saved[1]

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        yield self._shown(self._state.before, self._before)

    def describe(self) -> str:
        return "OpenLimit"

    def state_rows(self) -> int:
        return self._state.row_count


def _moved(ranks: tuple[int, int], delta: ZSet) -> tuple[int, int]:
    """The ranks after a change of their one row."""
    rows = consolidate(delta, _PLACES)
    for i in (rows.weights > 0).nonzero()[0].tolist():
        first, last = [int(column.cell(i)) for column in rows.columns]
        ranks = (first, last)
    return ranks
