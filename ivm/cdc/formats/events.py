"""Events: the changes of one table as its upstream database made them, in columns.

Contract: the events of one batch stand in the order in which they happened. A value that an event
does not carry is marked as unknown, and the stored one stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ivm.storage.errors import InputError
from ivm.storage.values.column import Column, Indexes, Mask, concat

INSERT, UPDATE, DELETE = 0, 1, 2
Operations = npt.NDArray[np.uint8]


class UnlikeLinesError(InputError):
    """Lines cannot be read in one way; the message says it of one that cannot by itself."""


@dataclass(frozen=True)
class Events:
    """Changes of one table's rows.

    Attributes:
        operations: uint8[n], INSERT, UPDATE or DELETE.
        columns: every column of the table by position; of a delete only the key is read, or the
            whole row where the table has none.
        unknown: by position, the rows whose value was not sent.
        old: the rows before updates, by position: key columns where a key may have changed, all
            columns of a table without a key. An event that changes no key has its own key there.
        unchanged: by position, those of `unknown` that tell that the value has not changed: an
            event with one cannot be applied where there is no row that has it.
    """

    operations: Operations
    columns: Mapping[int, Column]
    unknown: Mapping[int, Mask] = field(default_factory=dict)
    old: Mapping[int, Column] | None = None
    unchanged: Mapping[int, Mask] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.operations)

    def take(self, indexes: Indexes) -> Events:
        """The events at these indexes."""
        old = self.old
        return replace(
            self,
            operations=self.operations[indexes],
            columns={i: c.take(indexes) for i, c in self.columns.items()},
            unknown={i: mask[indexes] for i, mask in self.unknown.items()},
            old=None if old is None else {i: c.take(indexes) for i, c in old.items()},
            unchanged={i: mask[indexes] for i, mask in self.unchanged.items()},
        )


@dataclass(frozen=True)
class Decoded:
    """The events of a batch of lines.

    Attributes:
        events: in the order of the lines.
        lines: int64[n], the number of each event's line in the batch.
        refused: by the number of the line, why it cannot be decoded.
        truncates: the numbers of the lines that empty the table.
        ignored: how many lines are no changes.
        superseded: how many further events were left out, since a later one of their key writes or
            deletes the whole row.
        origins: of each line the name of the event's table upstream, NULL where it does not tell
            it; None if no line does.
        transactions: of each line what tells its transaction, as `origins`; of the rows before
            events alone, see `Envelope`.
    """

    events: Events
    lines: Indexes
    refused: dict[int, str]
    truncates: list[int]
    ignored: int
    superseded: int = 0
    origins: pa.Array | None = None
    transactions: pa.Array | None = None

    def of_lines(self, count: int) -> Events | None:
        """An event for each of so many lines, without values where a line has none."""
        if not len(self.lines):
            return None
        at = np.zeros(count, np.int64)
        at[self.lines] = np.arange(len(self.lines))
        lacking = np.ones(count, np.bool_)
        lacking[self.lines] = False
        found = self.events.take(at)
        unknown = {i: found.unknown.get(i, ~lacking & lacking) | lacking for i in found.columns}
        return replace(found, unknown=unknown)


def interleaved(parts: Sequence[tuple[Indexes, Decoded]], refused: Mapping[int, str]) -> Decoded:
    """The events of groups of lines as those of all lines, in order.

    Args:
        parts: the numbers of each group's lines, and what these were decoded to; at least one.
        refused: further lines, and why.
    """
    lines = np.concatenate([numbers[found.lines] for numbers, found in parts])
    order = lines.argsort()
    why = {int(n[i]): text for n, found in parts for i, text in found.refused.items()}
    return Decoded(
        chained([found.events for _, found in parts]).take(order),
        lines[order],
        {**why, **refused},
        sorted(int(numbers[i]) for numbers, found in parts for i in found.truncates),
        sum(found.ignored for _, found in parts),
        sum(found.superseded for _, found in parts),
        _interleaved_texts([(numbers, found.origins) for numbers, found in parts]),
        _interleaved_texts([(numbers, found.transactions) for numbers, found in parts]),
    )


def _interleaved_texts(parts: Sequence[tuple[Indexes, pa.Array | None]]) -> pa.Array | None:
    if all(texts is None for _, texts in parts):
        return None
    count = 1 + max([int(numbers.max(initial=-1)) for numbers, _ in parts])
    whole = pa.concat_arrays(
        [
            pa.nulls(len(numbers), pa.large_string()) if texts is None else texts
            for numbers, texts in parts
        ]
    )
    at = np.full(count, -1)  # of lines in no group nothing is known
    at[np.concatenate([numbers for numbers, _ in parts])] = np.arange(len(whole))
    return whole.take(pa.array(at, mask=at < 0))


def chained(parts: Sequence[Events]) -> Events:
    """The events one after the other; where some tell an old value, that of others is the new."""
    old = sorted({i for part in parts for i in part.old or ()})
    return Events(
        np.concatenate([part.operations for part in parts]),
        {i: concat([part.columns[i] for part in parts]) for i in parts[0].columns},
        _chained_masks([(len(part), part.unknown) for part in parts]),
        {i: concat([(part.old or {}).get(i, part.columns[i]) for part in parts]) for i in old}
        or None,
        _chained_masks([(len(part), part.unchanged) for part in parts]),
    )


def _chained_masks(parts: Sequence[tuple[int, Mapping[int, Mask]]]) -> dict[int, Mask]:
    """Masks by position, one after the other; each part with its length."""
    return {
        i: np.concatenate([masks.get(i, np.zeros(count, np.bool_)) for count, masks in parts])
        for i in sorted({i for _, masks in parts for i in masks})
    }
