"""The change that a batch of events makes to a table without a primary key.

Law: the table after the change is the table after the events, one after the other, where INSERT
adds a row, DELETE takes out one equal row if there is one, and UPDATE does both. An event whose new
row violates a constraint is refused, and the others are applied as if it had not been.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ivm.cdc.formats.events import DELETE, INSERT, UPDATE, Events
from ivm.cdc.merge.merged import Merged, violations
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.storage.values.column import Indexes, concat
from ivm.storage.values.consolidate import distinct_rows
from ivm.storage.values.key_codes import same_row
from ivm.storage.values.zset import Weights, ZSet, ones


def merge_keyless(path: FastPath, events: Events, index: KeyIndex) -> Merged:
    """Merges events into a table without a primary key.

    Args:
        path: of the table.
        events: with every column, see `with_defaults`; updates with the whole row before.
        index: of the table.
    """
    events = _completed(events)
    refused = _refused(path, events)
    events = events.take(np.delete(np.arange(len(events)), list(refused)))
    rows, signs = _steps(path, events)
    types = [type for _, type in path.schema]
    first, number = distinct_rows(rows.columns, types)
    distinct = rows.take(first)
    found = index.find(distinct.columns)
    own = same_row(distinct.columns, found.probe, found.rows.columns, _all(len(found.probe)), types)
    stored = np.zeros(len(first), np.int64)
    np.add.at(stored, found.probe[own], found.rows.weights[own])
    final, missed = _counted(number, signs, stored)
    change = final - stored
    gone, come = change < 0, change > 0
    removed = ZSet(distinct.filter(gone).columns, -change[gone])
    added = ZSet(distinct.filter(come).columns, change[come])
    counts = {
        "inserts": int((events.operations == INSERT).sum()),
        "updates": int((events.operations == UPDATE).sum()),
        "deletes": int((events.operations == DELETE).sum()),
        "unknown_deletes": missed,
    }
    return Merged(path.change(added, removed, index), refused, counts)


def _completed(events: Events) -> Events:
    """The events with the values that were not sent as they were before an update."""
    columns, old = dict(events.columns), events.old or {}
    for i in events.unknown.keys() & old.keys():
        known = events.unknown[i] & (events.operations == UPDATE)
        at = np.where(known, _all(len(events)) + len(events), _all(len(events)))
        columns[i] = concat([columns[i], old[i]]).take(at)
    return replace(events, columns=columns)


def _refused(path: FastPath, events: Events) -> dict[int, str]:
    columns = [events.columns[i] for i in range(len(path.schema))]
    written = (events.operations != DELETE).nonzero()[0]
    refused: dict[int, str] = {}
    for i, mask in events.unchanged.items():
        why = f"{path.schema[i][0]} was not sent, and the table has no key to find it by"
        inserts = mask & (events.operations == INSERT)
        refused |= dict.fromkeys(inserts.nonzero()[0].tolist(), why)
    for _, whys, violated in violations(path, columns, written):
        for event, why in zip(violated.tolist(), whys, strict=True):
            refused.setdefault(event, why)
    return refused


def _steps(path: FastPath, events: Events) -> tuple[ZSet, Weights]:
    """Single rows taken out (-1) and added (+1), in order; an update is one of each."""
    updates = events.operations == UPDATE
    of = np.repeat(_all(len(events)), 1 + updates)
    minus = events.operations[of] == DELETE
    minus[:-1] |= of[1:] == of[:-1]
    at = np.where(minus & updates[of], of + len(events), of)
    old = events.old or {}
    columns = tuple(
        [
            concat([events.columns[i], old[i]]).take(at) if i in old else events.columns[i].take(of)
            for i in range(len(path.schema))
        ]
    )
    return ZSet(columns, ones(len(of))), np.where(minus, -1, 1)


def _counted(number: Indexes, signs: Weights, stored: Weights) -> tuple[Weights, int]:
    """How often each row is there at the end, and how many removals found none.

    A count that would fall below zero stays there: at the end it is the sum, less the lowest value
    that it would have had if that is negative.
    """
    order = number.argsort(kind="stable")
    sums = signs[order].cumsum()
    begins = np.append(0, (number[order][1:] != number[order][:-1]).nonzero()[0] + 1)
    before = np.append(0, sums)[begins]
    lowest = np.minimum.reduceat(sums, begins) - before if len(sums) else sums
    totals = np.zeros(len(stored), np.int64)
    np.add.at(totals, number, signs)
    under = np.minimum(stored + lowest, 0) if len(sums) else totals
    return stored + totals - under, int(-under.sum())


def _all(count: int) -> Indexes:
    return np.arange(count)
