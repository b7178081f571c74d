"""The last event of each key, where the others of a batch make no difference.

Law: whatever rows a table has, the events that stay leave in it what all of them would have left,
and those are refused that all would have refused. So an event is left out only if a later one of
its key writes the whole row or deletes it, and none of the key's events from the one up to the
other can be refused, since such a one may build on the one before it; and only if no event of the
batch moves a row to another key.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ivm.cdc.formats.events import DELETE, Decoded, Events
from ivm.cdc.merge.moves import moved_rows
from ivm.storage.values.column import Indexes, Mask, not_null
from ivm.storage.values.consolidate import group
from ivm.storage.warehouse.tables.table_info import TableInfo


def without_superseded(found: Decoded, info: TableInfo) -> Decoded:
    """The events without those that later ones of their keys supersede.

    Args:
        found: of one table, without a version column.
        info: the table; nothing is left out where it has no key, or constraints that a row may
            break whose values are there.
    """
    events = found.events
    breakable = info.checks or info.foreign_keys or {*info.uniques} - {info.primary_key}
    if not info.primary_key or breakable or found.truncates or len(events) < 2:
        return found
    if found.origins is not None and len(found.origins.unique()) > 1:  # some may be another's
        return found
    if moved_rows(events, info.primary_key, info.schema).any():
        return found
    types = [info.schema[i][1] for i in info.primary_key]
    first, number = group([events.columns[i] for i in info.primary_key], types)
    sure = _cannot_be_refused(events, info)
    last = _last((sure & _whole(events)).nonzero()[0], number, len(first))
    numbers = np.arange(len(events))
    unsure = (~sure & (numbers < last[number])).nonzero()[0]
    superseded = (numbers < last[number]) & (numbers > _last(unsure, number, len(first))[number])
    stays = (~superseded).nonzero()[0]
    left_out = len(events) - len(stays)
    return replace(found, events=events.take(stays), lines=found.lines[stays], superseded=left_out)


def _last(chosen: Indexes, number: Indexes, groups: int) -> Indexes:
    """The last of the chosen events of each group, -1 if there is none."""
    last = np.full(groups, -1)
    last[number[chosen]] = chosen  # numpy keeps the last of repeated indexes
    return last


def _cannot_be_refused(events: Events, info: TableInfo) -> Mask:
    """The events with a key, every value that must not be NULL, and none that a row must have."""
    deletes = events.operations == DELETE
    sure = np.ones(len(events), np.bool_)
    for mask in events.unchanged.values():
        sure &= ~mask
    for i in info.not_null:
        there = not_null(events.columns[i])
        if i in events.unknown:
            there = there & ~events.unknown[i]
        sure &= there if i in info.primary_key else there | deletes
    return sure


def _whole(events: Events) -> Mask:
    """The events that say what becomes of the whole row."""
    whole = np.ones(len(events), np.bool_)
    for unknown in events.unknown.values():
        whole &= ~unknown
    whole |= events.operations == DELETE
    return whole
