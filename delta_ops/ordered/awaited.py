"""Awaited rows: those of a relation of which something that is not final may still be made.

Law: what is made of a row is of the row's time or before it. So a row whose time the bound has
passed makes no difference to what is not final, and may be taken back at any later step: not in the
one in which it is passed, since what it is part of becomes final by that. Rows are taken back by
the hundred, twice as many as have come since: few steps have that work to do, and the end of a
large window holds up none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ivm.delta_ops.operator import Fetch, Kernel, Operator, Strategy
from ivm.delta_ops.state.passed import Bound
from ivm.delta_ops.state.pending_rows import PendingRows
from ivm.storage.errors import EvaluationError
from ivm.storage.values.column import FixedColumn
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add, empty

_MANY = 256


class _State(NamedTuple):
    """The rows that are there.

    Attributes:
        waiting: those that the bound has not passed, with their times.
        past: others, to be taken back in this order.
        came: how many rows have come since some were taken back.
        bound: what was passed.
    """

    waiting: PendingRows
    past: tuple[ZSet, ...]
    came: int
    bound: Bound


class Awaited(Operator):
    """The rows of a relation without those that are of no use any more.

    Args:
        types: of the rows.
        time: gives the time of each.
        type: of the times, and of the bound; the second input is the bound, one row of one value.
        inclusive: whether a row whose time is the bound is passed.
    """

    strategy: ClassVar[Strategy] = "indexed"
    why: ClassVar[str] = "a row goes when all that it may be part of is final"
    stateful: ClassVar[bool] = True
    reproducible = False

    def __init__(
        self, types: Sequence[ColumnType], time: Kernel, type: ColumnType, *, inclusive: bool
    ) -> None:
        super().__init__(types)
        self._timed_types = (*self.types, type)
        self._time = time
        self._before = self._after = self._state(Bound(inclusive))

    def _state(self, bound: Bound) -> _State:
        return _State(PendingRows(self._timed_types, len(self.types)), (), 0, bound)

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        rows, bound = inputs
        before, count = self._before, self._before.came + len(rows)
        came = self._open(rows, before.bound)
        gone, past = _parted(before.past, 2 * count if count >= _MANY else 0)
        left = 0 if count >= _MANY else count
        self._after = _passing(_State(before.waiting.added(came), past, left, before.bound), bound)
        return add([self._rows(came), *[self._rows(part).negate() for part in gone]])

    def _open(self, rows: ZSet, bound: Bound) -> ZSet:
        """The rows that a bound has not passed, with their times."""
        times = self._times(rows)
        timed = ZSet((*rows.columns, times), rows.weights)
        kept = bound.is_open(times)
        return timed if kept.all() else timed.filter(kept)

    def _times(self, rows: ZSet) -> FixedColumn:
        """The times of rows; the end of time where there is none, or it cannot be told."""
        dtype = self._timed_types[-1].dtype
        assert dtype is not None
        end = np.iinfo(dtype).max
        try:
            times = self._time(rows.columns, len(rows))
        except EvaluationError:  # of a row that the query may leave out before it computes that
            return FixedColumn(np.full(len(rows), end, dtype))
        assert isinstance(times, FixedColumn)
        if times.valid is None:
            return times
        return FixedColumn(np.where(times.valid, times.values, end))

    def _rows(self, timed: ZSet) -> ZSet:
        return timed.project(range(len(self.types)))

    def commit(self) -> None:
        self._before = self._after

    def rollback(self) -> None:
        self._after = self._before

    def hydrate(self, inputs: Fetch) -> None:
        state = self._state(Bound(self._before.bound.inclusive))
        for chunk in inputs(1):
            state = state._replace(bound=state.bound.moved(chunk))
        for chunk in inputs(0):
            state = state._replace(waiting=state.waiting.added(self._open(chunk, state.bound)))
        self._before = self._after = state

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        for part in (self._before.waiting.all(), *self._before.past):
            yield self._rows(part)

    def saved(self) -> tuple[object, ...]:
        waiting, past, _, bound = self._before
        parts = [waiting.all(), add([empty(self._timed_types), *past])]
        return *[(part.columns, part.weights) for part in parts], bound.value

    def restore(self, saved: Any) -> None:
        *parts, value = saved
        waiting, past = [ZSet(tuple(columns), weights) for columns, weights in parts]
        state = self._state(self._before.bound._replace(value=value))
        self._before = self._after = state._replace(
            waiting=state.waiting.added(waiting), past=(past,) if len(past) else ()
        )

    def state_rows(self) -> int:
        return len(self._before.waiting) + sum([len(part) for part in self._before.past])

    def state_bytes(self) -> int:
        return self._before.waiting.nbytes + sum([part.nbytes for part in self._before.past])


def _passing(state: _State, bound: ZSet) -> _State:
    """The state after a change of the bound."""
    moved = state.bound.moved(bound)
    if moved.value is None or moved == state.bound:
        return state
    passed, waiting = state.waiting.parted(moved.value, inclusive=moved.inclusive)
    past = (*state.past, passed) if len(passed) else state.past
    return state._replace(waiting=waiting, past=past, bound=moved)


def _parted(parts: tuple[ZSet, ...], count: int) -> tuple[list[ZSet], tuple[ZSet, ...]]:
    """The first rows of some, and the others."""
    first = list[ZSet]()
    while parts and count:
        taken = min(count, len(parts[0]))
        first.append(parts[0].slice(0, taken))
        rest = parts[0].slice(taken, len(parts[0]))
        parts, count = (*((rest,) if len(rest) else ()), *parts[1:]), count - taken
    return first, parts
