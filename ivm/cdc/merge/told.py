"""What a batch of events can tell of the rows before it, asked for only where it matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from ivm.cdc.formats.events import Events
from ivm.ingest.key_index import KeyIndex
from ivm.storage.values.column import Indexes
from ivm.storage.values.zset import ZSet


@dataclass(frozen=True)
class Displaced:
    """Rows without a place, see `unfinished`.

    Attributes:
        transaction: a text that the events of the transaction share that has displaced them.
        rows: with every column, oldest first.
    """

    transaction: str
    rows: ZSet


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
        displaced: the rows that the batch before has left without a place.
    """

    befores: Callable[[Indexes], Before]
    index: Callable[[], KeyIndex]
    exact: bool = False
    displaced: Displaced | None = None
