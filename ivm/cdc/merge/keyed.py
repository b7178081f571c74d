"""The change that a batch of events makes to a table with a primary key.

Law: the table after the change is the table after the events, one after the other, where INSERT
and UPDATE write the row of their key and DELETE removes it. The retractions are of stored rows. An
event whose row violates a constraint is refused, and the others are applied as if it had not been.

An UPDATE that changes the key removes the old key's row and writes the new one's; of several rows
that meet under a key, `key_versions` tells which one an event means. Values that were not sent are
those of the row that the event has changed: written by the latest event of the batch that knows
them, else stored. Where there is none, an event that tells that a value has not changed is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ivm.cdc.formats.events import DELETE, INSERT, UPDATE, Events
from ivm.cdc.merge.key_versions import NEW, STORED, Lanes, Looks, lanes, suspects
from ivm.cdc.merge.merged import Merged, violations
from ivm.cdc.merge.moves import moved_rows
from ivm.cdc.merge.told import Displaced, Told
from ivm.cdc.merge.unfinished import in_last, last_few
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column, Indexes, Mask, concat
from ivm.storage.values.consolidate import all_distinct, group
from ivm.storage.values.zset import ZSet, add, ones

_NONE = np.zeros(0, np.int64)
_COUNTED = ["inserts", "updates", "deletes", "known_inserts", "unknown_updates", "unknown_deletes"]


def merge_keyed(
    path: FastPath, events: Events, index: KeyIndex, told: Told | None = None
) -> Merged:
    """Merges events into a table with a primary key.

    Args:
        path: of the table.
        events: with every column.
        index: of the table, with all columns where values are unknown.
        told: of the rows before the events; None if nothing is.
    """
    given = None if told is None else told.displaced
    appended = _appended(path, events, index) if given is None else None
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
        steps = _steps(path, events, index)
        if told is not None:
            steps = _parted(path, steps, index, told, numbers)
        rows = _rows(path, steps, index)
        bad = _violations(path, steps, rows)
        if not bad:
            change = _change(path, steps, rows, index)
            displaced = _displaced(path, steps, rows, numbers)
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
    """Events as writes and removals of single rows.

    Attributes:
        events: one for each step; an update of a key is a removal and a write.
        of: int64[n], the number of the event.
        second: bool[n], whether it is the write of a row that was removed under another key.
        stored: the rows of the table under the keys; behind them the given ones, if some are met.
        group: int64[n], the number of the row; of the key, where no key has several.
        own: how many of these are of the table.
        at: int64[g], which stored row each one is, -1 if none.
        before: int64[n], the step that left the row on which this one builds, -1 if it is stored.
        origin: int64[n], the number of that row: under the old key where an update moves it.
        removals: the removals that are followed by the write of the row under another key.
        lasts: bool[g], whether a row is the one that its key has at the end; None if all are.
        given: int64[d], of each given row the number of its key, -1 where no step is of it.
        over: int64[m], of each row that is displaced at the end a step over it, or the last one.
        under: int64[m], the step that has left it; else `STORED`, or the number of a given one,
            counted down from `NEW`.
        told: of the batch, where there are rows that come while another one is there.
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
    removals: Indexes
    lasts: Mask | None = None
    given: Indexes = _NONE
    over: Indexes = _NONE
    under: Indexes = _NONE
    told: Told | None = None


def _steps(path: FastPath, events: Events, index: KeyIndex) -> _Steps:
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
    links = _links(number, second)
    own = len(found.rows)
    return _Steps(events, of, second, found.rows, own, number, at, *links, second.nonzero()[0] - 1)


def _links(number: Indexes, second: Mask) -> tuple[Indexes, Indexes]:
    """See `before` and `origin` of `_Steps`."""
    before, origin = _previous(number), number.copy()
    removal = second.nonzero()[0] - 1
    before[second], origin[second] = before[removal], number[removal]
    return before, origin


def _previous(number: Indexes) -> Indexes:
    """The step before of the same number, -1 if there is none."""
    order = number.argsort(kind="stable")
    before = np.full(len(number), -1)
    follows = number[order[1:]] == number[order[:-1]]
    before[order[1:][follows]] = order[:-1][follows]
    return before


def _parted(path: FastPath, steps: _Steps, index: KeyIndex, told: Told, numbers: Indexes) -> _Steps:
    """The steps with several rows under a key told apart.

    Args:
        path: of the table.
        steps: by key.
        index: of the table, with all columns where rows are given.
        told: of the batch.
        numbers: of the events, in the batch.
    """
    operations = steps.events.operations
    writes, comes = operations != DELETE, (operations == INSERT) | steps.second
    stored, previous = steps.at >= 0, _previous(steps.group)
    over = comes & np.where(previous < 0, stored[steps.group], writes[previous])
    given = _given(path, steps, told.displaced)
    if not over.any() and not (given >= 0).any():
        return steps._replace(given=given, told=told)
    doubtful = suspects(steps.group, over, comes, given[given >= 0])
    # Behind no removal a row has come again, or is read once more: then it displaces none.
    met = (over & np.append(False, ~writes[:-1]) & ~doubtful).nonzero()[0]
    steps = steps._replace(given=given, told=told)
    if not doubtful.any() and (told.exact or not len(met)):
        return steps
    few = [] if told.exact else [last_few(numbers[steps.of[met]]), [told.last]]
    told = told.asked(np.concatenate([numbers[steps.of[doubtful]], *few]).astype(np.int64))
    # -1 in `under` is `STORED`.
    steps = steps._replace(given=given, over=met, under=previous[met], told=told)
    if not doubtful.any():
        return steps
    if told.displaced is not None:
        rows = told.displaced.rows.project(index.columns)
        steps = steps._replace(stored=add([steps.stored, rows]))
    return _told_apart(path, steps, told, numbers, doubtful, comes)


def _given(path: FastPath, steps: _Steps, displaced: Displaced | None) -> Indexes:
    """See `given` of `_Steps`."""
    if displaced is None:
        return _NONE
    keys = [concat([steps.events.columns[i], displaced.rows.columns[i]]) for i in path.key]
    number = group(keys, [path.schema[i][1] for i in path.key])[1]
    found = np.full(number.max() + 1, -1)
    found[number[: len(steps.group)]] = steps.group
    return found[number[len(steps.group) :]]


def _told_apart(
    path: FastPath, steps: _Steps, told: Told, numbers: Indexes, doubtful: Mask, comes: Mask
) -> _Steps:
    """The steps with those rows told apart at whose keys there is doubt."""
    chosen = doubtful.nonzero()[0]
    moves = steps.second.copy()
    moves[steps.removals] = True
    masks = [mask[chosen] for mask in (steps.events.operations != DELETE, comes, moves)]
    looks = Looks(chosen, numbers[steps.of[chosen]], steps.group[chosen], *masks)
    events, stored = steps.events.take(chosen), steps.at >= 0
    found = lanes(path, looks, events, stored, told, steps.given)
    count, number = len(steps.at), steps.group.copy()
    number[chosen] = count + np.array(found.of)
    key, given = np.array(found.key), np.array(found.given)
    own = np.where(given == STORED, steps.at[key], -1)
    at = np.append(steps.at, np.where(given >= 0, given + steps.own, own))
    lasts = np.append(np.ones(count, np.bool_), found.lasts)
    lasts[key] = False  # their places are taken by the rows that are told apart
    links = _links(number, steps.second)
    steps = steps._replace(group=number, at=at, before=links[0], origin=links[1], lasts=lasts)
    return _with_displaced(steps, found, chosen)


def _with_displaced(steps: _Steps, found: Lanes, chosen: Indexes) -> _Steps:
    """The steps with the rows that are displaced at the end among those told apart."""
    if not found.displaced:
        return steps
    row, look = np.array(found.displaced).T
    left = np.full(len(found.key), -1)
    left[found.of] = chosen
    given = np.array(found.given)[row]
    under = np.where(left[row] >= 0, left[row], np.where(given >= 0, NEW - given, STORED))
    return steps._replace(
        over=np.append(steps.over, chosen[look]), under=np.append(steps.under, under)
    )


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


def _rows(path: FastPath, steps: _Steps, index: KeyIndex) -> list[Column]:
    """The rows after each step, complete."""
    columns = [steps.events.columns[i] for i in range(len(path.schema))]
    deletes = steps.events.operations == DELETE
    for position, mask in steps.events.unknown.items():
        if position in path.key or not (mask & ~deletes).any():
            continue
        stored = steps.stored.columns[index.columns.index(position)]
        passes = mask & ~deletes
        source = _source(steps, passes)
        pool = concat([columns[position], stored, path.default(position, 1)])
        row = steps.at[steps.origin[source]]  # of values that no step of the batch has written
        none = np.where(passes[source] & (row >= 0), row + len(mask), len(pool) - 1)
        columns[position] = pool.take(np.where((passes | deletes)[source], none, source))
    return columns


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


def _violations(path: FastPath, steps: _Steps, rows: Sequence[Column]) -> dict[int, str]:
    """Why rows cannot be written, by the number of the event.

    Where the reason may be a value that was not sent, and that comes from another violating event,
    it is left for the next round.
    """
    reasons: dict[int, str] = {}
    writes = (steps.events.operations != DELETE).nonzero()[0]
    for _, why, violated in violations(path, rows, writes):
        for event in steps.of[violated].tolist():
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


def _lacking(steps: _Steps) -> Mask:
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


def _of_moved(steps: _Steps) -> Mask:
    """The steps of rows that an update moves, by which they depend on more than their own ones."""
    moved = np.zeros(len(steps.at), np.bool_)
    moved[steps.group[steps.second]] = True
    moved[steps.group[steps.removals]] = True
    found: Mask = moved[steps.group]
    return found


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


def _change(path: FastPath, steps: _Steps, rows: Sequence[Column], index: KeyIndex) -> TableChange:
    last = np.full(len(steps.at), -1)
    last[steps.group] = np.arange(len(steps.group))  # numpy keeps the last of repeated indexes
    removed = steps.stored
    back = _NONE
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
        added = add([added, _whole(path, steps.stored.take(back), index)])
    return path.change(added, removed, index)


def _whole(path: FastPath, rows: ZSet, index: KeyIndex) -> ZSet:
    """Rows of an index with all columns, as the table has these."""
    return rows.project([index.columns.index(i) for i in range(len(path.schema))])


def _displaced(
    path: FastPath,
    steps: _Steps,
    rows: Sequence[Column],
    numbers: Indexes,
) -> Displaced | None:
    """The rows to give to the next batch, see `unfinished`.

    Args:
        path: of the table.
        steps: of the batch.
        rows: after each of them.
        numbers: of the events, in the batch.
    """
    told = steps.told
    if told is None or told.exact or not (len(steps.over) or told.displaced):
        return None
    transaction, is_last = in_last(told, numbers[steps.of[steps.over]])
    if transaction is None:
        return None
    steps = steps._replace(over=steps.over[is_last], under=steps.under[is_last])
    kept = [_under(path, steps, rows, told)] if len(steps.over) else []
    if told.displaced is not None and told.displaced.transaction == transaction:
        kept.insert(0, told.displaced.rows.take((steps.given < 0).nonzero()[0]))
    found = add(kept) if kept else None
    return Displaced(transaction, found) if found is not None and len(found) else None


def _under(path: FastPath, steps: _Steps, rows: Sequence[Column], told: Told) -> ZSet:
    """The rows that are displaced; not those that equal the row over them, which has come again."""
    index, over = told.index(), steps.over
    found = index.find([rows[i].take(over) for i in path.key])
    stored = _whole(path, found.rows, index)
    given = stored if told.displaced is None else told.displaced.rows
    at = np.zeros(len(over), np.int64)
    at[found.probe] = np.arange(len(found.probe))
    under = np.where(steps.under == STORED, len(steps.of) + at, steps.under)
    under = np.where(under < 0, len(steps.of) + len(stored) + NEW - under, under)
    left = [concat([c, stored.columns[i], given.columns[i]]) for i, c in enumerate(rows)]
    left = [column.take(under) for column in left]
    both = [concat([column, own.take(over)]) for column, own in zip(left, rows, strict=True)]
    number = group(both, [type for _, type in path.schema])[1]
    new = (number[: len(over)] != number[len(over) :]).nonzero()[0]
    return ZSet(tuple([column.take(new) for column in left]), ones(len(new)))


def _is_there(steps: _Steps) -> Mask:
    """The steps before which the row is there: under the old key, where an update moves it."""
    before, stored = steps.before, steps.at[steps.origin] >= 0
    found: Mask = np.where(before < 0, stored, steps.events.operations[before] != DELETE)
    return found


def _counts(steps: _Steps) -> dict[str, int]:
    operations = np.delete(steps.events.operations, steps.removals)  # counted with their writes
    known = np.delete(_is_there(steps), steps.removals)
    masks = [
        *(operations == kind for kind in (INSERT, UPDATE, DELETE)),
        known & (operations == INSERT),
        *(~known & (operations == kind) for kind in (UPDATE, DELETE)),
    ]
    return {name: int(mask.sum()) for name, mask in zip(_COUNTED, masks, strict=True)}
