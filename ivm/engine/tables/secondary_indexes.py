"""Arrangements of tables by other columns: of the user's indexes, UNIQUE and foreign keys.

Invariant: as of `KeyIndexes`. An arrangement finds the primary keys of rows by other columns; the
key index then has the rows. Where a table has no primary key, those of its indexes hold whole rows.
It is built at the first change that it can find rows for, that of a large table in a thread, and
dropped with the index or constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from ivm.engine.tables.stored_tables import StoredTables
from ivm.ingest.key_index import KeyIndex, LateIndex
from ivm.storage.log.change import TableChange
from ivm.storage.warehouse.tables.table_info import TableInfo

Build: TypeAlias = Callable[[str, Sequence[int], Sequence[int]], KeyIndex]
"""Builds an index of a table's columns, of which the others are the key."""


class SecondaryIndexes:
    """The arrangements of one database by table and columns.

    Args:
        tables: the tables as DuckDB stores them.
        build: reads a table.
    """

    def __init__(self, tables: StoredTables, build: Build) -> None:
        self._catalog = tables.catalog
        self._build = build
        self._known: dict[tuple[str, tuple[int, ...]], KeyIndex] = {}

    def columns(self, table: str) -> set[int]:
        """The positions of a table's columns that its arrangements hold: changes must have them."""
        known = [index.columns for (name, _), index in self._known.items() if name == table]
        return {position for columns in known for position in columns}

    def find(self, table: str, key: tuple[int, ...], *, builds: bool) -> KeyIndex | None:
        """The arrangement of a table by the columns of an index.

        Args:
            builds: whether it is built if it is missing; else None is returned then.
        """
        index = self._known.get((table, key))
        if isinstance(index, LateIndex) and index.over:
            self._drop((table, key))
            index = index.whole()
            if index is not None:
                self._known[table, key] = index
        if index is None and builds:
            index = self._known[table, key] = self._build(table, self._held(table, key), key)
        return index

    def _held(self, table: str, key: tuple[int, ...]) -> list[int]:
        """The columns that an arrangement holds, ascending."""
        info = self._catalog.tables[table]
        if not info.primary_key and key in info.indexed:
            return list(range(len(info.schema)))
        return sorted({*key, *info.primary_key})

    def put(self, table: str, key: tuple[int, ...], index: KeyIndex) -> None:
        """Takes an arrangement that is built; not if there is one."""
        self._known.setdefault((table, key), index)

    def known(self) -> dict[tuple[str, tuple[int, ...]], KeyIndex | None]:
        """All arrangements that are built, by table and key."""
        return {name: self.find(*name, builds=False) for name in list(self._known)}

    def committed(self, table: str, key: tuple[int, ...]) -> KeyIndex | None:
        """The arrangement for `find_committed`, which needs no writer lock; None if not yet."""
        index = self._known.get((table, key))
        return None if isinstance(index, LateIndex) else index

    def record(self, change: TableChange) -> None:
        """Adds a change of the running transaction."""
        for (table, key), index in list(self._known.items()):
            if table != change.table:
                continue
            if not len(change.removed) or set(index.columns) <= set(change.removed_columns):
                index.record(change)
            else:
                self._drop((table, key))

    def commit(self, tables: set[str]) -> None:
        """Adopts the changes of the running transaction to these tables."""
        for (table, _), index in self._known.items():
            if table in tables:
                index.commit()

    def rollback(self) -> None:
        """Drops the changes of the running transaction."""
        for index in self._known.values():
            index.rollback()

    def release_snapshots(self) -> None:
        """Drops those that hold a snapshot."""
        for name in [name for name, index in self._known.items() if isinstance(index, LateIndex)]:
            self._drop(name)

    def keep(self, before: Mapping[str, TableInfo]) -> None:
        """Drops those whose table or index is not as it was before a change of the catalog."""
        for table, key in list(self._known):
            old, new = before.get(table), self._catalog.tables.get(table)
            if old is None or new is None or key not in new.looked_up or _differ(old, new):
                self._drop((table, key))

    def forget(self) -> None:
        """Drops all."""
        for name in list(self._known):
            self._drop(name)

    def _drop(self, name: tuple[str, tuple[int, ...]]) -> None:
        index = self._known.pop(name, None)
        if isinstance(index, LateIndex):
            index.stop()


def _differ(old: TableInfo, new: TableInfo) -> bool:
    """Returns whether an arrangement of the old table is none of the new one."""
    shapes = [(table.oid, table.schema, table.primary_key) for table in (old, new)]
    return shapes[0] != shapes[1]
