"""The result of merging a batch of events: one change of the table, and the refused events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ivm.cdc.merge.told import Displaced
from ivm.ingest.fast_path import FastPath
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column, Indexes
from ivm.storage.values.zset import ZSet, ones


@dataclass(frozen=True)
class Merged:
    """The result of merging a batch of events with the stored rows.

    Attributes:
        change: of the table.
        refused: by the number of the event, why it cannot be applied.
        counts: of applied events by kind; `known_inserts`, `unknown_updates` and `unknown_deletes`
            are those among them that a faultless upstream does not send.
        stale: the numbers of the events that are older than what the table has.
        displaced: the rows to give to the next batch.
    """

    change: TableChange
    refused: dict[int, str]
    counts: dict[str, int]
    stale: Sequence[int] = ()
    displaced: Displaced | None = None


def violations(
    path: FastPath, columns: Sequence[Column], written: Indexes
) -> Iterator[tuple[int | None, Sequence[str], Indexes]]:
    """See `FastPath.violations`.

    Args:
        path: of the table.
        columns: all columns of the table.
        written: the rows to look at; the result has their indexes in the columns.
    """
    looked = set(range(len(columns)) if path.checks else path.required)
    if not path.checks:  # then only a NULL can be wrong, and most columns have none
        looked = {i for i in looked if columns[i].valid is not None}
    if looked or path.checks:
        taken = [c.take(written) if i in looked else c for i, c in enumerate(columns)]
        for position, why, violated in path.violations(ZSet(tuple(taken), ones(len(written)))):
            yield position, why, written[violated]
