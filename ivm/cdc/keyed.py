"""The change that a batch of events makes to a table with a primary key.

Law: the table after the change is the table after the events, one after the other, where INSERT
and UPDATE write the row of their key and DELETE removes it. The retractions are of stored rows. An
event whose row violates a constraint is refused, and the others are applied as if it had not been.

An UPDATE that changes the key removes the old key's row and writes the new one's. Values that were
not sent are those of the row that the event has changed: written by the latest event of the batch
that knows them, else stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ivm.cdc.formats.events import DELETE, INSERT, UPDATE, Events
from ivm.cdc.merged import Merged, violations
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column, Indexes, Mask, concat
from ivm.storage.values.consolidate import all_distinct, group
from ivm.storage.values.key_codes import same_key
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, ones

_COUNTED = ["inserts", "updates", "deletes", "known_inserts", "unknown_updates", "unknown_deletes"]


def merge_keyed(path: FastPath, events: Events, index: KeyIndex) -> Merged:
    """Merges events into a table with a primary key.

    Args:
        path: of the table.
        events: with every column.
        index: of the table, with all columns where values are unknown.
    """
    appended = _appended(path, events, index)
    if appended is not None:
        return appended
    numbers = np.arange(len(events))
    refused: dict[int, str] = {}
    bad = _sent_nulls(path, events)
    while True:
        if bad:
            refused |= {int(numbers[i]): why for i, why in bad.items()}
            left = np.delete(np.arange(len(events)), list(bad))
            events, numbers = events.take(left), numbers[left]
        steps = _steps(path, events)
        rows = _rows(path, steps, index)
        bad = _violations(path, steps, rows)
        if not bad:
            return Merged(_change(path, steps, rows, index), refused, _counts(steps, rows))


def _appended(path: FastPath, events: Events, index: KeyIndex) -> Merged | None:
    """The change if the events are inserts of whole new rows with different keys, else None.

    Most of what a copy or a log sends is; nothing has to be put in order then.
    """
    if not len(events) or events.unknown or (events.operations != INSERT).any():
        return None
    columns = [events.columns[i] for i in range(len(path.schema))]
    keys = [columns[i] for i in path.key]
    if not all_distinct(keys, [path.schema[i][1] for i in path.key]):
        return None
    if any(violations(path, columns, np.arange(len(events)))) or len(index.find(keys).probe):
        return None
    added = ZSet(tuple(columns), ones(len(events)))
    counts = {**dict.fromkeys(_COUNTED, 0), "inserts": len(events)}
    return Merged(path.change(added, None, index), {}, counts)


def _sent_nulls(path: FastPath, events: Events) -> dict[int, str]:
    """The events that are refused whatever the others are: a value that must not be NULL is.

    They are the most frequent dirt, and cost no round of their own if they are found before.
    """
    reasons: dict[int, str] = {}
    for position in path.required:
        valid = events.columns[position].valid
        if valid is not None:
            sent = ~events.unknown.get(position, np.zeros(len(events), np.bool_))
            nulls = ~valid & sent & (events.operations != DELETE)
            for event in nulls.nonzero()[0].tolist():
                reasons.setdefault(event, path.why_not_null(position))
    return reasons


class _Steps(NamedTuple):
    """Events as writes and removals of single keys.

    Attributes:
        events: one for each step; an update of a key is a removal and a write.
        of: int64[n], the number of the event.
        group: int64[n], the number of the key.
        first: int64[g], the first step of each key.
        before: int64[n], the step that left the row on which this one builds, -1 if it is stored.
        origin: int64[n], the number of that row's key: the old one where an update moves it.
        removals: the removals that are followed by the write of the row under another key.
    """

    events: Events
    of: Indexes
    group: Indexes
    first: Indexes
    before: Indexes
    origin: Indexes
    removals: Indexes


def _steps(path: FastPath, events: Events) -> _Steps:
    moved = moved_rows(events, path.key, path.schema)
    count = len(events)
    of = np.repeat(np.arange(count), 1 + moved)
    second = np.zeros(len(of), np.bool_)  # the write of a moved row follows its removal
    second[1:] = of[1:] == of[:-1]
    if moved.any():
        events = _split(events, of, second)
    keys = [events.columns[i] for i in path.key]
    first, number = group(keys, [path.schema[i][1] for i in path.key])
    order = number.argsort(kind="stable")
    before = np.full(len(of), -1)
    follows = number[order[1:]] == number[order[:-1]]
    before[order[1:][follows]] = order[:-1][follows]
    removal = second.nonzero()[0] - 1
    before[second] = before[removal]
    origin = number.copy()
    origin[second] = number[removal]
    return _Steps(events, of, number, first, before, origin, removal)


def moved_rows(events: Events, key: Sequence[int], schema: Schema) -> Mask:
    """The updates that change the key.

    Args:
        events: of one table.
        key: the positions of its key.
        schema: its columns.
    """
    moved = np.zeros(len(events), np.bool_)
    if events.old is None or not len(events):
        return moved
    updates = (events.operations == UPDATE).nonzero()[0]
    old, new = [[side[i] for i in key] for side in (events.old, events.columns)]
    moved[updates] = ~same_key(old, updates, new, updates, [schema[i][1] for i in key])
    return moved


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
    return Events(operations, columns, taken.unknown)


class _Rows(NamedTuple):
    """The rows after each step.

    Attributes:
        columns: complete.
        stored: the rows found under the steps' keys.
        at: int64[g], which of them each key has, -1 if none.
    """

    columns: list[Column]
    stored: ZSet
    at: Indexes


def _rows(path: FastPath, steps: _Steps, index: KeyIndex) -> _Rows:
    columns = [steps.events.columns[i] for i in range(len(path.schema))]
    probes = [steps.events.columns[i].take(steps.first) for i in path.key]
    found = index.find(probes)
    at = np.full(len(steps.first), -1)
    at[found.probe] = np.arange(len(found.probe))
    deletes = steps.events.operations == DELETE
    for position, mask in steps.events.unknown.items():
        if position in path.key or not (mask & ~deletes).any():
            continue
        stored = found.rows.columns[index.columns.index(position)]
        passes = mask & ~deletes
        source = _source(steps, passes)
        pool = concat([columns[position], stored, path.default(position, 1)])
        row = at[steps.origin[source]]  # of values that no step of the batch has written
        none = np.where(passes[source] & (row >= 0), row + len(mask), len(pool) - 1)
        columns[position] = pool.take(np.where((passes | deletes)[source], none, source))
    return _Rows(columns, found.rows, at)


def _source(steps: _Steps, passes: Mask) -> Indexes:
    """For each step the latest one up to it that sets the value, or the first of its chain.

    Args:
        passes: the steps that pass on the value before them.
    """
    builds = passes & (steps.before >= 0)
    source = np.where(builds, steps.before, np.arange(len(passes)))
    while True:  # pointers are doubled: log n rounds
        further = source[source]
        if (further == source).all():
            return source
        source = further


def _violations(path: FastPath, steps: _Steps, rows: _Rows) -> dict[int, str]:
    """Why rows cannot be written, by the number of the event.

    Where the reason may be a value that was not sent, and that comes from another violating event,
    it is left for the next round.
    """
    reasons: dict[int, str] = {}
    writes = (steps.events.operations != DELETE).nonzero()[0]
    for _, why, violated in violations(path, rows.columns, writes):
        for event in steps.of[violated].tolist():
            reasons.setdefault(event, why)
    if not reasons:
        return {}
    later = _building_on(steps, np.array(list(reasons)))
    return {event: why for event, why in reasons.items() if not later[event]}


def _building_on(steps: _Steps, chosen: Indexes) -> Mask:
    """The events with values from the row that one of the chosen events before them leaves."""
    builds = steps.before >= 0
    builds &= np.logical_or.reduce(
        [*steps.events.unknown.values(), np.zeros(len(builds), np.bool_)]
    )
    builds[steps.removals] = False
    before = np.arange(steps.of[-1] + 1)
    before[steps.of[builds]] = steps.of[steps.before[builds]]
    refused = np.zeros(len(before), np.bool_)
    refused[chosen] = True
    found: Mask = refused[before] & (before != np.arange(len(before)))
    while True:  # pointers are doubled: log n rounds
        found = found | found[before]
        further = before[before]
        if (further == before).all():
            return found
        before = further


def _change(path: FastPath, steps: _Steps, rows: _Rows, index: KeyIndex) -> TableChange:
    last = np.zeros(len(steps.first), np.int64)
    last[steps.group] = np.arange(len(steps.group))  # numpy keeps the last of repeated indexes
    written = np.sort(last[steps.events.operations[last] != DELETE])
    added = ZSet(tuple([c.take(written) for c in rows.columns]), ones(len(written)))
    return path.change(added, rows.stored, index)


def _counts(steps: _Steps, rows: _Rows) -> dict[str, int]:
    operations = np.delete(steps.events.operations, steps.removals)  # counted with their writes
    before = np.delete(steps.before, steps.removals)
    stored = rows.at[np.delete(steps.origin, steps.removals)] >= 0
    known = np.where(before < 0, stored, steps.events.operations[before] != DELETE)
    masks = [
        *(operations == kind for kind in (INSERT, UPDATE, DELETE)),
        known & (operations == INSERT),
        *(~known & (operations == kind) for kind in (UPDATE, DELETE)),
    ]
    return {name: int(mask.sum()) for name, mask in zip(_COUNTED, masks, strict=True)}
