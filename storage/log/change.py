"""What one transaction does to tables: rows taken out and rows put in, in order.

Law: a table after the change is the table before it, less `removed`, plus `added`; the removed rows
are stored ones, looked up by us and never believed from outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ivm.storage.values.zset import ZSet


@dataclass(frozen=True, slots=True)
class TableChange:
    """One step on one table; the removal comes before the addition.

    Attributes:
        table: canonical name (`name` in schema main, else `schema.name`).
        removed: old rows, with only the columns at `removed_columns`; weights are positive counts.
        removed_columns: ascending positions; a keyed table's key and what views need of it, a
            keyless table's all.
        added: new rows with all columns of the table; weights are positive counts.
    """

    table: str
    removed: ZSet
    removed_columns: tuple[int, ...]
    added: ZSet

    def __len__(self) -> int:
        return len(self.removed) + len(self.added)


@dataclass(frozen=True, slots=True)
class Record:
    """One committed transaction: one epoch.

    Attributes:
        epoch: consecutive number, from 1.
        changes: in the order they happened; a table may stand in several.
        offsets: source name to the position its stream has reached with this transaction.
    """

    epoch: int
    changes: tuple[TableChange, ...]
    offsets: dict[str, Any] = field(default_factory=dict)
