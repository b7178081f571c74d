"""A key index whose table is still being read, so that the first commits do not wait for it.

Law: `find` returns what a `KeyIndex` of the table would. All rows of a snapshot are read in a
thread; until they stand in an arrangement, DuckDB is asked for the snapshot's rows under just the
keys that are looked for. Held is what was recorded since: the rows under a key are those of the
snapshot plus the recorded ones, as Z-sets. The snapshot is let go as soon as it has been read: as
long as it is held, DuckDB keeps every version of every row, and its own log.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

import duckdb
import numpy as np

from ivm.ingest.key_index import KeyIndex
from ivm.ingest.snapshot import Snapshot
from ivm.storage.arrangement.arrangement import Arrangement, Matches
from ivm.storage.values.column import Column
from ivm.storage.values.zset import ZSet, add


class LateIndex(KeyIndex):
    """An index of the rows recorded since a snapshot, and a thread that reads the snapshot.

    Args:
        snapshot: of a table with a primary key, as it is now; it is let go here.
        columns: positions of the columns to hold, those of the key among them, ascending.
    """

    def __init__(self, snapshot: Snapshot, columns: Sequence[int]) -> None:
        info = snapshot.info
        super().__init__(info.schema, info.primary_key, columns, (), unique=True)
        self._snapshot = snapshot
        self._stored: Arrangement | None = None
        self._failed = self._stopped = False
        self._using = threading.Lock()  # the snapshot, to ask it or to let it go
        self._reading = threading.Thread(target=self._read, name="ivm-index", daemon=True)
        self._reading.start()

    def _read(self) -> None:
        try:
            read = self._snapshot.scan(self.columns)
            batches = list(itertools.takewhile(lambda _: not self._stopped, read))
            if self._stopped:
                return
            stored = Arrangement.build(self.after.layout, batches)
        except Exception:
            return  # there is no whole: whoever needs the index next makes it anew, and meets this
        with self._using:
            self._stored = stored
            self._snapshot.release()

    def find(self, keys: Sequence[Column]) -> Matches:
        """See `KeyIndex`."""
        with self._using:
            stored = self._stored
            if stored is None:
                stored = Arrangement.build(self.after.layout, [self._asked(keys)])
        found = stored.lookup(keys), self.after.lookup(keys)
        probe = np.concatenate([part.probe for part in found])
        return self.after.live(Matches(probe, add([part.rows for part in found])), len(keys[0]))

    def _asked(self, keys: Sequence[Column]) -> ZSet:
        try:
            return self._snapshot.find(self.columns, keys).labelled()
        except duckdb.Error:  # which has ended the transaction that held the snapshot
            self._failed = True
            raise

    @property
    def over(self) -> bool:
        """Whether another index must take its place, or may: nothing is read nor staged."""
        return self._failed or (not self._reading.is_alive() and self.before is self.after)

    def whole(self) -> KeyIndex | None:
        """The index of all rows, when this one is over; None if they could not be read."""
        if self._failed or self._stored is None:
            return None
        rows = self._stored
        for batch in self.after.batches():
            rows = rows.append(batch)
        info = self._snapshot.info
        index = KeyIndex(info.schema, info.primary_key, self.columns, (), unique=True)
        index.reset(rows)
        return index

    def stop(self) -> None:
        """End the reading and let the snapshot go."""
        self._stopped = True
        self._reading.join()
        self._snapshot.release()
