"""The changes that one transaction makes to tables: rows removed and rows added, in order.

Law: a table after the change is the table before it, less `removed`, plus `added`. The removed rows
are stored ones, found by the database itself and never taken from a caller.
"""

from __future__ import annotations

from dataclasses import dataclass

from ivm.storage.values.zset import ZSet


@dataclass(frozen=True, slots=True)
class TableChange:
    """One step on one table; the removal comes before the addition.

    Attributes:
        table: canonical name (`name` in schema main, else `schema.name`).
        removed: old rows, with only the columns at `removed_columns`; weights are positive counts.
        removed_columns: ascending positions: of a keyed table its key and the columns that views
            need, of a keyless table all.
        added: new rows with all columns of the table; weights are positive counts.
    """

    table: str
    removed: ZSet
    removed_columns: tuple[int, ...]
    added: ZSet

    def __len__(self) -> int:
        return len(self.removed) + len(self.added)

    @property
    def kept(self) -> tuple[int, ...]:
        """The positions of the columns that an update keeps.

        Each is one object in the removed and in the added rows, which are as many.
        """
        if len(self.removed.weights) != len(self.added.weights):
            return ()
        old = zip(self.removed_columns, self.removed.columns, strict=True)
        new, count = self.added.columns, len(self.added.columns)
        return tuple([i for i, column in old if i < count and new[i] is column])


@dataclass(frozen=True, slots=True)
class Record:
    """One committed transaction: one epoch.

    Attributes:
        epoch: consecutive number, from 1.
        changes: in the order they happened; a table may stand in several.
    """

    epoch: int
    changes: tuple[TableChange, ...]
