"""Pending deltas: changes in the log that DuckDB's tables lack, and their net change.

Law: applying `net()` to a relation equals applying the collected changes one after the other.
A keyed table's net change is decided per key by the first and the last event alone: the key is in
the file if its first event is a removal, its last row stays if its last event is an addition.
Keyless tables and views are Z-sets: their net change is the consolidated sum.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from ivm.storage.errors import InternalError
from ivm.storage.log.change import TableChange
from ivm.storage.values import zset
from ivm.storage.values.canonical import row_tuples
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask, concat
from ivm.storage.values.consolidate import consolidate, group
from ivm.storage.values.types import ColumnType, Schema, type_of
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.flush.flush import NetChange, is_exact
from ivm.storage.warehouse.tables.history import EPOCH

_BIGINT = type_of("BIGINT")
LOOSE = 64
"""Batches that are joined to one: Python's collector of garbage, which looks at every object now
and then, would stop a commit for tens of milliseconds if each commit left some."""


class _Event(NamedTuple):
    """Rows that one change has removed or added.

    Attributes:
        rows: of those removed the key alone, if there is one.
        added: whether they are added.
        kept: positions of the columns in which each row added is as the one that it replaces.
    """

    rows: ZSet
    added: bool
    kept: Collection[int] = ()


class PendingTable:
    """The pending changes of one base table.

    Args:
        schema: of the table.
        key: positions of its primary key; empty for a keyless table.
    """

    def __init__(self, schema: Schema, key: tuple[int, ...]) -> None:
        self.types = tuple([t for _, t in schema])
        self.key = key
        self.rows = 0
        self._exact = all(is_exact(self.types[i]) for i in key)
        self._events: list[_Event] = []  # in order
        self.loose = 0  # the last events, all of them additions, that were not joined

    def add(
        self,
        removed: ZSet,
        removed_columns: Sequence[int],
        added: ZSet,
        kept: Collection[int] = (),
    ) -> None:
        """Collects one change (see `TableChange`); the removal comes before the addition."""
        if len(removed):
            wanted = self.key or tuple(range(len(self.types)))
            rows = removed.project([removed_columns.index(i) for i in wanted])
            self._events.append(_Event(rows, added=False))
            self.loose = 0
        if len(added):
            replaces = bool(self.key) and all(i in kept for i in self.key)
            self._events.append(_Event(added, True, kept if replaces else ()))
            self.loose = 0 if replaces else self.loose + 1
        self.rows += len(removed) + len(added)

    def join(self) -> None:
        """Joins the loose batches to one."""
        if self.loose:
            joined = zset.add([event.rows for event in self._events[-self.loose :]])
            self._events[-self.loose :], self.loose = [_Event(joined, added=True)], 0

    def collect(self, change: TableChange, epoch: int) -> None:
        """Collects a change of the table in an epoch."""
        self.add(change.removed, change.removed_columns, change.added, change.kept)

    @property
    def removes(self) -> bool:
        """Returns whether a row was removed or replaced."""
        return not all(event.added for event in self._events)

    def extend(self, later: PendingTable) -> None:
        """Appends the changes that another one has collected."""
        self._events += later._events
        self.loose = later.loose
        self.rows += later.rows

    def net(self) -> NetChange:
        """The net effect of everything collected so far."""
        if not self.key:
            signed = [e.rows if e.added else e.rows.negate() for e in self._events]
            return multiset_change(signed, self.types)
        removed = [event.rows for event in self._events if not event.added]
        added = [event.rows for event in self._events if event.added]
        if not removed:  # new keys only, all of them different
            return self._keyed(self._none(), self._sum(added))
        if not added:  # every key is removed once
            return self._keyed(zset.add(removed), zset.empty(self.types))
        return self._net_of_both(self._sum(added))

    def _net_of_both(self, added: ZSet) -> NetChange:
        keys = zset.add([e.rows.project(self.key) if e.added else e.rows for e in self._events])
        plus = np.concatenate([np.full(len(event.rows), event.added) for event in self._events])
        groups = group(keys.columns, self._key_types)
        last = np.zeros(len(groups.first), np.int64)
        last[groups.inverse] = np.arange(len(plus))  # numpy keeps the last of repeated indexes
        position = np.cumsum(plus) - 1  # of an addition among the additions
        stood, stays = ~plus[groups.first], plus[last]
        delete = keys.take(groups.first[_leading(stood & stays, stood)])
        insert = added.take(position[last[_leading(stood & stays, stays)]])
        replaced = int(np.count_nonzero(stood & stays)) if self._exact else 0
        kept = self._kept((stood & stays)[groups.inverse])
        return NetChange(delete, self.key, True, insert, replaced, kept)

    def _kept(self, replaced: Mask) -> frozenset[int]:
        """The columns that all replaced rows keep.

        Args:
            replaced: which rows of the events, in order, have the key of one that is replaced.
        """
        kept, end = set(range(len(self.types))), 0
        for event in self._events:
            begin, end = end, end + len(event.rows)
            if event.added and not kept.issubset(event.kept) and replaced[begin:end].any():
                kept.intersection_update(event.kept)
        return frozenset(kept)

    @property
    def _key_types(self) -> list[ColumnType]:
        return [self.types[i] for i in self.key]

    def _keyed(self, delete: ZSet, insert: ZSet) -> NetChange:
        return NetChange(delete, self.key, True, insert)

    def _none(self) -> ZSet:
        return zset.empty(self._key_types)

    def _sum(self, batches: Sequence[ZSet]) -> ZSet:
        return zset.add(batches) if batches else zset.empty(self.types)


class PendingAppends(PendingTable):
    """The pending rows of a table that only takes rows, each with its epoch as a last column.

    Args:
        schema: of the table, without that column.
    """

    def __init__(self, schema: Schema) -> None:
        super().__init__((*schema, (EPOCH, _BIGINT)), ())

    def collect(self, change: TableChange, epoch: int) -> None:
        """See `PendingTable`."""
        if len(change.removed):
            raise InternalError(f"rows are removed from {change.table!r}, which only takes rows")
        added = change.added
        stamp = FixedColumn(np.full(len(added), epoch, np.int64))
        self.add(added.slice(0, 0), (), ZSet((*added.columns, stamp), added.weights))


class PendingView:
    """The pending deltas of one materialized view.

    Args:
        schema: of the view.
        key: positions of columns that are known to be unique in the view, () if it has at most one
            row; None if nothing is known.
    """

    def __init__(self, schema: Schema, key: tuple[int, ...] | None = None) -> None:
        self.types = tuple([t for _, t in schema])
        self.key = key
        self.rows = 0
        self._deltas: list[ZSet] = []
        self.loose = 0  # the last deltas that were not joined

    def add(self, delta: ZSet) -> None:
        """Collects one epoch's delta."""
        if not len(delta):
            return
        self._deltas.append(delta)
        self.loose += 1
        self.rows += len(delta)

    def join(self) -> None:
        """Joins the loose deltas to one."""
        if self.loose:
            self._deltas[-self.loose :], self.loose = [zset.add(self._deltas[-self.loose :])], 0

    def extend(self, later: PendingView) -> None:
        """Appends the changes that another one has collected."""
        self._deltas += later._deltas
        self.loose = later.loose
        self.rows += later.rows

    def net(self) -> NetChange:
        """The net effect of everything collected so far."""
        change = multiset_change(self._deltas, self.types)
        return change if self.key is None else _by_key(change, self.key, self.types)


def _leading(first: Mask, all_of: Mask) -> Indexes:
    """The indexes of `all_of`, those of `first` (a part of it) before the others."""
    return np.concatenate([np.flatnonzero(first), np.flatnonzero(all_of & ~first)])


def _by_key(change: NetChange, key: tuple[int, ...], types: Sequence[ColumnType]) -> NetChange:
    """The same change, deleting by a key; rows that only change their values come first."""
    delete, insert = change.delete.project(key), change.insert
    if not len(delete) or not len(insert) or not all(is_exact(types[i]) for i in key):
        return NetChange(delete, key, True, insert)
    partner = np.zeros(1, np.int64)  # without columns in the key there is only one row
    if key:
        partner = _partners(delete.columns, insert.project(key).columns, [types[i] for i in key])
    found = partner >= 0
    kept = found.nonzero()[0]
    count = len(kept)
    if count < len(insert):
        insert = insert.take(np.concatenate([kept, (~found).nonzero()[0]]))
    order = partner[kept]
    if count < len(delete):
        gone = np.ones(len(delete), np.bool_)
        gone[order] = False
        order = np.concatenate([order, gone.nonzero()[0]])
    return NetChange(_taken(delete, order), key, True, insert, count)


def _partners(
    olds: Sequence[Column], news: Sequence[Column], types: Sequence[ColumnType]
) -> Indexes:
    """The old key that is equal to each new one, or -1 (all old ones are different)."""
    known, wanted = row_tuples(olds, types, True), row_tuples(news, types, True)
    if known is not None and wanted is not None:
        at = {row: i for i, row in enumerate(known)}
        return np.array([at.get(row, -1) for row in wanted], np.int64)
    count = len(olds[0])
    groups = group([concat(pair) for pair in zip(olds, news, strict=True)], types)
    old = np.full(len(groups.first), -1, np.int64)
    old[groups.inverse[:count]] = np.arange(count)
    return old[groups.inverse[count:]]


def _taken(batch: ZSet, order: Indexes) -> ZSet:
    """The batch in another order; itself if it has that order already, as small ones often do."""
    return batch if bool((order[1:] > order[:-1]).all()) else batch.take(order)


def multiset_change(deltas: Sequence[ZSet], types: Sequence[ColumnType]) -> NetChange:
    """The net change of a relation without a key that the deltas were made to."""
    everything = tuple(range(len(types)))
    if not deltas:
        return NetChange(zset.empty(types), everything, False, zset.empty(types))
    total = consolidate(zset.add(deltas), types)
    if total.weights.tolist() == [-1, 1]:  # one row has changed, as after a small commit
        return NetChange(total.slice(0, 1).negate(), everything, False, total.slice(1, 2))
    delete, insert = total.filter(total.weights < 0), total.filter(total.weights > 0)
    return NetChange(delete.negate(), everything, False, insert)
