"""The rows of every group in order, for aggregates that look at more than sums.

Law: rows are arranged by (group slot, order), the order being total, so what is read depends on the
group's live rows alone. A step reads the touched groups before and after the change; where only
their first rows matter, no others are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ivm.delta_ops.operator import Predicate
from ivm.storage.arrangement import Arrangement
from ivm.storage.column import Column, FixedColumn, Indexes, concat
from ivm.storage.keys import same_key
from ivm.storage.layout import Layout
from ivm.storage.ordering import OrderKey
from ivm.storage.types import ColumnType, type_of
from ivm.storage.zset import ZSet

ALL = 1 << 60
"""A limit that no group reaches."""

_BIGINT = type_of("BIGINT")


@dataclass(frozen=True)
class RowsSpec:
    """Which rows are kept of a group, and how many of them are read.

    Attributes:
        columns: input positions of the columns kept.
        types: of these columns.
        order: over these columns; () for that of all columns.
        required: which of them must not be NULL (by position among them).
        filter: the FILTER clause over all input columns.
        distinct: equal rows count once.
        limit: rows read of a group.
    """

    columns: tuple[int, ...]
    types: tuple[ColumnType, ...]
    order: tuple[OrderKey, ...]
    required: tuple[int, ...]
    filter: Predicate | None
    distinct: bool
    limit: int


class Grouped(NamedTuple):
    """Rows of some groups, in order: group i has rows starts[i] … starts[i] + counts[i] - 1."""

    columns: tuple[Column, ...]
    starts: Indexes
    counts: Indexes

    @property
    def owners(self) -> Indexes:
        """The group of each row."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


class GroupRows:
    """State: the rows of all groups that one or more calls look at."""

    def __init__(self, spec: RowsSpec) -> None:
        self.spec = spec
        order = [OrderKey(k.column + 1, k.descending, k.nulls_first) for k in spec.order]
        types = (_BIGINT, *spec.types)
        self._layout = Layout(types, (0,), tuple(order) or (OrderKey(1, False, False),))
        self._before = self._after = Arrangement.empty(self._layout)
        self._read: Grouped | None = None

    @property
    def nbytes(self) -> int:
        return self._before.nbytes

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
        self._after = self._before.append(self.entries(delta, slots))
        self._read = None

    def both(self, slots: Indexes) -> Grouped:
        """The groups before the staged change, then the same groups after it."""
        if self._read is None:
            old, new = self._grouped(self._before, slots), self._grouped(self._after, slots)
            columns = tuple([concat(pair) for pair in zip(old.columns, new.columns, strict=True)])
            counts = np.concatenate([old.counts, new.counts])
            self._read = Grouped(columns, np.cumsum(counts) - counts, counts)
        return self._read

    def current(self, slots: Indexes) -> Grouped:
        """The committed rows of the groups."""
        return self._grouped(self._before, slots)

    def _grouped(self, state: Arrangement, slots: Indexes) -> Grouped:
        probe, rows = state.first([FixedColumn(slots)], self.spec.limit)
        columns, weights = rows.columns[1:], rows.weights
        if self.spec.distinct:
            fresh = _fresh(probe, columns, self.spec.types)
            columns, probe = tuple([c.take(fresh) for c in columns]), probe[fresh]
        elif len(weights) and not (weights == 1).all():
            again = np.repeat(np.arange(len(weights)), weights)
            columns, probe = tuple([c.take(again) for c in columns]), probe[again]
        counts = np.bincount(probe, minlength=len(slots)).astype(np.int64)
        return Grouped(columns, np.cumsum(counts) - counts, counts)

    def hydrate(self, batches: Iterable[ZSet]) -> None:
        """Build the state of entries."""
        self._before = self._after = Arrangement.build(self._layout, batches)

    def commit(self) -> None:
        self._before, self._read = self._after, None

    def rollback(self) -> None:
        self._after, self._read = self._before, None


def _fresh(probe: Indexes, columns: Sequence[Column], types: Sequence[ColumnType]) -> Indexes:
    """Rows that do not equal the row before them, by grouping equality."""
    count = len(probe)
    if count < 2:
        return np.arange(count)
    later = np.arange(1, count)
    same = same_key(columns, later - 1, columns, later, types)
    same &= probe[1:] == probe[:-1]
    return np.concatenate([[0], later[~same]])
