"""The rows of every group in order, for aggregates that need more than sums.

Law: rows are arranged by (group slot, order), the order being total, so the rows read depend on the
group's live rows alone. A step reads the touched groups before and after the change; where only
their first rows matter, no others are read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ivm.delta_ops.operator import Predicate
from ivm.delta_ops.state.picked import picked
from ivm.delta_ops.state.versions import Versions
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.arrangement.builder import RunBuilder
from ivm.storage.arrangement.layout import Layout
from ivm.storage.values import thresholds
from ivm.storage.values.column import Column, FixedColumn, Indexes, concat
from ivm.storage.values.key_codes import same_key
from ivm.storage.values.ordering.order import OrderKey
from ivm.storage.values.types import ColumnType, type_of
from ivm.storage.values.zset import ZSet

ALL = 1 << 60
"""A limit that no group reaches."""

_BIGINT = type_of("BIGINT")


@dataclass(frozen=True)
class RowsSpec:
    """A choice of the rows that are kept of a group, and of those that are read.

    Attributes:
        columns: input positions of the columns kept.
        types: of these columns.
        order: over these columns; () for that of all columns.
        required: which of them must not be NULL (by position among them).
        filter: the FILTER clause over all input columns.
        distinct: equal rows count once.
        limit: rows read of a group.
        counted: equal rows are one row, with their number as a further column.
    """

    columns: tuple[int, ...]
    types: tuple[ColumnType, ...]
    order: tuple[OrderKey, ...]
    required: tuple[int, ...]
    filter: Predicate | None
    distinct: bool
    limit: int
    counted: bool = False


class Grouped(NamedTuple):
    """Rows of some groups, in order: group i has rows starts[i] … starts[i] + counts[i] - 1."""

    columns: tuple[Column, ...]
    starts: Indexes
    counts: Indexes

    @property
    def owners(self) -> Indexes:
        """The group of each row."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


class Weighed(NamedTuple):
    """Distinct rows of some groups, in order, with their counts; as in `Grouped`."""

    columns: tuple[Column, ...]
    starts: Indexes
    counts: Indexes
    weights: Indexes

    @property
    def owners(self) -> Indexes:
        """The group of each distinct row."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @property
    def totals(self) -> Indexes:
        """The number of rows of each group."""
        ends = _running(self.weights)
        totals: Indexes = ends[self.starts + self.counts] - ends[self.starts]
        return totals

    @property
    def every(self) -> Grouped:
        """The rows, each as often as its count."""
        if not len(self.weights) or (self.weights == 1).all():
            return Grouped(self.columns, self.starts, self.counts)
        again = np.repeat(np.arange(len(self.weights)), self.weights)
        counts = self.totals
        columns = tuple([c.take(again) for c in self.columns])
        return Grouped(columns, np.cumsum(counts) - counts, counts)


class Reading:
    """A lazy reading of some groups' rows.

    Args:
        parts: states, and the slots of the groups read from each, in order.
    """

    def __init__(self, spec: RowsSpec, parts: Sequence[tuple[Arrangement, Indexes]]) -> None:
        self._spec = spec
        self._parts = parts

    @functools.cached_property
    def grouped(self) -> Grouped:
        """The groups' rows."""
        return self.weighed.every

    @functools.cached_property
    def weighed(self) -> Weighed:
        """The groups' distinct rows."""
        found = [_weighed(self._spec, state, slots) for state, slots in self._parts]
        if len(found) == 1:
            return found[0]
        columns = tuple([concat(some) for some in zip(*[w.columns for w in found], strict=True)])
        counts, weights = [
            np.concatenate(some)
            for some in zip(*[(w.counts, w.weights) for w in found], strict=True)
        ]
        return Weighed(columns, np.cumsum(counts) - counts, counts, weights)

    def ranked(self, ranks: Callable[[Indexes], list[Indexes]]) -> tuple[list[Column], Indexes]:
        """The first column's values of some ranks in each group, and the groups' row counts.

        Args:
            ranks: row counts (0 where there are none) → the ranks wanted, an array for each.
        """
        slots = sum(len(slots) for _, slots in self._parts)
        sizes = [state.size([FixedColumn(slots)]) for state, slots in self._parts]
        if not selects(self._spec) or sum(sizes) < thresholds.QUANTILE_ROWS * slots:
            return self._counted_off(ranks)
        return self._selected(ranks)

    def _counted_off(
        self, ranks: Callable[[Indexes], list[Indexes]]
    ) -> tuple[list[Column], Indexes]:
        rows = self.weighed
        ends, totals = _running(rows.weights), rows.totals
        before = ends[rows.starts]
        wanted = [np.searchsorted(ends[1:], before + at, side="right") for at in ranks(totals)]
        return [picked(rows.columns[0], at, totals > 0) for at in wanted], totals

    def _selected(self, ranks: Callable[[Indexes], list[Indexes]]) -> tuple[list[Column], Indexes]:
        def few(count: int) -> list[int]:
            return [int(rank[0]) for rank in ranks(np.array([count]))]

        found = [
            state.select(slot, 1, few) for state, slots in self._parts for slot in slots.tolist()
        ]
        counts = np.array([count for _, count in found], np.int64)
        dtype = self._spec.types[0].dtype
        wide = max([len(values) for values, _ in found])
        columns: list[Column] = []
        for k in range(len(few(1))):
            values = [values[k] if wide and len(values) else 0 for values, _ in found]
            there = counts > 0
            columns.append(FixedColumn(np.array(values, dtype), None if there.all() else there))
        return columns, counts


class GroupRows(Versions[Arrangement]):
    """The state of one or more calls: the rows of all groups."""

    def __init__(self, spec: RowsSpec) -> None:
        self.spec = spec
        order = [OrderKey(k.column + 1, k.descending, k.nulls_first) for k in spec.order]
        types = (_BIGINT, *spec.types, *([_BIGINT] if spec.counted else []))
        self.layout = Layout(types, (0,), tuple(order) or (OrderKey(1, False, False),))
        super().__init__(Arrangement.empty(self.layout))
        self._builder = RunBuilder(self.layout)
        self._read: Reading | None = None

    def entries(self, delta: ZSet, slots: Indexes) -> ZSet:
        """The delta's rows that count, under their groups' slots."""
        spec = self.spec
        weights = delta.weights
        if spec.filter is not None:
            weights = np.where(spec.filter(delta.columns, len(weights)), weights, 0)
        columns = [delta.columns[i] for i in spec.columns]
        for i in spec.required:
            valid = columns[i].valid
            if valid is not None:
                weights = np.where(valid, weights, 0)
        rows = ZSet((FixedColumn(slots), *columns), weights)
        return rows if weights.all() else rows.filter(weights != 0)

    def stage(self, delta: ZSet, slots: Indexes) -> None:
        """Stages a delta's rows, which belong to the groups in these slots."""
        self.stage_entries(self.entries(delta, slots))

    def stage_entries(self, entries: ZSet) -> None:
        """Stages rows of the state."""
        self.append(entries)
        self._read = None

    def both(self, slots: Indexes) -> Reading:
        """The groups before the staged change, then the same groups after it."""
        if self._read is None:
            self._read = Reading(self.spec, [(self.before, slots), (self.after, slots)])
        return self._read

    def current(self, slots: Indexes) -> Reading:
        """The committed rows of the groups."""
        return Reading(self.spec, [(self.before, slots)])

    def collect(self, entries: ZSet) -> None:
        """Takes entries for the state that `collected` builds."""
        self._builder.add(entries)

    def collected(self) -> None:
        """Builds the state from what was collected, in place of any earlier state."""
        self.reset(Arrangement.of(self.layout, self._builder.run()))
        self._builder = RunBuilder(self.layout)

    def commit(self) -> None:
        super().commit()
        self._read = None

    def rollback(self) -> None:
        super().rollback()
        self._read = None


def _running(weights: Indexes) -> Indexes:
    """The sums of the first 0, 1, … weights."""
    sums = np.zeros(len(weights) + 1, np.int64)
    np.cumsum(weights, out=sums[1:])
    return sums


def selects(spec: RowsSpec) -> bool:
    """Returns whether the n-th row can be found by its first column alone."""
    ascends = spec.order[:1] == (OrderKey(0, False, False),)
    return ascends and spec.types[0].is_ordered_word and not spec.distinct


def _weighed(spec: RowsSpec, state: Arrangement, slots: Indexes) -> Weighed:
    probe, rows = state.first([FixedColumn(slots)], spec.limit)
    columns, weights = rows.columns[1:], rows.weights
    if spec.distinct:
        fresh = _fresh(probe, columns, spec.types)
        columns, probe = tuple([c.take(fresh) for c in columns]), probe[fresh]
        weights = np.ones(len(fresh), np.int64)
    counts = np.bincount(probe, minlength=len(slots)).astype(np.int64)
    return Weighed(columns, np.cumsum(counts) - counts, counts, weights)


def _fresh(probe: Indexes, columns: Sequence[Column], types: Sequence[ColumnType]) -> Indexes:
    """Rows that do not equal the row before them, by grouping equality."""
    count = len(probe)
    if count < 2:
        return np.arange(count)
    later = np.arange(1, count)
    same = same_key(columns, later - 1, columns, later, types)
    same &= probe[1:] == probe[:-1]
    return np.concatenate([[0], later[~same]])
