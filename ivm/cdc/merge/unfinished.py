"""Transactions that the end of a batch parts, and the rows that have no place at that moment.

Law: a row is displaced where another one has come to its key before it left, as by one statement
that shifts keys. The displaced rows at the end of a batch are given to the next one if they are of
the transaction in which the batch ends, and from batch to batch as long as each ends within it;
else they are gone, as within a batch (see `key_versions`).
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from ivm.cdc.merge.told import Told
from ivm.storage.values.column import Indexes, Mask

_FEW = 64


def last_few(events: Indexes) -> Indexes:
    """Of some events the last few, to which `in_last` looks at first."""
    return np.sort(events)[-_FEW:]


def in_last(told: Told, events: Indexes) -> tuple[str | None, Mask]:
    """The transaction in which a batch ends, if it is told, and which events are of it.

    Args:
        told: of the batch.
        events: numbers of some.
    """
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
