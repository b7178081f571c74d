"""Changes of a key that Debezium tells as a delete and an insert.

Law: an insert with values that have not changed is, with the delete before it of the same place
upstream, an update of the deleted row; without that, nobody knows these values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivm.cdc.formats.events import DELETE, INSERT, UPDATE, Decoded, Events
from ivm.storage.values.column import Indexes, concat


def with_key_changes(
    found: Decoded, key: Sequence[int], places: Callable[[Indexes], pa.Array]
) -> Decoded:
    """The events with such pairs as updates.

    Args:
        found: of one table.
        key: the positions of its key; of a table without one nothing is joined.
        places: of lines, where upstream their changes stand, NULL if they do not tell it.
    """
    inserts = _behind_deletes(found.events)
    if not len(inserts) or not key:
        return found
    own, before = (places(found.lines[at]) for at in (inserts, inserts - 1))
    same = pc.fill_null(pc.equal(own, before), False)
    inserts = inserts[same.to_numpy(zero_copy_only=False)]
    kept = np.delete(np.arange(len(found.events)), inserts - 1)
    events = _joined(found.events, inserts, key).take(kept)
    return replace(found, events=events, lines=found.lines[kept])


def _behind_deletes(events: Events) -> Indexes:
    """The inserts right behind deletes that tell that values have not changed."""
    none = np.zeros(len(events), np.bool_)
    keeps = np.logical_or.reduce([none, *events.unchanged.values()])
    keeps &= events.operations == INSERT
    keeps[1:] &= events.operations[:-1] == DELETE
    keeps[:1] = False
    found: Indexes = keeps.nonzero()[0]
    return found


def _joined(events: Events, inserts: Indexes, key: Sequence[int]) -> Events:
    """The events with some inserts made updates of the rows that those before them delete."""
    operations = events.operations.copy()
    operations[inserts] = UPDATE
    at = np.arange(len(events))
    at[inserts] += len(events) - 1
    old = dict(events.old or {})
    for i in key:
        old[i] = concat([old.get(i, events.columns[i]), events.columns[i]]).take(at)
    return replace(events, operations=operations, old=old)
