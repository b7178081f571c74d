"""What a batch of events can tell of the rows before it, asked for only where it matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ivm.cdc.formats.events import Events
from ivm.ingest.key_index import KeyIndex
from ivm.storage.values.column import Indexes
from ivm.storage.values.zset import ZSet


@dataclass(frozen=True)
class Displaced:
    """Rows without a place, see the module `displaced`.

    Attributes:
        transaction: a text that the events of the transaction share that has displaced them.
        rows: with every column, oldest first.
        again: whether events of that transaction have come once more.
    """

    transaction: str
    rows: ZSet
    again: bool = False


class Before(NamedTuple):
    """What events tell of what was before them.

    Attributes:
        rows: one for each event, unknown where an event does not tell it; None if none does.
        transactions: of each event a text that those of its transaction share, or NULL; None for
            NULL alone.
    """

    rows: Events | None = None
    transactions: pa.Array | None = None


@dataclass(frozen=True)
class Told:
    """What a batch can tell of the rows before its changes.

    Attributes:
        befores: what some events tell, by their numbers.
        index: the table's, with all columns.
        exact: the batch is whole transactions, and what is told are all values of a row: a row
            that is displaced stays when the latest one is gone.
        displaced: what the batch before has left: rows without a place, or that it comes again.
        last: the number of the last event.
    """

    befores: Callable[[Indexes], Before]
    index: Callable[[], KeyIndex]
    exact: bool = False
    displaced: Displaced | None = None
    last: int = -1

    @property
    def comes_again(self) -> bool:
        """Whether the batch begins within a transaction of which events have come once more."""
        return self.displaced is not None and self.displaced.again

    def asked(self, events: Indexes) -> Told:
        """The same, which answers for these events without asking once more: that is a statement.

        Args:
            events: their numbers.
        """
        known = np.unique(events)
        found = self.befores(known)

        def befores(some: Indexes) -> Before:
            if not np.isin(some, known).all():
                return self.befores(some)
            at = np.searchsorted(known, some)
            rows = None if found.rows is None else found.rows.take(at)
            texts = None if found.transactions is None else found.transactions.take(pa.array(at))
            return Before(rows, texts)

        return replace(self, befores=befores)
