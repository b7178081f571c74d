"""A key index whose table is still being read, so that the first commits do not wait for it.

Law: `find` returns what a `KeyIndex` of the table would. All rows of a snapshot are read in a
thread; until they stand in an arrangement, DuckDB is asked for the snapshot's rows under just the
keys that are looked for. Held is what was recorded since: the rows under a key are those of the
snapshot plus the recorded ones, as Z-sets.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np

from ivm.key_index import KeyIndex
from ivm.snapshot import Snapshot
from ivm.storage.arrangement import Arrangement, Matches
from ivm.storage.column import Column
from ivm.storage.zset import ZSet, add


class LateIndex(KeyIndex):
    """An index of the rows recorded since a snapshot, and a thread that reads the snapshot.

    Args:
        snapshot: of a table with a primary key, as it is now; released by `stop`.
        columns: positions of the columns to hold, those of the key among them, ascending.
    """

    def __init__(self, snapshot: Snapshot, columns: Sequence[int]) -> None:
        info = snapshot.info
        super().__init__(info.schema, info.primary_key, columns, (), unique=True)
        self._snapshot = snapshot
        self._stored: Arrangement | None = None
        self._failed = self._stopped = False
        self._reading = threading.Thread(target=self._read, name="ivm-index", daemon=True)
        self._reading.start()

    def _read(self) -> None:
        try:
            self._stored = Arrangement.build(self.after.layout, self._until_stopped())
        except BaseException:  # whoever needs the index next makes it anew, and meets the error
            self._failed = True

    def _until_stopped(self) -> Iterator[ZSet]:
        for batch in self._snapshot.scan(self.columns):
            if self._stopped:
                raise InterruptedError
            yield batch

    def find(self, keys: Sequence[Column]) -> Matches:
        """See `KeyIndex`."""
        stored = Arrangement.build(self.after.layout, [self._asked(keys)])
        found = stored.lookup(keys), self.after.lookup(keys)
        probe = np.concatenate([part.probe for part in found])
        return self.after.live(Matches(probe, add([part.rows for part in found])), len(keys[0]))

    def _asked(self, keys: Sequence[Column]) -> ZSet:
        try:
            return self._snapshot.find(self.columns, keys).labelled()
        except BaseException:  # DuckDB has ended the transaction that held the snapshot
            self._failed = True
            raise

    @property
    def over(self) -> bool:
        """Whether another index may take its place: the reading has ended, nothing is staged."""
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
