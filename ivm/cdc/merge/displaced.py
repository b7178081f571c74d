"""Rows that are displaced at the end of a batch, to be given to the next one.

Law: a row is displaced where another one has come to its key before it left, as by one statement
that shifts keys, and the end of a batch may stand within such a statement. The displaced rows are
given to the next batch if they are of the transaction in which the batch ends, and from batch to
batch as long as each ends within it; else they are gone, as within a batch (see `key_versions`).
With them, or alone, it is noted that events of that transaction have come again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from ivm.cdc.merge.key_versions import NEW, STORED
from ivm.cdc.merge.steps import Steps, whole
from ivm.cdc.merge.told import Displaced, Told
from ivm.ingest.fast_path import FastPath
from ivm.storage.values.column import Column, Indexes, Mask, concat
from ivm.storage.values.consolidate import group
from ivm.storage.values.zset import ZSet, add, empty, ones

_NONE = np.zeros(0, np.int64)
_FEW = 64


class Displacing(NamedTuple):
    """What displaces rows at the end of a batch.

    Attributes:
        told: of the batch.
        given: int64[d], of each row given to it the number of its key, -1 where no step is of it.
        over: int64[m], of each row that is displaced a step over it, or the last one at its key.
        under: int64[m], the step that has left the row; else `STORED`, or the number of a given
            one, counted down from `NEW`.
        again: int64[a], steps behind which a row had come again to their keys.
    """

    told: Told
    given: Indexes
    over: Indexes = _NONE
    under: Indexes = _NONE
    again: Indexes = _NONE


def last_few(events: Indexes) -> Indexes:
    """Of some events the last few, of whose transactions `displaced_rows` asks at first."""
    return np.sort(events)[-_FEW:]


def displaced_rows(
    path: FastPath, steps: Steps, met: Displacing, rows: Sequence[Column], numbers: Indexes
) -> Displaced | None:
    """What to give to the next batch.

    Args:
        path: of the table.
        steps: of the batch.
        met: at its end.
        rows: after each step.
        numbers: of the events, in the batch.
    """
    told, given = met.told, met.told.displaced
    if told.exact or not (len(met.over) or len(met.again) or given):
        return None
    looked = np.concatenate([met.over, met.again])
    transaction, is_last = _in_last(told, numbers[steps.of[looked]])
    if transaction is None:
        return None
    over = is_last[: len(met.over)].nonzero()[0]
    kept = _under(path, steps, met, rows, over)
    again = bool(is_last[len(met.over) :].any()) or len(kept) < len(over)
    if given is not None and given.transaction == transaction:
        kept = add([given.rows.take((met.given < 0).nonzero()[0]), kept])
        again |= given.again
    return Displaced(transaction, kept, again) if len(kept) or again else None


def _in_last(told: Told, events: Indexes) -> tuple[str | None, Mask]:
    """The transaction in which a batch ends, if it is told, and which events are of it."""
    order = events.argsort()
    transaction, found = _equal(told, last_few(events))
    if found.all() and len(events) > _FEW:  # a transaction's events stand together
        transaction, found = _equal(told, events[order])
    chosen = np.zeros(len(events), np.bool_)
    chosen[order[len(order) - len(found) :]] = found
    return transaction, chosen


def _equal(told: Told, events: Indexes) -> tuple[str | None, Mask]:
    texts = told.befores(np.append(events, told.last)).transactions
    if texts is None or not texts[-1].is_valid:
        return None, np.zeros(len(events), np.bool_)
    same = pc.equal(texts[:-1], texts[-1]).fill_null(False)
    return texts[-1].as_py(), same.to_numpy(zero_copy_only=False)


def _under(
    path: FastPath, steps: Steps, met: Displacing, rows: Sequence[Column], chosen: Indexes
) -> ZSet:
    """The rows that are displaced; not those that equal the row over them, which has come again."""
    if not len(chosen):
        return empty([type for _, type in path.schema])
    over, under, count = met.over[chosen], met.under[chosen], len(steps.of)
    index = met.told.index()
    found = index.find([rows[i].take(over) for i in path.key])
    stored = whole(path, found.rows, index)
    given = stored if met.told.displaced is None else met.told.displaced.rows
    at = np.zeros(len(over), np.int64)
    at[found.probe] = np.arange(len(found.probe))
    under = np.where(under == STORED, count + at, under)
    under = np.where(under < 0, count + len(stored) + NEW - under, under)
    pools = [concat([c, stored.columns[i], given.columns[i]]) for i, c in enumerate(rows)]
    left = [column.take(under) for column in pools]
    both = [concat([column, own.take(over)]) for column, own in zip(left, rows, strict=True)]
    number = group(both, [type for _, type in path.schema])[1]
    new = (number[: len(over)] != number[len(over) :]).nonzero()[0]
    return ZSet(tuple([column.take(new) for column in left]), ones(len(new)))
