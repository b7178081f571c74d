"""Steps of rows that meet under a key, told apart.

Law: after it no step means another row than its event does, see `key_versions`; rows that the batch
before has left without a place are among those that it may mean. Only keys are looked at where that
is in doubt, and what events tell of the rows before them is asked for once.
"""

from __future__ import annotations

import numpy as np

from ivm.cdc.merge.displaced import Displacing, last_few
from ivm.cdc.merge.key_versions import NEW, STORED, Lanes, Looks, lanes, suspects
from ivm.cdc.merge.steps import Steps, latest, links, previous
from ivm.cdc.merge.told import Displaced, Told
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.storage.values.column import Indexes, Mask, concat
from ivm.storage.values.consolidate import group
from ivm.storage.values.zset import add


def disambiguated(
    path: FastPath, steps: Steps, index: KeyIndex, told: Told, numbers: Indexes
) -> tuple[Steps, Displacing]:
    """The steps, each of the row that its event means, and what displaces rows at the end.

    Args:
        path: of the table.
        steps: by key.
        index: of the table, with all columns where rows are given.
        told: of the batch.
        numbers: of the events, in the batch.
    """
    before, stored = previous(steps.group), steps.at >= 0
    over = steps.comes & np.where(before < 0, stored[steps.group], steps.writes[before])
    given = _given(path, steps, told.displaced)
    met = Displacing(told, given)
    looked = np.append(given[given >= 0], _left_before(steps, told))
    if not over.any() and not len(looked):
        return steps, met
    doubtful = suspects(steps.group, over, steps.comes, looked)
    arrived = (over & _arrives(steps) & ~doubtful).nonzero()[0]
    if not doubtful.any() and (told.exact or not len(arrived)):
        return steps, met
    events = numbers[steps.of]
    asked = [] if told.exact else [last_few(events[arrived]), [told.last]]
    told = told.asked(np.concatenate([events[doubtful], *asked]).astype(np.int64))
    met = Displacing(told, given, arrived, np.where(before < 0, STORED, before)[arrived])
    return _by_lanes(path, steps, index, met, events, doubtful) if doubtful.any() else (steps, met)


def _given(path: FastPath, steps: Steps, displaced: Displaced | None) -> Indexes:
    """See `given` of `Displacing`."""
    if displaced is None:
        return np.zeros(0, np.int64)
    keys = [concat([steps.events.columns[i], displaced.rows.columns[i]]) for i in path.key]
    number = group(keys, [path.schema[i][1] for i in path.key])[1]
    found = np.full(number.max() + 1, -1)
    found[number[: len(steps.group)]] = steps.group
    return found[number[len(steps.group) :]]


def _left_before(steps: Steps, told: Told) -> Indexes:
    """The keys with a row of which an event that comes again may take away another one."""
    if not told.comes_again:
        return np.zeros(0, np.int64)
    keys = steps.group[~steps.writes]
    return keys[steps.at[keys] >= 0]


def _arrives(steps: Steps) -> Mask:
    """The steps whose row comes behind a removal, as one does that is moved.

    Behind anything else a row has come again, or is read once more.
    """
    found: Mask = steps.comes & np.append(False, ~steps.writes[:-1])
    return found


def _by_lanes(
    path: FastPath,
    steps: Steps,
    index: KeyIndex,
    met: Displacing,
    events: Indexes,
    doubtful: Mask,
) -> tuple[Steps, Displacing]:
    """The steps with those rows told apart at whose keys there is doubt."""
    chosen, count = doubtful.nonzero()[0], len(steps.at)
    moves = steps.second.copy()
    moves[steps.removals] = True
    masks = [mask[chosen] for mask in (steps.writes, steps.comes, _arrives(steps), moves)]
    looks = Looks(chosen, events[chosen], steps.group[chosen], *masks)
    found = lanes(path, looks, steps.events.take(chosen), steps.at >= 0, met.told, met.given)
    number, key, given = steps.group.copy(), np.array(found.key), np.array(found.given)
    number[chosen] = count + np.array(found.of)
    own = np.where(given == STORED, steps.at[key], -1)
    at = np.append(steps.at, np.where(given >= 0, given + steps.own, own))
    lasts = np.append(np.ones(count, np.bool_), found.lasts)
    lasts[key] = False  # their places are taken by the rows that are told apart
    before, origin = links(number, steps.second)
    steps = steps._replace(group=number, at=at, before=before, origin=origin, lasts=lasts)
    if met.told.displaced is not None:
        rows = met.told.displaced.rows.project(index.columns)
        steps = steps._replace(stored=add([steps.stored, rows]))
    return steps, _with_lanes(met, found, chosen)


def _with_lanes(met: Displacing, found: Lanes, chosen: Indexes) -> Displacing:
    """The same with what the rows have come to that are told apart."""
    met = met._replace(again=chosen[np.array(found.again, np.int64)])
    if not found.displaced:
        return met
    row, look = np.array(found.displaced).T
    step = latest(np.array(found.of), len(found.key))[row]
    given = np.array(found.given)[row]
    left = np.where(given >= 0, NEW - given, STORED)
    under = np.where(step >= 0, chosen[step], left)
    over = np.append(met.over, chosen[look])
    return met._replace(over=over, under=np.append(met.under, under))
