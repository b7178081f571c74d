"""Events: the changes of one table as its upstream database made them, in columns.

Contract: the events of one batch stand in the order in which they happened. A value that an event
does not carry (unchanged and not sent) is marked as unknown, and the stored one stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from ivm.storage.values.column import Column, Indexes, Mask

INSERT, UPDATE, DELETE = 0, 1, 2
Operations = npt.NDArray[np.uint8]


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
    """

    operations: Operations
    columns: Mapping[int, Column]
    unknown: Mapping[int, Mask] = field(default_factory=dict)
    old: Mapping[int, Column] | None = None

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
    """

    events: Events
    lines: Indexes
    refused: dict[int, str]
    truncates: list[int]
    ignored: int
