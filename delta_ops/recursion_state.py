"""The rows of a recursive query by iteration: its derivations, and those pending in a step.

Law: D holds (row, iteration) with the number of ways the row is derived there. Under UNION ALL that
is W itself; under UNION a row is in W at the least iteration with a positive number, once, and
nowhere else. Of equal rows of different representation (0.0 and −0.0) the one with the least exact
hash is shown.

Invariant: the last column of every row is its iteration (BIGINT, never NULL).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np

from ivm.delta_ops.operator import Staged
from ivm.delta_ops.state.integral import Integral
from ivm.delta_ops.state.representatives import has_representatives
from ivm.delta_ops.state.versions import Versions
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.arrangement.layout import Layout
from ivm.storage.values.column import Column, FixedColumn, Indexes
from ivm.storage.values.consolidate import consolidate, group
from ivm.storage.values.key_codes import row_codes
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet, add, empty

_BIGINT = type_of("BIGINT")


class IteratedRows(Staged, Protocol):
    """The derivations D before and after the step under way."""

    def append(self, rows: ZSet) -> None:
        """Derivations that come or go, at any iterations."""

    def change(self, iteration: int, rows: ZSet, pending: PendingIterations) -> ZSet:
        """The change of W at an iteration, when D is final up to it.

        Args:
            rows: all that may have come or gone there.
            pending: gets the rows that must be checked again later.
        """

    def restart(self) -> PendingIterations:
        """Makes changes count from an empty W; returns all rows of D, to be checked again."""

    def contents(self) -> ZSet:
        """All of W before the step, with iterations."""

    @property
    def row_count(self) -> int:
        """Entries of D."""


class AllIterations(Versions[Integral]):
    """The derivations D of a UNION ALL.

    Args:
        types: the rows' types, without the iteration.
    """

    def __init__(self, types: Sequence[ColumnType]) -> None:
        self._types = (*types, _BIGINT)
        super().__init__(Integral(self._types))

    def change(self, iteration: int, rows: ZSet, pending: PendingIterations) -> ZSet:
        return consolidate(rows, self._types)

    def restart(self) -> PendingIterations:
        return _waiting(self.after.batches, self._types)

    def contents(self) -> ZSet:
        return add([empty(self._types), *self.before.batches])


class FirstIterations(Versions[Arrangement]):
    """The derivations D of a UNION.

    Args:
        types: the rows' types, without the iteration.
    """

    def __init__(self, types: Sequence[ColumnType]) -> None:
        self._types = tuple(types)
        self._representatives = has_representatives(types)
        self._layout = Layout((*types, _BIGINT), tuple(range(len(types))))
        super().__init__(Arrangement.empty(self._layout))
        self._from_nothing = False

    def change(self, iteration: int, rows: ZSet, pending: PendingIterations) -> ZSet:
        keys = rows.columns[:-1]
        if len(rows) > 1:
            distinct = group(keys, self._types).first
            keys = tuple([c.take(distinct) for c in keys])
        parts = []
        versions = ((self.before, -1), (self.after, 1))
        for held, sign in versions[1:] if self._from_nothing else versions:
            found = self._first(held, keys)
            now = iterations(found)
            parts.append(_signed(found.filter(now == iteration), sign))
            pending.add(found.filter(now > iteration))
        return consolidate(add(parts), self._layout.types)

    def restart(self) -> PendingIterations:
        self._from_nothing = True
        return _waiting(self.after.batches(), self._layout.types)

    def commit(self) -> None:
        super().commit()
        self._from_nothing = False

    def rollback(self) -> None:
        super().rollback()
        self._from_nothing = False

    def _first(self, held: Arrangement, keys: Sequence[Column]) -> ZSet:
        if not held.row_count:
            return self._layout.zero
        probe, rows = held.lookup_live(keys)
        return rows.take(self._least(probe, rows))

    def _least(self, probe: Indexes, rows: ZSet) -> Indexes:
        """The row of each probe with the least iteration."""
        if len(probe) < 2:
            return np.arange(len(probe))
        order = [iterations(rows), probe]
        if self._representatives:
            order.insert(0, row_codes(rows.columns[:-1], self._types))
        sorted_rows = np.lexsort(order)
        ordered = probe[sorted_rows]
        begins = np.ones(len(ordered), np.bool_)
        np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
        least: Indexes = sorted_rows[begins]
        return least

    def contents(self) -> ZSet:
        rows = consolidate(add([self._layout.zero, *self.before.batches()]), self._layout.types)
        rows = rows.filter(rows.weights > 0)
        if not len(rows):
            return rows
        numbers = group(rows.columns[:-1], self._types).inverse
        return _signed(rows.take(self._least(numbers, rows)), 1)


def _waiting(batches: Iterable[ZSet], types: Sequence[ColumnType]) -> PendingIterations:
    pending = PendingIterations()
    pending.add(consolidate(add([empty(types), *batches]), types))
    return pending


def _signed(rows: ZSet, sign: int) -> ZSet:
    return ZSet(rows.columns, np.full(len(rows), sign, np.int64))


class PendingIterations:
    """A queue of Z-sets by iteration."""

    def __init__(self) -> None:
        self._rows: dict[int, list[ZSet]] = {}
        self._order: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._order)

    def add(self, rows: ZSet) -> None:
        """Adds rows of any iterations."""
        for iteration, part in _split(rows):
            if iteration not in self._rows:
                self._rows[iteration] = []
                heapq.heappush(self._order, iteration)
            self._rows[iteration].append(part)

    def pop(self) -> tuple[int, ZSet]:
        """The least iteration and its rows."""
        iteration = heapq.heappop(self._order)
        return iteration, add(self._rows.pop(iteration))


def iterations(rows: ZSet) -> Indexes:
    """The last column's values."""
    column = rows.columns[-1]
    assert isinstance(column, FixedColumn)
    return column.values


def at_iteration(rows: ZSet, iteration: int) -> ZSet:
    """The rows with one iteration as a new last column."""
    values = np.full(len(rows), iteration, np.int64)
    return ZSet((*rows.columns, FixedColumn(values)), rows.weights)


def one_later(rows: ZSet) -> ZSet:
    """The same rows one iteration later."""
    return ZSet((*rows.columns[:-1], FixedColumn(iterations(rows) + 1)), rows.weights)


def _split(rows: ZSet) -> Iterator[tuple[int, ZSet]]:
    if not len(rows):
        return
    found = iterations(rows)
    if (found == found[0]).all():
        yield int(found[0]), rows
        return
    order = np.argsort(found, kind="stable")
    ordered = rows.take(order)
    numbers, starts = np.unique(found[order], return_index=True)
    for number, start, stop in zip(numbers, starts, [*starts[1:], len(rows)], strict=True):
        yield int(number), ordered.slice(int(start), int(stop))
