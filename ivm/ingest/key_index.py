"""The stored rows of one table, found by key without a DuckDB statement.

Law: `find` returns the rows the table has after every change `record`ed so far, committed or not;
`rollback` returns to the last `commit`. A keyed table is indexed by its primary key and holds the
columns that views need, and as no key stands twice, the last change of a key tells its row; a
keyless one is indexed by all its columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ivm.delta_ops.state.versions import Versions
from ivm.storage.arrangement.arrangement import Arrangement, Layout, Matches
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, add


class KeyIndex(Versions[Arrangement]):
    """An arrangement of some columns of a table by its key.

    Args:
        schema: the table's columns.
        key: positions of the key columns (all columns for a keyless table).
        columns: positions of the columns to hold, a superset of `key`, ascending.
        batches: the table's rows, projected to `columns`.
        unique: `key` is the table's primary key.
    """

    def __init__(
        self,
        schema: Schema,
        key: Sequence[int],
        columns: Sequence[int],
        batches: Iterable[ZSet],
        *,
        unique: bool,
    ) -> None:
        self._unique = unique
        self.columns = tuple(columns)
        self.key = tuple(self.columns.index(position) for position in key)
        layout = Layout(tuple(schema[i][1] for i in self.columns), self.key)
        super().__init__(Arrangement.build(layout, batches))

    def find(self, keys: Sequence[Column]) -> Matches:
        """The live rows whose key equals each probe row.

        Args:
            keys: one column per key column, in key order.

        Returns:
            Matches: which probe, and the rows (columns `self.columns`) with positive weights.
        """
        return self.after.latest(keys) if self._unique else self.after.lookup_live(keys)

    def record(self, change: TableChange) -> None:
        """Apply a change of the running transaction; its removed rows hold at least `columns`."""
        parts = []
        if len(change.removed):
            positions = [change.removed_columns.index(i) for i in self.columns]
            parts.append(change.removed.project(positions).negate())
        if len(change.added):
            parts.append(change.added.project(self.columns).labelled())
        if parts:
            self.append(add(parts))


def present(matches: Matches, count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of `count` probes found a row."""
    mask = np.zeros(count, np.bool_)
    mask[matches.probe] = True
    return mask
