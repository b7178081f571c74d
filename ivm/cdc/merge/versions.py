"""Finds the events that are older than what the table has, by a column that grows with each change.

Law: with a version column, a write is applied only if its version is greater than that of the row
under its key, and a delete only if its version is not less. So events that come again, or late,
change nothing. A row without a version is written over; an event without one is applied. A delete
ends the row's history: what is written after it is not compared with what was before. This holds
event by event, wherever batches are cut: a row has the version that was set last, if only to NULL,
takes it along to another key, and an event that is refused sets none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ivm.cdc.formats.events import DELETE, UPDATE, Events
from ivm.cdc.merge.keyed import merge_keyed
from ivm.cdc.merge.merged import Merged
from ivm.cdc.merge.moves import linked
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.storage.errors import InputError
from ivm.storage.identifiers import fold
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask, concat, not_null
from ivm.storage.values.consolidate import group
from ivm.storage.warehouse.tables.table_info import TableInfo


def version_column(info: TableInfo, name: str) -> int:
    """The position of a version column.

    Raises:
        InputError: there is none of this name, its values have no order that counts, or the table
            has no primary key.
    """
    names = [fold(column) for column, _ in info.schema]
    if fold(name) not in names or not info.primary_key:
        what = "no primary key" if fold(name) in names else f"no column {name!r}"
        raise InputError(f"table {info.name!r} has {what}, so events cannot be told by version")
    position = names.index(fold(name))
    dtype = info.schema[position][1].dtype
    if dtype is None or dtype.kind not in "iu":
        raise InputError(
            f"the version column {name!r} is {info.schema[position][1].sql}: it must be an "
            "integer, a date or a timestamp"
        )
    return position


def merge_newer(path: FastPath, events: Events, index: KeyIndex, version: int) -> Merged:
    """Merges the events that are not older than what the table has.

    An event that is refused may have made others old, so they are looked at again without it.

    Args:
        path: of the table, which has a primary key.
        events: with every column.
        index: of the table, with all columns.
        version: the position of the version column.
    """
    left, refused = np.arange(len(events)), dict[int, str]()
    while True:
        steps = _steps(path, events.take(left), index, version)
        stale = _stale(steps)
        newer = (~stale).nonzero()[0]
        merged = merge_keyed(path, events.take(left[newer]), index)
        if not merged.refused:
            return replace(merged, refused=refused, stale=left[stale].tolist())
        why = {int(newer[i]): text for i, text in merged.refused.items()}
        found = np.isin(np.arange(len(left)), list(why))
        doubtful = _doubtful(steps, found, stale)
        certain = found & (np.arange(len(left)) <= _last_certain(steps, doubtful))
        refused |= {int(left[i]): why[i] for i in certain.nonzero()[0].tolist()}
        left = left[~certain]


def _stale(steps: _Steps) -> Mask:
    """The events that must not be applied."""
    stale = np.zeros(steps.total, np.bool_)
    while True:
        found = np.zeros(len(stale), np.bool_)
        found[steps.event[_behind(steps, stale)]] = True
        blocking = found[steps.event] & steps.ends
        certain = found & (np.arange(len(stale)) <= _last_certain(steps, blocking))
        if not certain.any():
            return stale
        stale |= certain


def _doubtful(steps: _Steps, refused: Mask, stale: Mask) -> Mask:
    """The steps from which on other events may be applied, or refused, without those refused.

    Most refused events set a version that is higher than the one before: without it, events that
    are newer stay newer. So it is the stale ones behind that may not be stale then, and those that
    leave the version as it is, for which it matters whether the row is there.
    """
    apart = refused[steps.event]
    first = np.full(steps.group.max(initial=0) + 1, steps.total)
    np.minimum.at(first, steps.linked[apart], steps.event[apart])
    behind = steps.event > first[steps.linked]
    raises = steps.sent & (steps.rank >= 0) & ~steps.ends & ~steps.moves
    found: Mask = behind & (stale[steps.event] | ~steps.sent) | apart & ~raises
    return found


def _last_certain(steps: _Steps, wrong: Mask) -> Indexes:
    """For each event up to where what was found about its key holds.

    It holds up to the first event that is not applied although the versions after it were found as
    if it were: later events look at another row.

    Args:
        steps: of the events.
        wrong: bool[n], the steps of such events.
    """
    first = np.full(steps.group.max(initial=0) + 1, steps.total)
    np.minimum.at(first, steps.linked[wrong], steps.event[wrong])
    last = np.zeros(steps.total, np.int64)
    last[steps.event] = first[steps.linked]
    return last


class _Steps(NamedTuple):
    """Looks at single keys, by key and in order; an update that moves a row looks at two.

    Attributes:
        total: of the events.
        default: the rank of the version of a row that comes without one.
        event: int64[n], the number of the event.
        group: int64[n], the number of the key, ascending.
        linked: int64[n], the same, but one for all keys that moving rows connect.
        rank: int64[n], of the event's version among all versions, -1 if it has none.
        sent: bool[n], whether the event sets the version, if only to NULL.
        moves: bool[n], whether the event is an update that moves a row.
        deletes: bool[n], whether the event is a delete.
        ends: bool[n], whether the row under the key is gone after it.
        exists: bool[n], whether there is a stored row.
        stored: int64[n], the rank of the stored row's version, -1 if there is none.
    """

    total: int
    default: int
    event: Indexes
    group: Indexes
    linked: Indexes
    rank: Indexes
    sent: Mask
    moves: Mask
    deletes: Mask
    ends: Mask
    exists: Mask
    stored: Indexes

    def take(self, chosen: Mask) -> _Steps:
        """The chosen steps."""
        parts: list[Any] = [part[chosen] for part in self[2:]]
        return _Steps(self.total, self.default, *parts)


def _steps(path: FastPath, events: Events, index: KeyIndex, version: int) -> _Steps:
    count = len(events)
    new = [events.columns[i] for i in path.key]
    old = [(events.old or {}).get(i, events.columns[i]) for i in path.key]
    both = [concat([a, b]) for a, b in zip(old, new, strict=True)]
    first, number = group(both, [path.schema[i][1] for i in path.key])
    moved = (events.operations == UPDATE) & (number[:count] != number[count:])
    found = index.find([column.take(first) for column in both])
    versions = found.rows.columns[index.columns.index(version)]
    ranks = _ranks([events.columns[version], versions, path.default(version, 1)])
    exists, stored = np.zeros(len(first), np.bool_), np.full(len(first), -1)
    exists[found.probe], stored[found.probe] = True, ranks[count:-1]
    sent = ~events.unknown.get(version, np.zeros(count, np.bool_))
    event = np.concatenate([moved.nonzero()[0], np.arange(count)])
    groups = np.concatenate([number[:count][moved], number[count:]])
    ends = np.concatenate([np.ones(moved.sum(), np.bool_), events.operations == DELETE])
    order = np.lexsort((event, groups))
    event, groups = event[order], groups[order]
    own, deletes = np.where(sent, ranks[:count], -1), events.operations == DELETE
    parts: list[Any] = [event, groups, linked(event, groups)]
    parts += [part[event] for part in (own, sent, moved, deletes)]
    parts += [ends[order], exists[groups], stored[groups]]
    return _Steps(count, int(ranks[-1]), *parts)


def _ranks(columns: list[Column]) -> Indexes:
    column = concat(columns)
    assert isinstance(column, FixedColumn)
    ranks: Indexes = np.unique(column.values, return_inverse=True)[1].astype(np.int64)
    ranks[~not_null(column)] = -1
    return ranks


def _behind(steps: _Steps, dropped: Mask) -> Indexes:
    """The steps that are older than what is under their key when they come."""
    kept = ~dropped[steps.event]
    chosen = steps.take(kept)
    rank, highest = chosen.rank, _highest(chosen)
    behind = (rank >= 0) & np.where(chosen.deletes, rank < highest, rank <= highest)
    found: Indexes = kept.nonzero()[0][behind]
    return found


def _highest(steps: _Steps) -> Indexes:
    """The rank of the version under each step's key before it, -1 if there is none.

    Within a history it is the highest, since what is not higher is not applied. A history begins
    with a key's first step, and after each that leaves a version whatever was there before.
    """
    first = np.diff(steps.group, prepend=-1) > 0  # of its key; np.roll's wrapped value is not read
    exists = np.where(first, steps.exists, ~np.roll(steps.ends, 1))
    moved = steps.moves & ~steps.sent
    writes, removals = _by_event(steps, moved & ~steps.ends), _by_event(steps, moved & steps.ends)
    left = np.where(steps.sent | exists, steps.rank, steps.default)
    left[steps.ends] = -1
    resets = steps.ends | moved | (steps.sent & (steps.rank < 0))
    begins = first | np.roll(resets, 1)
    highest_rank = max(steps.rank.max(initial=-1), steps.stored.max(initial=-1), steps.default)
    segment = begins.cumsum() * np.int64(highest_rank + 2)
    while True:  # rows that move with their versions: a round for each move of one row
        known = np.where(first, steps.stored, np.roll(left, 1))
        highest: Indexes = np.maximum.accumulate(known + segment) - segment
        taken = np.where(exists[removals], highest[removals], steps.default)
        if (left[writes] == taken).all():
            return highest
        left[writes] = taken


def _by_event(steps: _Steps, chosen: Mask) -> Indexes:
    """The chosen steps in the order of their events."""
    found = chosen.nonzero()[0]
    return found[steps.event[found].argsort()]
