"""Emit: the rows that a bound has passed, each once and for ever.

Law: a row is emitted by the first step after which the bound has passed it, as it is then. What
comes later for rows that are passed changes nothing: the rows that wait are the operator's state,
and the emitted ones are stored with the view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ivm.delta_ops.operator import Fetch, Operator, Strategy
from ivm.delta_ops.state.passed import Bound
from ivm.delta_ops.state.pending_rows import PendingRows
from ivm.storage.values.column import Column, Mask
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, empty


class Emit(Operator):
    """The final rows of a view.

    Args:
        types: of the first input, and of the output.
        by: the column that the bound passes; the second input is the bound, one row of one value.
        inclusive: whether a row whose value is the bound is passed.
    """

    strategy: ClassVar[Strategy] = "indexed"
    why: ClassVar[str] = "each row once, when the watermark has passed it"
    stateful: ClassVar[bool] = True
    kept: ClassVar[bool] = True
    consolidated = True

    def __init__(self, types: Sequence[ColumnType], by: int, *, inclusive: bool) -> None:
        super().__init__(types)
        self._by = by
        self._before = self._after = PendingRows(types, by)
        self._passed = self._passes = Bound(inclusive)

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        rows, bound = inputs
        waiting = self._before.added(self._open(rows, self._passed))
        self._passes = self._passed.moved(bound)
        out = empty(self.types)
        if self._passes.value is not None and self._passes != self._passed:
            out, waiting = waiting.parted(self._passes.value, inclusive=self._passes.inclusive)
        self._after = waiting
        return out

    def waits(self, times: Column) -> Mask:
        """Which times are not passed yet; those that are NULL are waited for by nobody."""
        return self._passed.is_open(times)

    def _open(self, rows: ZSet, bound: Bound) -> ZSet:
        """The rows that a bound has not passed; those without a value are never passed."""
        kept = bound.is_open(rows.columns[self._by])
        return rows if kept.all() else rows.filter(kept)

    def commit(self) -> None:
        self._before, self._passed = self._after, self._passes

    def rollback(self) -> None:
        self._after, self._passes = self._before, self._passed

    def hydrate(self, inputs: Fetch) -> None:
        bound = Bound(self._passed.inclusive)
        for chunk in inputs(1):
            bound = bound.moved(chunk)
        waiting = PendingRows(self.types, self._by)
        for chunk in inputs(0):
            waiting = waiting.added(self._open(chunk, bound))
        self._before = self._after = waiting
        self._passed = self._passes = bound

    def saved(self) -> tuple[object, ...]:
        rows = self._before.all()
        return rows.columns, rows.weights, self._passed.value

    def restore(self, saved: Any) -> None:
        columns, weights, value = saved
        waiting = PendingRows(self.types, self._by).added(ZSet(tuple(columns), weights))
        self._before = self._after = waiting
        self._passed = self._passes = self._passed._replace(value=value)

    def describe(self) -> str:
        return "Emit"

    def state_rows(self) -> int:
        return len(self._before)

    def state_bytes(self) -> int:
        return self._before.nbytes
