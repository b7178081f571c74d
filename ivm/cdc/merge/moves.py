"""Updates that move rows to other keys.

Law: an update that moves a row and is refused takes the row away under its old key all the same,
since it is gone there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ivm.cdc.formats.events import DELETE, UPDATE, Events
from ivm.storage.values.column import Indexes, Mask, concat
from ivm.storage.values.consolidate import group
from ivm.storage.values.key_codes import same_key
from ivm.storage.values.types import Schema


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


def without_writes(events: Events, moved: Indexes, key: Sequence[int]) -> Events:
    """The events with some that move rows made deletes of the rows that they take away."""
    assert events.old is not None
    at = np.arange(len(events))
    at[moved] += len(events)
    operations = events.operations.copy()
    operations[moved] = DELETE
    keys = {i: concat([events.columns[i], events.old[i]]).take(at) for i in key}
    return replace(events, operations=operations, columns={**events.columns, **keys})


def linked(event: Indexes, key: Indexes) -> Indexes:
    """The lowest of the keys that rows move to and from, directly or not.

    Args:
        event: the number of the event of each look at a key.
        key: the number of the key of each look.
    """
    found = key
    while True:
        least = np.full(event.max(initial=0) + 1, len(key))
        np.minimum.at(least, event, found)
        of_key = np.full(key.max(initial=0) + 1, len(key))
        np.minimum.at(of_key, key, least[event])
        further: Indexes = of_key[of_key[key]]  # pointers are doubled: few rounds
        if (further == found).all():
            return found
        found = further


def certain(
    refused: Indexes, doubtful: Mask, events: Events, key: Sequence[int], schema: Schema
) -> Indexes:
    """The refused moves that are refused, too, once those before them take their rows away.

    What is taken away can matter to events of linked keys that depend on what the table has.

    Args:
        refused: updates that move rows, in order.
        doubtful: the events that depend on it.
        events: of the table.
        key: the positions of its key.
        schema: its columns.
    """
    if not doubtful.any():
        return refused
    count = len(events)
    old = events.old or {}
    both = [concat([old.get(i, events.columns[i]), events.columns[i]]) for i in key]
    number = group(both, [schema[i][1] for i in key])[1]
    label = linked(np.tile(np.arange(count), 2), number)[:count]
    first, end = np.full(2 * count, count), np.full(2 * count, count)
    np.minimum.at(first, label[refused], refused)
    at = (doubtful & (np.arange(count) > first[label])).nonzero()[0]
    np.minimum.at(end, label[at], at)
    found: Indexes = refused[refused < end[label[refused]]]
    return found
