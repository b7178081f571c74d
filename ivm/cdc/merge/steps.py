"""Steps: the events of a batch as writes and removals of single rows, each with the one before it.

Law: a step builds on the row that the step before of the same row has left, or on the stored one.
An update that moves a row is its removal under the old key and then its write, which builds on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ivm.cdc.formats.events import DELETE, INSERT, Events
from ivm.cdc.merge.moves import moved_rows
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.storage.values.column import Indexes, Mask, concat
from ivm.storage.values.consolidate import group
from ivm.storage.values.zset import ZSet


class Steps(NamedTuple):
    """The steps of a batch.

    Attributes:
        events: one for each step.
        of: int64[n], the number of the event.
        second: bool[n], whether it is the write of a row that was removed under another key.
        stored: the rows of the table under the keys; behind them given ones, see `meetings`.
        own: how many of these are of the table.
        group: int64[n], the number of the row; of the key, where no key has several.
        at: int64[g], which stored row each one is, -1 if none.
        before: int64[n], the step that left the row on which this one builds, -1 if it is stored.
        origin: int64[n], the number of that row: under the old key where an update moves it.
        lasts: bool[g], whether a row is the one that its key has at the end; None if all are.
    """

    events: Events
    of: Indexes
    second: Mask
    stored: ZSet
    own: int
    group: Indexes
    at: Indexes
    before: Indexes
    origin: Indexes
    lasts: Mask | None = None

    @property
    def writes(self) -> Mask:
        """The steps that leave a row."""
        found: Mask = self.events.operations != DELETE
        return found

    @property
    def comes(self) -> Mask:
        """Those whose row comes from elsewhere."""
        found: Mask = (self.events.operations == INSERT) | self.second
        return found

    @property
    def removals(self) -> Indexes:
        """The removals that are followed by the write of the row under another key."""
        return self.second.nonzero()[0] - 1


def steps_of(path: FastPath, events: Events, index: KeyIndex) -> Steps:
    """The steps of events; no key has several rows.

    Args:
        path: of the table.
        events: with every column.
        index: of the table.
    """
    moved = moved_rows(events, path.key, path.schema)
    of = np.repeat(np.arange(len(events)), 1 + moved)
    second = np.zeros(len(of), np.bool_)  # the write of a moved row follows its removal
    second[1:] = of[1:] == of[:-1]
    if moved.any():
        events = _split(events, of, second)
    keys = [events.columns[i] for i in path.key]
    first, number = group(keys, [path.schema[i][1] for i in path.key])
    found = index.find([column.take(first) for column in keys])
    at = np.full(len(first), -1)
    at[found.probe] = np.arange(len(found.probe))
    stored = found.rows
    return Steps(events, of, second, stored, len(stored), number, at, *links(number, second))


def _split(events: Events, of: Indexes, second: Mask) -> Events:
    """The events, with a removal under the old key before each write of a moved row."""
    assert events.old is not None
    count = len(events)
    taken = events.take(of)
    removal = np.zeros(len(of), np.bool_)
    removal[:-1] = second[1:]
    operations = taken.operations.copy()
    operations[removal] = DELETE
    at = np.where(removal, of + count, of)
    columns = {
        i: concat([column, events.old[i]]).take(at) if i in events.old else taken.columns[i]
        for i, column in events.columns.items()
    }
    return Events(operations, columns, taken.unknown, unchanged=taken.unchanged)


def links(number: Indexes, second: Mask) -> tuple[Indexes, Indexes]:
    """See `before` and `origin` of `Steps`.

    Args:
        number: of the row of each step.
        second: see `Steps`.
    """
    before, origin = previous(number), number.copy()
    removal = second.nonzero()[0] - 1
    before[second], origin[second] = before[removal], number[removal]
    return before, origin


def previous(number: Indexes) -> Indexes:
    """The step before of the same number, -1 if there is none."""
    order = number.argsort(kind="stable")
    before = np.full(len(number), -1)
    follows = number[order[1:]] == number[order[:-1]]
    before[order[1:][follows]] = order[:-1][follows]
    return before


def latest(number: Indexes, count: int) -> Indexes:
    """The last step of each of so many numbers, -1 if there is none."""
    found = np.full(count, -1)
    found[number] = np.arange(len(number))  # numpy keeps the last of repeated indexes
    return found


def whole(path: FastPath, rows: ZSet, index: KeyIndex) -> ZSet:
    """Rows of an index with all columns, as the table has these."""
    return rows.project([index.columns.index(i) for i in range(len(path.schema))])
