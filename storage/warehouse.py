"""The warehouse: the user's DuckDB file, where tables and views rest, and the log beside it.

Laws. One DuckDB write transaction at a time (`write_lock`). A flush is one transaction that also
records the epochs reached, and the log is synced up to that epoch before it. The base tables
share one epoch; a view's epoch is never below it. Nothing is changed by an opening that fails.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from ivm.storage import catalog_store
from ivm.storage.catalog_store import BASE
from ivm.storage.checkpointer import Checkpointer
from ivm.storage.database_file import DatabaseFile, explained
from ivm.storage.duck import Cursor, literal, rows, run
from ivm.storage.errors import UnavailableError
from ivm.storage.flush import NetChange, Target, apply_changes
from ivm.storage.home_zone import HomeZone
from ivm.storage.log import ChangeLog
from ivm.storage.small_flush import Appenders
from ivm.storage.table_info import TableInfo, read_tables
from ivm.storage.warehouse_opening import Opening, open_log


class Warehouse:
    """An open database: DuckDB's instance, its change log, and the epochs in the file.

    Attributes:
        database: DuckDB's name of the attached file.
        log: the change log; None for a database in memory.
        foreign_write: another program wrote to the file since we closed it; views must be
            refreshed.
        zone: the time zone of its views.
        write_lock: held by whoever runs a write transaction in DuckDB (reentrant).
    """

    def __init__(self, file: DatabaseFile, opening: Opening) -> None:
        self.file = file
        self.database = file.catalog
        self.database_id = opening.database_id
        self.log: ChangeLog | None = opening.log
        self.foreign_write = opening.foreign_write
        self.write_lock = threading.RLock()
        self.zone = HomeZone(catalog_store.home_zone(file.connection))
        run(file.connection, f"SET GLOBAL TimeZone = {literal(self.zone.name)}")
        self._flusher = file.connection.cursor()
        self._epochs = catalog_store.load_epochs(self._flusher)
        self._appenders = Appenders(self._flusher)
        self._targets: dict[str, Target] = {}
        self._checkpointer = Checkpointer(file, self.database_id, self.write_lock)
        self._closed = False

    @staticmethod
    def open(
        path: str | Path = ":memory:",
        *,
        memory_limit: int | None = None,
        threads: int | None = None,
        sync_interval: float | None = None,
    ) -> Warehouse:
        """Open or create a database; an existing DuckDB file is adopted as it is.

        Args:
            path: of the DuckDB file, or ":memory:" (no log, nothing durable).
            memory_limit: bytes of DuckDB's buffers; default 1 GiB, at most half of the memory.
            threads: of DuckDB; default its own.
            sync_interval: seconds between the log's background syncs, or None to sync at commit.

        Raises:
            UnavailableError: locked by another process or connection, or not to be written.
            CorruptionError: not a DuckDB file; a log that is damaged or not of this file; a file
                that another program wrote to while the log held commits. Nothing was changed.
        """
        location = None if str(path) == ":memory:" else Path(path)
        file = DatabaseFile(location, memory_limit, threads)
        try:
            return Warehouse(file, open_log(file, sync_interval))
        except BaseException as error:
            file.close()
            if isinstance(error, duckdb.Error | OSError):
                raise explained(file.file, error) from error
            raise

    def cursor(self) -> Cursor:
        """A new cursor of the instance; transactions and temp tables are its own."""
        return self.file.connection.cursor()

    def tables(self, cursor: Cursor | None = None) -> dict[str, TableInfo]:
        """All tables of the user's file by canonical name, those that hold views included.

        Args:
            cursor: whose transaction's view of the catalog is meant; default a fresh one. The
                answer is also what `flush` goes by from now on.
        """
        found = read_tables(cursor or self.cursor(), self.database)
        self._targets = {name: info.target() for name, info in found.items()}
        self._appenders.forget()
        return found

    # -- epochs ----------------------------------------------------------------------------

    @property
    def base_epoch(self) -> int:
        """The epoch that all base tables have durably reached."""
        return self._epochs[BASE]

    def view_epoch(self, name: str) -> int:
        """The epoch that a view's table has durably reached."""
        return max(self._epochs.get(name, 0), self.base_epoch)

    def record(self, cursor: Cursor, epochs: Mapping[str, int], offsets: Mapping[str, Any]) -> None:
        """Write epochs (base tables under `BASE`) and offsets in a transaction of the caller's.

        `recorded` must be told once that transaction has committed.
        """
        catalog_store.write_epochs(cursor, epochs)
        catalog_store.write_offsets(cursor, offsets)

    def recorded(self, epochs: Mapping[str, int]) -> None:
        """The caller's transaction that recorded these epochs has committed."""
        self._epochs.update(epochs)
        if self.log is not None and BASE in epochs:
            with contextlib.suppress(UnavailableError, OSError):  # a long log only takes room
                self.log.truncate(self.base_epoch)
        self._checkpointer.consider()

    # -- flushing and reading --------------------------------------------------------------

    def flush(
        self,
        epoch: int,
        tables: Mapping[str, NetChange] | None,
        views: Mapping[str, NetChange],
        offsets: Mapping[str, Any] | None = None,
    ) -> None:
        """Bring tables and views up to an epoch in one DuckDB transaction.

        Args:
            epoch: everything given stands at it afterwards.
            tables: the net changes of *all* base tables since `base_epoch` (those that are left
                out have none), or None to leave the base tables where they are. If given, every
                view with pending changes must be in `views`.
            views: the net changes of views since their epochs.
            offsets: of sources, recorded with the base tables.

        Raises:
            UnavailableError: the disk is full or the file is gone; nothing was changed.
        """
        if self.log is not None:
            self.log.sync(epoch)
        epochs = dict.fromkeys(views, epoch)
        if tables is not None:
            epochs[BASE] = epoch
        if not epochs:
            return
        with self.write_lock:
            self._write({**(tables or {}), **views}, epochs, offsets or {})
            self.recorded(epochs)

    def _write(
        self,
        changes: Mapping[str, NetChange],
        epochs: Mapping[str, int],
        offsets: Mapping[str, Any],
    ) -> None:
        cursor = self._flusher
        run(cursor, "BEGIN")
        try:
            targets = self._targets
            named = [(n, targets[n], change) for n, change in changes.items()]
            apply_changes(cursor, named, self._appenders)
            self._appenders.write("_ivm.epochs", list(epochs.items()))
            catalog_store.write_offsets(cursor, offsets)
            run(cursor, "COMMIT")
        except BaseException as error:
            _roll_back(cursor)
            if isinstance(error, (duckdb.IOException, duckdb.OutOfMemoryException)):
                raise UnavailableError(
                    f"The tables in {self.file.file} could not be brought up to date: {error}. The"
                    " commits are safe in the log; free some space or memory and try again."
                ) from error
            raise

    def pin(self, cursor: Cursor) -> None:
        """Begin a read-only transaction whose snapshot is the file as it is now.

        Hold `write_lock` around the flush and this call, so that no other flush comes between.
        """
        run(cursor, "BEGIN TRANSACTION READ ONLY")
        rows(cursor, "SELECT 1 FROM _ivm.meta LIMIT 0")

    # -- checkpoint and close --------------------------------------------------------------

    def checkpoint(self) -> bool:
        """Write DuckDB's log into the file; False if open transactions prevent it now."""
        return self._checkpointer.run()

    def close(self) -> None:
        """Checkpoint and close (flush first); closing twice does nothing."""
        if self._closed:
            return
        self._closed = True
        self._checkpointer.stop()
        try:
            if self.log is not None:
                self.log.close()
            self._checkpointer.run(final=True)
        finally:
            self._appenders.forget()
            self._flusher.close()
            self.file.close()


def _roll_back(cursor: Cursor) -> None:
    with contextlib.suppress(duckdb.Error):  # the failure may have ended the transaction already
        run(cursor, "ROLLBACK")
