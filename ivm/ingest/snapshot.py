"""One table as it was last committed, unaffected by later flushes.

Invariant: all rows read here are of one epoch, in which the snapshot was made. Two cursors hold it,
so that one can read the table in a thread while the other is asked for single rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ivm.storage.identifiers import quote
from ivm.storage.values.column import Column
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duck import Cursor, chunks, evaluate, rows
from ivm.storage.warehouse.table_info import TableInfo

_ASKED = "_ivm_asked"


class Snapshot:
    """A table in DuckDB.

    Args:
        info: of the table.
        cursors: two, each in a transaction of its own that sees the table of that epoch.
    """

    def __init__(self, info: TableInfo, cursors: tuple[Cursor, Cursor]) -> None:
        self.info = info
        self._scanning, self._asking = cursors

    def rows(self) -> int:
        """The count of rows."""
        found = rows(self._asking, f"SELECT system.main.count(*) FROM {self.info.qualified}")
        return int(found[0][0])

    def scan(self, columns: Sequence[int]) -> Iterator[ZSet]:
        """All rows, projected to some columns, in chunks."""
        chosen = self._schema(columns)
        return chunks(self._scanning, f"SELECT {_names(chosen)} FROM {self.info.qualified}", chosen)

    def find(self, columns: Sequence[int], by: Sequence[int], keys: Sequence[Column]) -> ZSet:
        """The rows with one of the given keys in the columns `by`, projected to some columns."""
        chosen, key = self._schema(columns), self._schema(by)
        same = " AND ".join([f"t.{quote(n)} = {_ASKED}.{quote(n)}" for n, _ in key])
        table = f"{self.info.qualified} AS t SEMI JOIN {_ASKED} ON {same}"
        asked = {_ASKED: (ZSet(tuple(keys), np.ones(len(keys[0]), np.int64)), key)}
        return evaluate(self._asking, f"SELECT {_names(chosen)} FROM {table}", asked, chosen)

    def _schema(self, columns: Sequence[int]) -> Schema:
        return tuple([self.info.schema[i] for i in columns])

    def release(self) -> None:
        """Closes the cursors, so that DuckDB may drop old versions of rows."""
        self._scanning.close()
        self._asking.close()


def _names(schema: Schema) -> str:
    return ", ".join([quote(name) for name, _ in schema])
