"""The change that a batch of events makes to a table with a primary key.

Law: the table after the change is the table after the events, one after the other, where INSERT
and UPDATE write the row of their key and DELETE removes it. The retractions are of stored rows. An
event whose row violates a constraint is refused, and the others are applied as if it had not been.

An UPDATE that changes the key removes the old key's row and writes the new one's; of several rows
that meet under a key, `meetings` tells which one an event means. Values that were not sent are
those of the row that the event has changed: written by the latest event of the batch that knows
them, else stored. Where there is none, an event that tells that a value has not changed is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ivm.cdc.formats.events import DELETE, INSERT, UPDATE, Events
from ivm.cdc.merge.breaches import breaches
from ivm.cdc.merge.displaced import displaced_rows
from ivm.cdc.merge.meetings import disambiguated
from ivm.cdc.merge.merged import Merged, violations
from ivm.cdc.merge.steps import Steps, latest, steps_of, whole
from ivm.cdc.merge.told import Told
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column, Indexes, Mask, concat
from ivm.storage.values.consolidate import all_distinct
from ivm.storage.values.key_codes import same_row
from ivm.storage.values.zset import ZSet, add, ones

_COUNTED = ["inserts", "updates", "deletes", "known_inserts", "unknown_updates", "unknown_deletes"]


def merge_keyed(
    path: FastPath, events: Events, index: KeyIndex, told: Told | None = None
) -> Merged:
    """Merges events into a table with a primary key.

    Args:
        path: of the table.
        events: with every column, see `with_defaults`.
        index: of the table, with all columns where values are unknown.
        told: of the rows before the events; None if nothing is.
    """
    appended = None if told and told.displaced else _appended(path, events, index)
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
        steps, met = steps_of(path, events, index), None
        if told is not None:
            steps, met = disambiguated(path, steps, index, told, numbers)
        rows = _rows(path, steps, index)
        bad = _violations(path, steps, rows, index, told)
        if bad:
            continue
        change, turns = _change(path, steps, rows, index)
        bad = breaches(path, change, turns)
        if not bad:
            displaced = None if met is None else displaced_rows(path, steps, met, rows, numbers)
            return Merged(change, refused, _counts(steps), displaced=displaced)


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
    if breaches(path, path.change(added, None, index), np.arange(len(events))):
        return None
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


def _rows(path: FastPath, steps: Steps, index: KeyIndex) -> list[Column]:
    """The rows after each step, complete."""
    columns = [steps.events.columns[i] for i in range(len(path.schema))]
    deletes = steps.events.operations == DELETE
    for position, mask in steps.events.unknown.items():
        if position in path.key or not (mask & ~deletes).any():
            continue
        stored = steps.stored.columns[index.columns.index(position)]
        passes = mask & ~deletes
        source = _source(steps, passes)
        own = np.where(deletes[source], np.arange(len(mask)), source)  # with defaults, if not sent
        row = steps.at[steps.origin[source]]  # of values that no step of the batch has written
        taken = np.where(passes[source] & (row >= 0), row + len(mask), own)
        columns[position] = concat([columns[position], stored]).take(taken)
    return columns


def _source(steps: Steps, passes: Mask) -> Indexes:
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


def _violations(
    path: FastPath, steps: Steps, rows: Sequence[Column], index: KeyIndex, told: Told | None
) -> dict[int, str]:
    """Why rows cannot be written, by the number of the event; one that is stored as it is can.

    Where the reason may be a value that was not sent, and that comes from another violating event,
    it is left for the next round.
    """
    reasons: dict[int, str] = {}
    writes = (steps.events.operations != DELETE).nonzero()[0]
    for _, whys, violated in violations(path, rows, writes):
        stays = _are_stored(path, steps, rows, violated, index, told)
        events = steps.of[violated].tolist()
        for event, why, stored in zip(events, whys, stays.tolist(), strict=True):
            if not stored:
                reasons.setdefault(event, why)
    lacking = _lacking(steps)
    for position, mask in steps.events.unchanged.items():
        name = path.schema[position][0]
        why = f"{name} was not sent, since it has not changed, but there is no row that has it"
        reasons |= dict.fromkeys(steps.of[mask & lacking].tolist(), why)
    if not reasons:
        return {}
    later = _building_on(steps, np.array(list(reasons)))
    later[steps.of[lacking & ~_of_moved(steps)]] = False
    return {event: why for event, why in reasons.items() if not later[event]}


def _are_stored(
    path: FastPath,
    steps: Steps,
    rows: Sequence[Column],
    chosen: Indexes,
    index: KeyIndex,
    told: Told | None,
) -> Mask:
    """Which of some steps write the row that is stored under its key already."""
    same = np.zeros(len(chosen), np.bool_)
    if (steps.at[steps.group[chosen]] < 0).all():
        return same
    if told is not None and len(index.columns) < len(path.schema):
        index = told.index()
    own = [column.take(chosen) for column in rows]
    found = index.find([own[i] for i in path.key])
    stored = whole(path, found.rows, index).columns
    types = [type for _, type in path.schema]
    equal = same_row(own, found.probe, stored, np.arange(len(found.probe)), types)
    same[found.probe[equal]] = True
    return same


def _lacking(steps: Steps) -> Mask:
    """The steps that leave values as they are of a row that is not there."""
    none = np.zeros(len(steps.of), np.bool_)
    if not steps.events.unchanged:
        return none
    keeps = np.logical_or.reduce([*steps.events.unchanged.values(), none])
    keeps &= steps.events.operations != DELETE
    is_there = _is_there(steps)
    source = _source(steps, keeps & is_there)  # what is refused leaves no row to those behind it
    found: Mask = keeps & (keeps & ~is_there)[source]
    return found


def _of_moved(steps: Steps) -> Mask:
    """The steps of rows that an update moves, by which they depend on more than their own ones."""
    moved = np.zeros(len(steps.at), np.bool_)
    moved[steps.group[steps.second]] = True
    moved[steps.group[steps.removals]] = True
    found: Mask = moved[steps.group]
    return found


def _building_on(steps: Steps, chosen: Indexes) -> Mask:
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


def _change(
    path: FastPath, steps: Steps, rows: Sequence[Column], index: KeyIndex
) -> tuple[TableChange, Indexes]:
    """The change of the table, and the number of the event of each new row, -1 if it has none."""
    last, removed = latest(steps.group, len(steps.at)), steps.stored
    back = np.zeros(0, np.int64)
    if steps.lasts is None:
        ends = last
    else:
        ends = last[steps.lasts & (last >= 0)]
        stays = steps.at[steps.lasts & (last < 0) & (steps.at >= 0)]  # displaced for a while
        removed = removed.take(np.delete(np.arange(steps.own), stays[stays < steps.own]))
        back = stays[stays >= steps.own]
    written = np.sort(ends[steps.events.operations[ends] != DELETE])
    added = ZSet(tuple([c.take(written) for c in rows]), ones(len(written)))
    if len(back):
        added = add([added, whole(path, steps.stored.take(back), index)])
    turns = np.append(steps.of[written], np.full(len(back), -1))
    return path.change(added, removed, index), turns


def _is_there(steps: Steps) -> Mask:
    """The steps before which the row is there: under the old key, where an update moves it."""
    before, stored = steps.before, steps.at[steps.origin] >= 0
    found: Mask = np.where(before < 0, stored, steps.events.operations[before] != DELETE)
    return found


def _counts(steps: Steps) -> dict[str, int]:
    operations = np.delete(steps.events.operations, steps.removals)  # counted with their writes
    known = np.delete(_is_there(steps), steps.removals)
    masks = [
        *(operations == kind for kind in (INSERT, UPDATE, DELETE)),
        known & (operations == INSERT),
        *(~known & (operations == kind) for kind in (UPDATE, DELETE)),
    ]
    return {name: int(mask.sum()) for name, mask in zip(_COUNTED, masks, strict=True)}
