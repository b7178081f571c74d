"""DuckDB checkpoints, away from commits and reads, and the note that distinguishes ours.

Invariant: between the note with `moving` and the next one the header's counter moves by at most
one, and by this process.
"""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import duckdb

from ivm.storage.durable_files import sync_folder
from ivm.storage.troubles import Troubles
from ivm.storage.warehouse.duckdb.duck import Cursor, run
from ivm.storage.warehouse.opening.database_file import DatabaseFile
from ivm.storage.warehouse.opening.side_folder import Note, side_folder, write_note
from ivm.storage.warehouse.tables import system_tables

WAL_BYTES = 64 << 20
"""A write-ahead log beyond this is checkpointed in the background; replaying it takes < 1 s."""

_ROOM = 16 << 20  # bytes; a checkpoint writes whole blocks, also of little

_PAUSE = 1.0  # seconds after a checkpoint that could not be done

_WORK = "a checkpoint"

_NOT_NOW = (duckdb.TransactionException, duckdb.IOException, duckdb.OutOfMemoryException)


class Checkpointer:
    """Checkpoints one database file.

    Args:
        file: the open file, or memory (then every method does nothing).
        database_id: for the note.
        mark: for the note.
        write_lock: held before and after a checkpoint, not during it.
        troubles: takes the background thread's failures.
        saw: records how the write-ahead log was left.
    """

    def __init__(
        self,
        file: DatabaseFile,
        database_id: str,
        mark: str,
        write_lock: threading.RLock,
        troubles: Troubles,
        saw: Callable[[], None],
    ) -> None:
        self._file = file
        self._database_id = database_id
        self._mark = mark
        self._write_lock = write_lock
        self._troubles = troubles
        self._saw = saw
        self._one_at_a_time = threading.Lock()
        self._wanted = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def consider(self) -> None:
        """Starts a background checkpoint if the write-ahead log has grown enough."""
        if self._file.wal_bytes() < WAL_BYTES or self._wanted.is_set():
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="ivm-checkpoint", daemon=True)
            self._thread.start()
        self._wanted.set()

    def run(self, *, final: bool = False) -> bool:
        """Checkpoints now.

        Args:
            final: the database is being closed.

        Returns:
            False if open transactions or the disk prevent it; the write-ahead log then stays
            and is as good.

        Raises:
            UnavailableError: the file or its folder was moved, deleted or replaced.
        """
        file = self._file.file
        if file is None:
            return True
        with self._one_at_a_time:
            self._file.demand_in_place()
            if not self._has_room(file):
                return False
            self.note(moving=True)
            done = self._drop_passed_epochs() and self._checkpoint()
            sync_folder(file.parent)  # or the log that DuckDB has removed may be back, and too old
            with self._write_lock:
                self._saw()  # before the note, which says that the file is as we left it
            self.note(moving=False, closed=final and done)
        return done

    def stop(self) -> None:
        """Ends the background thread, after a checkpoint that is under way."""
        self._stopping.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            self._wanted.wait()
            if not self._stopping.is_set() and not self._try():
                self._stopping.wait(_PAUSE)
            self._wanted.clear()  # `stop` has set the other one before: it is seen above

    def _try(self) -> bool:
        """Checkpoints; a failure is tried again after the next flush."""
        try:
            done = self.run()
            self._troubles.remove(_WORK)
        except Exception as error:
            self._troubles.add(_WORK, error)
            return False
        return done

    def _has_room(self, file: Path) -> bool:
        """Returns whether the disk is likely to take what is in the write-ahead log.

        DuckDB gives the whole database up where a checkpoint fails that has begun to write.
        """
        return shutil.disk_usage(file.parent).free >= 2 * self._file.wal_bytes() + _ROOM

    def _drop_passed_epochs(self) -> bool:
        with self._write_lock:
            return self._attempt(system_tables.compact_epochs)

    def _checkpoint(self) -> bool:
        return self._attempt(lambda cursor: run(cursor, "CHECKPOINT"))

    def _attempt(self, work: Callable[[Cursor], None]) -> bool:
        """Runs work on a cursor of its own; False where it cannot be done now."""
        with contextlib.closing(self._file.connection.cursor()) as cursor:
            try:
                work(cursor)
            except _NOT_NOW:
                return False
        return True

    def note(self, *, moving: bool, closed: bool = False) -> None:
        """Records the state of the file in the side folder's note."""
        assert self._file.file is not None
        note = Note(self._database_id, self._file.iteration(), moving, closed, self._mark)
        write_note(side_folder(self._file.file), note)
