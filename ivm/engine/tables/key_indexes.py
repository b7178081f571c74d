"""The key indexes of all tables: hydrated at first use, and updated by every change since.

Invariant: an index holds the rows of its table, with the running transaction's changes; `commit`
and `rollback` end that transaction. An index without a column that is needed later is built anew;
one with all columns takes in a column that is added without values.
The index of a large table answers at once and reads the table in a thread (`LateIndex`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ivm.engine.tables.saved_state import Indexes, SavedState
from ivm.engine.tables.secondary_indexes import SecondaryIndexes
from ivm.engine.tables.stored_tables import StoredTables
from ivm.ingest.key_index import KeyIndex, LateIndex
from ivm.storage.log.change import TableChange
from ivm.storage.log.commit import Commit
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo

LARGE = 50_000
"""Rows from which a table is read in a thread (about 0.05 s)."""


class KeyIndexes:
    """The key indexes of one database, at most one a table.

    Args:
        tables: the tables as DuckDB stores them.
        columns_read: positions of the columns of a table that views need.
        saved: has the indexes that the last closing has saved.

    Attributes:
        secondary: the arrangements by the user's own indexes.
    """

    def __init__(
        self,
        tables: StoredTables,
        columns_read: Callable[[str], frozenset[int]],
        saved: SavedState,
    ) -> None:
        self._catalog = tables.catalog
        self._columns_read = columns_read
        self._tables = tables
        self._saved = saved
        self._known: dict[str, KeyIndex] = {}
        self._provisional: set[str] = set()
        self.secondary = SecondaryIndexes(tables, self._by)

    def find(self, table: str, *, all_columns: bool = False) -> KeyIndex | None:
        """The index of a table; None if it is not built, or lacks a column that is needed."""
        index = self._ready(table)
        if index is None or len(index.columns) == len(self._catalog.tables[table].schema):
            return index
        return None if all_columns or not self._needed(table) <= set(index.columns) else index

    def _needed(self, table: str) -> set[int]:
        further = self._catalog.tables[table].constrained
        return {*self._columns_read(table), *self.secondary.columns(table), *further}

    def committed(self, table: str, columns: Iterable[int]) -> KeyIndex | None:
        """The index of a table for `find_committed`; needs no writer lock.

        Args:
            table: canonical name.
            columns: positions of the columns that are read.

        Returns:
            None if there is none with these columns, or not yet.
        """
        index = self._known.get(table)
        if index is None or isinstance(index, LateIndex) or table in self._provisional:
            return None
        return index if set(columns).issubset(index.columns) else None

    def _ready(self, table: str) -> KeyIndex | None:
        index = self._known.get(table)
        if not isinstance(index, LateIndex) or not index.over:
            return index
        self._drop(table)
        full = index.whole()
        if full is not None:
            self._known[table] = full
        return full

    def _drop(self, table: str) -> None:
        index = self._known.pop(table, None)
        if isinstance(index, LateIndex):
            index.stop()

    def build(
        self, table: str, *, all_columns: bool = False, cursor: Cursor | None = None
    ) -> KeyIndex:
        """Builds the index of a table from DuckDB.

        Args:
            table: canonical name.
            all_columns: whether it holds all columns, not just those that views need.
            cursor: in a transaction that has changed the table; the index holds the rows that it
                sees, and is dropped if the transaction is rolled back.
        """
        info = self._catalog.tables[table]
        every = tuple(range(len(info.schema)))
        if all_columns or not info.primary_key:
            columns = every
        else:
            columns = tuple(sorted({*info.primary_key, *self._needed(table)}))
        self._tables.demand_histories([table])
        self._drop(table)
        index = None
        if cursor is not None:
            self._provisional.add(table)
        elif info.primary_key:
            index = self._restored(table, columns, info.primary_key) or self._late(table, columns)
        if index is None:
            index = self._full(table, columns, cursor)
        self._known[table] = index
        return index

    def _restored(self, table: str, columns: Sequence[int], key: Sequence[int]) -> KeyIndex | None:
        """The index that the last closing has saved, if it has these columns."""
        info, state = self._catalog.tables[table], self._saved.index(table, key)
        if state is None or not set(columns) <= set(state[0]):
            return None
        return KeyIndex.of(info.schema, key, *state, unique=tuple(key) == info.primary_key)

    def _take_up(self, table: str) -> None:
        """Takes up all saved indexes of a table that is about to change."""
        info = self._catalog.tables[table]
        for key in self._saved.keys(table):
            index = self._restored(table, key, key)
            if index is None:
                continue
            if key in info.looked_up:
                self.secondary.put(table, key, index)
            if key == info.primary_key:
                self._known.setdefault(table, index)
        self._saved.forget_indexes(table)

    def saved(self) -> Indexes:
        """The indexes of large tables that are read, for the next opening."""
        primary = {name: self._catalog.tables[name].primary_key for name in list(self._known)}
        known = self.secondary.known()
        known |= {(name, key): self._ready(name) for name, key in primary.items() if key}
        return {
            name: index.saved()
            for name, index in known.items()
            if index is not None and index.row_count >= LARGE and not isinstance(index, LateIndex)
        }

    def _late(
        self, table: str, columns: Sequence[int], key: Sequence[int] | None = None
    ) -> KeyIndex | None:
        snapshot = self._tables.snapshot(table)
        if snapshot.rows() >= LARGE:
            return LateIndex(snapshot, columns, key)
        snapshot.release()
        return None

    def _by(self, table: str, columns: Sequence[int], key: Sequence[int]) -> KeyIndex:
        """The index of a table by other columns than its primary key."""
        early = self._restored(table, columns, key) or self._late(table, columns, key)
        if early is not None:
            return early
        self._tables.flush()
        rows = self._tables.scan(table, columns, None)
        return KeyIndex(self._catalog.tables[table].schema, key, columns, rows, unique=False)

    def _full(self, table: str, columns: Sequence[int], cursor: Cursor | None) -> KeyIndex:
        if cursor is None:
            self._tables.flush()
        info = self._catalog.tables[table]
        key = info.primary_key or columns
        rows = self._tables.scan(table, columns, cursor)
        return KeyIndex(info.schema, key, columns, rows, unique=bool(info.primary_key))

    def record(self, change: TableChange) -> None:
        """Adds a change of the running transaction to its table's index."""
        if change.table in self._saved.tables:
            self._take_up(change.table)
        self.secondary.record(change)
        index = self._known.get(change.table)
        if index is None:
            return
        held = change.removed_columns
        if held == index.columns or not len(change.removed) or set(index.columns) <= set(held):
            index.record(change)
        else:  # the removed rows lack columns of the index
            self._drop(change.table)

    def follow(self, commit: Commit) -> None:
        """Adopts the changes of the running transaction."""
        tables = {change.table for change in commit.changes}
        self.secondary.commit(tables)
        for table in tables:
            index = self._known.get(table)
            if index is not None:
                index.commit()
        self._provisional.clear()

    def rollback(self) -> None:
        """Drops the changes of the running transaction."""
        self.secondary.rollback()
        for name in self._provisional:
            self._drop(name)
        self._provisional.clear()
        for index in self._known.values():
            index.rollback()

    def release_snapshots(self) -> None:
        """Drops the indexes that hold a snapshot.

        DuckDB refuses to alter a table that has changed since a snapshot that is still held.
        """
        self.secondary.release_snapshots()
        for table in [name for name, index in self._known.items() if isinstance(index, LateIndex)]:
            self._drop(table)

    def keep(self, before: Mapping[str, TableInfo]) -> None:
        """Drops indexes after a change of the catalog, but those whose columns are as they were.

        Args:
            before: the tables before the change, without those that may have other values now.
        """
        self.secondary.keep(before)
        for table in list(self._saved.tables):
            if before.get(table) != self._catalog.tables.get(table):
                self._saved.forget_indexes(table)
        for name, index in list(self._known.items()):
            old, new = before.get(name), self._catalog.tables.get(name)
            if old is None or new is None or not _same_columns(old, new, index):
                self._drop(name)
            elif len(index.columns) == len(old.schema) and _is_null(new, len(old.schema)):
                index.widen([type for _, type in new.schema[len(old.schema) :]])

    def forget(self) -> None:
        """Drops all indexes: the database is being closed."""
        self.secondary.forget()
        for table in list(self._known):
            self._drop(table)


def _same_columns(old: TableInfo, new: TableInfo, index: KeyIndex) -> bool:
    """Returns whether an index of the old table is one of the new table."""
    if old.oid != new.oid or old.primary_key != new.primary_key:
        return False
    if not new.primary_key:  # its key is the whole row
        return old.schema == new.schema
    return all(new.schema[i : i + 1] == (old.schema[i],) for i in index.columns)


def _is_null(table: TableInfo, first: int) -> bool:
    """Returns whether the columns of a table from a position on, just added, are NULL."""
    added = range(first, len(table.schema))
    return not any(i in table.defaults or i in table.generated for i in added)
