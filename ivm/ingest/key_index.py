"""The stored rows of one table, found by key without a DuckDB statement.

Law: `find` returns the rows the table has after every change `record`ed so far, committed or not;
`rollback` returns to the last `commit`. A keyed table is indexed by its primary key and holds the
columns that views need; as no key is there twice, its last entry tells its row, and an update is
one entry. A keyless table is indexed by all its columns.

A `LateIndex` serves the first commits while its table is still being read. All rows of a snapshot
are read in a thread; until they are in an arrangement, DuckDB is asked for the snapshot's rows with
the keys that are looked up, and no others. Changes recorded since are held here, as Z-sets: the
rows of a key are those of the snapshot plus the recorded ones. The snapshot is released as soon as
it has been read: as long as it is held, DuckDB keeps every version of every row, and its own log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import duckdb
import numpy as np

from ivm.ingest.first_per_key import first_of_each
from ivm.ingest.snapshot import Snapshot
from ivm.storage.arrangement.arrangement import ENTRIES, Arrangement, Layout, Matches
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column, Mask, concat
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.values.zset import ZSet, add

_SLICE = 1 << 17  # rows whose columns stay in the caches of a core while kernels pass over them


class KeyIndex:
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
        self.unique = unique
        self.columns = tuple(columns)
        self.key = tuple(self.columns.index(position) for position in key)
        layout = Layout(tuple(schema[i][1] for i in self.columns), self.key, unique=unique)
        self._rows = self._committed = Arrangement.build(layout, batches)

    @staticmethod
    def of(
        schema: Schema,
        key: Sequence[int],
        columns: Sequence[int],
        rows: Arrangement,
        *,
        unique: bool,
    ) -> KeyIndex:
        """The index of rows that are arranged already; the other arguments as for the class."""
        index = KeyIndex(schema, key, columns, (), unique=unique)
        index._rows = index._committed = rows
        return index

    def saved(self) -> tuple[tuple[int, ...], Arrangement]:
        """The columns and the committed rows, for `of`."""
        return self.columns, self._committed

    def find(self, keys: Sequence[Column]) -> Matches:
        """The live rows whose key equals each probe row.

        Args:
            keys: one column per key column, in key order.

        Returns:
            Matches: which probe, and the rows (columns `self.columns`) with positive weights.
        """
        return self._rows.latest(keys) if self.unique else self._rows.lookup_live(keys)

    def find_committed(self, keys: Sequence[Column]) -> Matches:
        """The same without the changes of the running transaction; needs no writer lock."""
        rows = self._committed
        return rows.latest(keys) if self.unique else rows.lookup_live(keys)

    def size(self, keys: Sequence[Column], *, committed: bool) -> int:
        """Entries under the keys, apart from those of the last commits.

        Args:
            committed: without the changes of the running transaction, as `find_committed`.
        """
        return (self._committed if committed else self._rows).size(keys)

    def between(
        self, low: Column | None, high: Column | None, most: int, *, committed: bool
    ) -> ZSet | None:
        """The live rows in a range of the key; see `Arrangement.between`.

        Args:
            committed: without the changes of the running transaction, as `find_committed`.
        """
        return (self._committed if committed else self._rows).between(low, high, most)

    def where(self, mask: Callable[[ZSet], Mask], most: int) -> ZSet | None:
        """The live rows that meet a condition, by a look at every entry.

        Args:
            mask: evaluates the condition over rows of `columns`.
            most: rows to find.

        Returns:
            None if more rows meet it, or many entries.

        Raises:
            NotFastError: by `mask`.
        """
        found = self._keys_where(mask, ENTRIES * most)
        if found is None:
            return None
        if not found:  # perhaps no row was there that would have shown whether it can be evaluated
            none = self._rows.layout.zero
            mask(none)
            return none
        keys = [concat(parts) for parts in zip(*found, strict=True)]
        first = first_of_each(keys, self.key_types)
        rows = self.find([key.take(first) for key in keys]).rows  # a key's last row counts
        live = mask(rows)
        if np.count_nonzero(live) > most:
            return None
        return rows.filter(live)

    def _keys_where(self, mask: Callable[[ZSet], Mask], most: int) -> list[list[Column]] | None:
        """The keys of the entries that meet a condition, in parts; None as `where`."""
        found = []
        for batch in self._rows.batches(_SLICE):
            if not len(batch):
                continue
            hits = np.flatnonzero(mask(batch))
            most -= len(hits)
            if most < 0:
                return None
            if len(hits):
                found.append([batch.columns[i].take(hits) for i in self.key])
        return found

    @property
    def key_types(self) -> list[ColumnType]:
        """The types of the key's columns."""
        layout = self._rows.layout
        return [layout.types[i] for i in layout.key]

    @property
    def row_count(self) -> int:
        """Entries held."""
        return self._rows.row_count

    @property
    def nbytes(self) -> int:
        """Bytes of the rows held."""
        return self._rows.nbytes

    def widen(self, types: Sequence[ColumnType]) -> None:
        """Holds further columns, those that come next in the table; NULL in all its rows."""
        self.columns += tuple(range(len(self.columns), len(self.columns) + len(types)))
        is_staged = self._rows is not self._committed
        rows = self._rows.with_nulls(types)
        self._committed = self._committed.with_nulls(types) if is_staged else rows
        self._rows = rows

    def record(self, change: TableChange) -> None:
        """Applies a change of the running transaction; its removed rows hold at least `columns`."""
        if self._is_unmoved(change):
            return
        parts = []
        if len(change.removed) and not (self.unique and self._replaces(change)):
            positions = [change.removed_columns.index(i) for i in self.columns]
            parts.append(change.removed.project(positions).negate())
        if len(change.added):
            parts.append(change.added.project(self.columns).dictionary_encoded())
        if parts:
            self._rows = self._rows.append(add(parts))

    def _is_unmoved(self, change: TableChange) -> bool:
        """Returns whether the change sets other columns only: those held are the stored ones."""
        old, new = change.removed, change.added
        if not len(old) or not set(self.columns) <= set(change.kept):
            return False
        return bool((old.weights == new.weights).all())

    def _replaces(self, change: TableChange) -> bool:
        """Returns whether the added rows have the keys of the removed ones."""
        return {self.columns[i] for i in self.key} <= set(change.kept)

    def commit(self) -> None:
        """Adopts what the running transaction has recorded."""
        self._committed = self._rows

    def rollback(self) -> None:
        """Drops what the running transaction has recorded."""
        self._rows = self._committed


def present(matches: Matches, count: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """The mask of the probes, `count` of them, that found a row."""
    mask = np.zeros(count, np.bool_)
    mask[matches.probe] = True
    return mask


class _StoppedError(Exception):
    """Nobody needs what is being read."""


class LateIndex(KeyIndex):
    """An index of the rows recorded since a snapshot, and a thread that reads the snapshot.

    Args:
        snapshot: of a table as it is now; it is released here.
        columns: positions of the columns to hold, those of both keys included, ascending.
        key: positions of the columns to find rows by; the primary key without.
    """

    def __init__(
        self, snapshot: Snapshot, columns: Sequence[int], key: Sequence[int] | None = None
    ) -> None:
        info = snapshot.info
        self._by = info.primary_key if key is None else tuple(key)
        super().__init__(info.schema, self._by, columns, (), unique=key is None)
        self._layout = self._rows.layout
        self._rows = self._committed = Arrangement.empty(replace(self._layout, unique=False))
        self._snapshot = snapshot
        self._stored: Arrangement | None = None
        self._failed = self._stopped = False
        self._using = threading.Lock()  # the snapshot, to ask it or to release it
        self._reading = threading.Thread(target=self._read, name="ivm-index", daemon=True)
        self._reading.start()

    def _read(self) -> None:
        try:
            stored = Arrangement.build(self._layout, self._scanned())
        except Exception:
            return  # `whole` gives None: the index is built anew when needed, and meets the error
        with self._using:
            self._stored = stored
            self._snapshot.release()

    def _scanned(self) -> Iterator[ZSet]:
        """The rows of the snapshot; they are held once only."""
        for batch in self._snapshot.scan(self.columns):
            if self._stopped:
                raise _StoppedError
            yield batch

    def find(self, keys: Sequence[Column]) -> Matches:
        """See `KeyIndex`."""
        return self._found(keys, self._rows)

    def find_committed(self, keys: Sequence[Column]) -> Matches:
        """See `KeyIndex`; this one needs the writer lock."""
        return self._found(keys, self._committed)

    def _found(self, keys: Sequence[Column], since: Arrangement) -> Matches:
        with self._using:
            stored = self._stored
            snapshot = self._asked(keys) if stored is None else stored.lookup(keys)
        found = snapshot, since.lookup(keys)
        probe = np.concatenate([part.probe for part in found])
        return since.live(Matches(probe, add([part.rows for part in found])), len(keys[0]))

    def between(
        self, low: Column | None, high: Column | None, most: int, *, committed: bool
    ) -> ZSet | None:
        """None: rows of the snapshot may be in the range."""
        return None

    def where(self, mask: Callable[[ZSet], Mask], most: int) -> ZSet | None:
        """None, as `between`."""
        return None

    def _asked(self, keys: Sequence[Column]) -> Matches:
        """The rows of the snapshot under the keys, which DuckDB gives."""
        try:
            rows = self._snapshot.find(self.columns, self._by, keys).dictionary_encoded()
        except duckdb.Error:  # which has ended the transaction that held the snapshot
            self._failed = True
            raise
        if len(keys[0]) == 1 and all(type.is_integer for type in self.key_types):
            return Matches(np.zeros(len(rows), np.int64), rows)
        return Arrangement.build(self._rows.layout, [rows]).lookup(keys)  # equal to DuckDB is more

    def _replaces(self, change: TableChange) -> bool:
        """No change does: the row that goes may be the snapshot's."""
        return False

    @property
    def over(self) -> bool:
        """Whether another index must replace it, or may: nothing is being read nor is staged."""
        return self._failed or (not self._reading.is_alive() and self._committed is self._rows)

    def whole(self) -> KeyIndex | None:
        """The index of all rows, once this one is `over`; None if they could not be read."""
        if self._failed or self._stored is None:
            return None
        rows = self._stored
        for batch in self._rows.batches():
            rows = rows.append(batch)
        schema = self._snapshot.info.schema
        return KeyIndex.of(schema, self._by, self.columns, rows, unique=self.unique)

    def stop(self) -> None:
        """Ends the reading and releases the snapshot."""
        self._stopped = True
        self._reading.join()
        self._snapshot.release()
