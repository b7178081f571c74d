"""Finds the events that are older than what the table has, by a column that grows with each change.

Law: with a version column, a write is applied only if its version is greater than that of the row
under its key, and a delete only if its version is not less. So events that come again, or late,
change nothing. A row without a version is written over; an event without one is applied. A delete
ends the row's history: what is written after it is not compared with what was before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ivm.cdc.formats.events import DELETE, UPDATE, Events
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.storage.errors import InputError
from ivm.storage.identifiers import fold
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask, concat, not_null
from ivm.storage.values.consolidate import group
from ivm.storage.warehouse.table_info import TableInfo


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


def stale_events(path: FastPath, events: Events, index: KeyIndex, version: int) -> Mask:
    """The events that must not be applied.

    Args:
        path: of the table, which has a primary key.
        events: with every column.
        index: of the table, with the version column.
        version: its position.
    """
    steps = _steps(path, events, index, version)
    stale = np.zeros(len(events), np.bool_)
    while True:
        found = np.zeros(len(events), np.bool_)
        found[steps.event[_behind(steps, stale)]] = True
        certain = found & (np.arange(len(events)) <= _last_certain(steps, found))
        if not certain.any():
            return stale
        stale |= certain


def _last_certain(steps: _Steps, found: Mask) -> Indexes:
    """For each event up to where what was found about its key holds.

    It holds up to the first stale event that, if it were applied, would end a row's history: as it
    is not applied, later events look at another row. Rows that move connect keys.
    """
    blocking = found[steps.event] & steps.ends
    last = np.full(len(found), len(found))
    if (np.bincount(steps.event, minlength=len(found)) > 1).any():
        last[:] = steps.event[blocking].min(initial=len(found))
        return last
    first = np.full(steps.group.max(initial=0) + 1, len(found))
    np.minimum.at(first, steps.group[blocking], steps.event[blocking])
    last[steps.event] = first[steps.group]
    return last


class _Steps(NamedTuple):
    """Looks at single keys, by key and in order; an update that moves a row looks at two.

    Attributes:
        event: int64[n], the number of the event.
        group: int64[n], the number of the key, ascending.
        rank: int64[n], of the event's version among all versions, -1 if it has none.
        deletes: bool[n], whether the event is a delete.
        ends: bool[n], whether the row under the key is gone after it.
        stored: int64[n], the rank of the stored row's version, -1 if there is none.
    """

    event: Indexes
    group: Indexes
    rank: Indexes
    deletes: Mask
    ends: Mask
    stored: Indexes


def _steps(path: FastPath, events: Events, index: KeyIndex, version: int) -> _Steps:
    count = len(events)
    new = [events.columns[i] for i in path.key]
    old = [(events.old or {}).get(i, events.columns[i]) for i in path.key]
    both = [concat([a, b]) for a, b in zip(old, new, strict=True)]
    first, number = group(both, [path.schema[i][1] for i in path.key])
    moved = (events.operations == UPDATE) & (number[:count] != number[count:])
    found = index.find([column.take(first) for column in both])
    versions = found.rows.columns[index.columns.index(version)]
    ranks = _ranks([events.columns[version], versions])
    stored = np.full(len(first), -1)
    stored[found.probe] = ranks[count:]
    unknown = events.unknown.get(version)
    own = ranks[:count] if unknown is None else np.where(unknown, -1, ranks[:count])
    event = np.concatenate([moved.nonzero()[0], np.arange(count)])
    groups = np.concatenate([number[:count][moved], number[count:]])
    ends = np.concatenate([np.ones(moved.sum(), np.bool_), events.operations == DELETE])
    order = np.lexsort((event, groups))
    event, groups = event[order], groups[order]
    deletes = events.operations[event] == DELETE
    return _Steps(event, groups, own[event], deletes, ends[order], stored[groups])


def _ranks(columns: list[Column]) -> Indexes:
    column = concat(columns)
    assert isinstance(column, FixedColumn)
    ranks: Indexes = np.unique(column.values, return_inverse=True)[1].astype(np.int64)
    ranks[~not_null(column)] = -1
    return ranks


def _behind(steps: _Steps, dropped: Mask) -> Indexes:
    """The steps that are older than what is under their key when they come."""
    kept = ~dropped[steps.event]
    event, number, rank, deletes, ends, stored = [part[kept] for part in steps]
    if not len(event):
        return np.zeros(0, np.int64)
    first = np.append(True, number[1:] != number[:-1])
    begins = first | np.append(False, ends[:-1])
    span = np.int64(max(rank.max(), stored.max()) + 2)
    segment = begins.cumsum() * span
    start = np.where(first, stored, -1)  # what a history begins with
    before = np.append(-1, rank[:-1])
    highest = np.maximum.accumulate(np.where(begins, start, before) + segment) - segment
    behind = (rank >= 0) & np.where(deletes, rank < highest, rank <= highest)
    found: Indexes = kept.nonzero()[0][behind]
    return found
