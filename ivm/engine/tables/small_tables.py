"""Small tables of our own whose rows are looked at in every epoch, mirrored in memory.

Law: the rows of a mirror = the rows of its table, since it follows the same committed changes. A
key index would hold each version of a row that changes in every epoch until it is merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ivm.engine.tables.stored_tables import StoredTables
from ivm.storage.log.change import TableChange
from ivm.storage.log.commit import Commit
from ivm.storage.values.zset import ZSet

Row = tuple[Any, ...]


class SmallTables:
    """The mirrors of one database; callers hold the writer lock, but for `rows`.

    Args:
        tables: from which a mirror is made when it is first asked for.
    """

    def __init__(self, tables: StoredTables) -> None:
        self._tables = tables
        self._mirrors: dict[str, Mapping[Row, Row]] = {}  # each is replaced, never changed

    def find(self, table: str, key: Row, changes: Sequence[TableChange] = ()) -> Row | None:
        """The row under a primary key, None if there is none.

        Args:
            table: canonical name.
            key: the cells of the key columns.
            changes: of the open transaction, which are not committed.
        """
        mirror = self._mirror(table)
        for change in reversed(changes):
            if change.table == table:
                if (row := self._added(table, change.added).get(key)) is not None:
                    return row
                if key in self._removed(change):
                    return None
        return mirror.get(key)

    def current(self, table: str, changes: Sequence[TableChange]) -> list[Row]:
        """All rows of a table; the arguments as for `find`."""
        mirror = dict(self._mirror(table))
        for change in changes:
            if change.table == table:
                for key in self._removed(change):
                    mirror.pop(key, None)
                mirror.update(self._added(table, change.added))
        return list(mirror.values())

    def rows(self, table: str) -> list[Row] | None:
        """The committed rows of a table; None if nobody has asked for one yet. Needs no lock."""
        mirror = self._mirrors.get(table)
        return None if mirror is None else list(mirror.values())

    def follow(self, commit: Commit) -> None:
        """Adopts the changes of a commit, each table's all at once."""
        found: dict[str, Mapping[Row, Row]] = {}
        for change in commit.changes:
            mirror = found.get(change.table, self._mirrors.get(change.table))
            if mirror is not None:
                gone = set(self._removed(change))
                kept = {key: row for key, row in mirror.items() if key not in gone}
                found[change.table] = kept | self._added(change.table, change.added)
        self._mirrors.update(found)

    def _mirror(self, table: str) -> Mapping[Row, Row]:
        mirror = self._mirrors.get(table)
        if mirror is None and table not in self._tables.catalog.version.as_committed.tables:
            return {}  # the open transaction has created it
        if mirror is None:
            self._tables.flush([table])
            mirror = self._mirrors[table] = self._added(table, self._tables.content(table))
        return mirror

    def _key(self, table: str) -> tuple[int, ...]:
        return self._tables.catalog.tables[table].primary_key

    def _added(self, table: str, rows: ZSet) -> dict[Row, Row]:
        key = self._key(table)
        return {tuple([row[i] for i in key]): row for row in _cells(rows)}

    def _removed(self, change: TableChange) -> list[Row]:
        key = self._key(change.table)
        return _cells(change.removed.project([change.removed_columns.index(i) for i in key]))


def _cells(rows: ZSet) -> list[Row]:
    return [tuple([column.cell(i) for column in rows.columns]) for i in range(len(rows))]
