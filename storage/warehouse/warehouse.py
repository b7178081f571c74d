"""The warehouse: the user's DuckDB file with its tables and views, and the log beside it.

Invariant: there is one DuckDB write transaction at a time (`write_lock`). The base tables share one
epoch; a view's epoch is never below it.

Contract: a flush is one transaction (see `Flusher`), and the log is synced up
to that epoch before it. An opening that fails changes nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import duckdb

from ivm.storage.errors import UnavailableError
from ivm.storage.identifiers import Path as SchemaPath
from ivm.storage.identifiers import literal
from ivm.storage.log.change_log import ChangeLog
from ivm.storage.troubles import Troubles
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.attached import checkpoint_attached
from ivm.storage.warehouse.checkpoints import Checkpointer
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run
from ivm.storage.warehouse.duckdb.file_access import FileAccess
from ivm.storage.warehouse.duckdb.time_zone import ViewTimeZone
from ivm.storage.warehouse.flush.flush import NetChange
from ivm.storage.warehouse.flusher import Flusher
from ivm.storage.warehouse.opening.database_file import DatabaseFile, explained
from ivm.storage.warehouse.opening.opening import Choice, Opening, open_log
from ivm.storage.warehouse.opening.side_folder import (
    be_sure,
    be_unsure,
    side_folder,
    write_addresses,
)
from ivm.storage.warehouse.opening.wal_witness import WalWitness
from ivm.storage.warehouse.tables import system_tables
from ivm.storage.warehouse.tables.system_tables import BASE, FLUSHES
from ivm.storage.warehouse.tables.table_info import TableInfo, read_schemas, read_tables

_PINNED = 0.01  # seconds in which a snapshot is pinned, and the lock for it released


class Warehouse:
    """An open database: DuckDB's instance, its change log, and the epochs in the file.

    Attributes:
        database: DuckDB's name of the attached file.
        log: the change log; None for a database in memory.
        foreign_write: another program wrote to the file since we closed it; views must be
            refreshed.
        other_duckdb: the views were last filled, all of them, by another version of DuckDB, whose
            functions may give other values; they must be refreshed, too.
        mark: of this opening, in the file until it is closed; no other has it.
        zone: the time zone of its views.
        write_lock: held during each write transaction in DuckDB (reentrant).
        flushes: number of the last committed flush.
        troubles: the failures of background threads.
        file_access: whether its connections read files.
    """

    def __init__(self, file: DatabaseFile, opening: Opening) -> None:
        self.file = file
        self.database = file.catalog
        self.database_id = opening.database_id
        self.log: ChangeLog | None = opening.log
        self.foreign_write = opening.foreign_write
        self.other_duckdb = system_tables.read_duckdb(file.connection) != duckdb.__version__
        self.write_lock = threading.RLock()
        self.zone = ViewTimeZone(system_tables.home_zone(file.connection))
        run(file.connection, f"SET GLOBAL TimeZone = {literal(self.zone.name)}")
        self._epochs = system_tables.load_epochs(file.connection)
        self.flusher = Flusher(file.connection, file.file, self._epochs.pop(FLUSHES, 0))
        self.mark = opening.mark
        self.troubles = Troubles()
        self.file_access = FileAccess()
        self._checkpointer = Checkpointer(
            file, self.database_id, self.mark, self.write_lock, self.troubles, self._saw_wal
        )
        self._witness = WalWitness(file.file) if file.file is not None else None
        self._ours = False
        self._closed = False

    @staticmethod
    def open(
        path: str | Path = ":memory:",
        *,
        memory_limit: int | None = None,
        threads: int | None = None,
        sync_interval: float | None = None,
        choice: Choice = "refuse",
    ) -> Warehouse:
        """Opens or creates a database; an existing DuckDB file is adopted as it is.

        Args:
            path: of the DuckDB file, or ":memory:" (no log, nothing durable).
            memory_limit: bytes of DuckDB's buffers; default 1 GiB, at most half of the memory.
            threads: of DuckDB; default its own.
            sync_interval: seconds between the log's background syncs, or None to sync at commit.
            choice: the way out where file and log do not fit each other.

        Raises:
            UnavailableError: locked by another process or connection, or not to be written.
            CorruptionError: not a DuckDB file; a log that is damaged or not of this file; a file
                that another program wrote to while the log held commits. Nothing was changed.
        """
        location = None if str(path) == ":memory:" else Path(path)
        file = DatabaseFile(location, memory_limit, threads)
        try:
            return Warehouse(file, open_log(file, sync_interval, choice))
        except BaseException as error:
            file.close()
            if isinstance(error, duckdb.Error | OSError):
                raise explained(file.file, error) from error
            raise

    @property
    def is_strange(self) -> bool:
        """Returns whether what is in the file is not what this process would have written."""
        return self.foreign_write or self.other_duckdb

    def distrust_views(self) -> None:
        """Lets all openings fill every view anew until one has ended by `take`.

        Raises:
            UnavailableError: the disk refuses.
        """
        if self.file.file is None:
            return
        try:
            be_unsure(side_folder(self.file.file))
        except OSError as error:
            raise explained(self.file.file, error) from error

    def take(self, tables: Mapping[str, Schema]) -> None:
        """Makes the file ready for commits, after the log has been replayed.

        In this order: our records get our format; the log gets a segment for them; the note gets
        the state of the file; the file itself, without its write-ahead log, gets the mark that
        commits may be in the log alone.

        Args:
            tables: all base tables by name.

        Raises:
            UnavailableError: the disk refuses; nothing was committed meanwhile.
        """
        if self.log is None:
            return
        try:
            system_tables.upgrade(self.flusher.cursor)
            self.log.rotate(tables)
            self._checkpointer.note(moving=False)
            if system_tables.read_mark(self.flusher.cursor) is None:
                system_tables.mark_open(self.flusher.cursor, self.mark)
                self.checkpoint()
            self._saw_wal()
            if self.file.file is not None:
                be_sure(side_folder(self.file.file))
        except (duckdb.Error, OSError) as error:
            raise explained(self.file.file, error) from error
        self._ours = True

    def demand_in_place(self) -> None:
        """Checks that the paths of file and side folder name those that are open here.

        Called before all work by name, DuckDB's commits among it, which may begin its log.

        Raises:
            UnavailableError: they were moved, deleted or replaced, perhaps by another database's.
        """
        self.file.demand_in_place()

    def tell_addresses(self, addresses: Sequence[str]) -> None:
        """Tells processes that find the file locked where it is served; [] for nowhere any more.

        Raises:
            UnavailableError: the disk refuses, or the files were moved.
        """
        if self.file.file is None:
            return
        self.demand_in_place()
        try:
            write_addresses(side_folder(self.file.file), addresses)
        except OSError as error:
            raise explained(self.file.file, error) from error

    def cursor(self) -> Cursor:
        """A new cursor of the instance; transactions and temp tables are its own."""
        return self.file.connection.cursor()

    def tables(self, cursor: Cursor | None = None) -> dict[str, TableInfo]:
        """All tables of the user's file by canonical name, those that hold views included.

        Args:
            cursor: reads the catalog in its transaction; default a fresh one. `flush` uses the
                answer from now on, too.
        """
        found = read_tables(cursor or self.cursor(), self.database)
        self.flusher.learn(found)
        return found

    def schemas(self, cursor: Cursor) -> list[SchemaPath]:
        """The paths of the schemas of the user's file, nested ones too, as the cursor sees them."""
        return list(read_schemas(cursor, self.database).values())

    def databases(self, cursor: Cursor) -> list[str]:
        """Names of all attached databases, as the cursor sees them."""
        return [
            name
            for (name,) in rows(cursor, "SELECT database_name FROM system.main.duckdb_databases()")
        ]

    # -- epochs ----------------------------------------------------------------------------

    @property
    def base_epoch(self) -> int:
        """The epoch that all base tables have durably reached."""
        return self._epochs[BASE]

    def view_epoch(self, name: str) -> int:
        """The epoch that a view's table has durably reached."""
        return max(self._epochs.get(name, 0), self.base_epoch)

    def record(self, cursor: Cursor, epochs: Mapping[str, int]) -> None:
        """Writes epochs (base tables under `BASE`) in a transaction of the caller's.

        Call `recorded` once that transaction has committed.
        """
        system_tables.write_epochs(cursor, epochs)

    def stands(self, relation: str, number: int) -> bool:
        """Returns whether the file says that a relation has reached an epoch.

        Raises:
            duckdb.Error: it can no longer be read.
        """
        return system_tables.has_reached(self.file.connection, relation, number)

    def recorded(self, epochs: Mapping[str, int]) -> None:
        """Notes that the caller's transaction, which recorded these epochs, has committed."""
        self._epochs.update(epochs)
        if not self._ours:
            return
        with contextlib.suppress(UnavailableError, OSError):  # a long log only takes space
            self._saw_wal()
            if self.log is not None and BASE in epochs:
                self.log.truncate(self.base_epoch)
        self._checkpointer.consider()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """A transaction of ours besides the flushes, committed at the end of the block.

        Raises:
            UnavailableError: the files were moved, deleted or replaced.
        """
        closing = contextlib.closing(self.cursor())  # closing rolls back after an error
        with self.write_lock, closing as cursor:
            self.demand_in_place()
            run(cursor, "BEGIN TRANSACTION")
            yield cursor
            run(cursor, "COMMIT")
            self.saw_own_commit()

    def saw_own_commit(self) -> None:
        """Notes that a transaction of ours has committed besides the flushes.

        A flush that is under way notes it at its end, and is not waited for.
        """
        if self._ours and self.write_lock.acquire(timeout=_PINNED):
            try:
                with contextlib.suppress(UnavailableError, OSError):
                    self._saw_wal()
            finally:
                self.write_lock.release()

    def _saw_wal(self) -> None:
        if self._witness is not None:
            self.demand_in_place()
            self._witness.saw(self.base_epoch, self.flusher.number)

    def refilled(self) -> None:
        """Notes that a committed transaction has filled every view from the base tables."""
        self._epochs = {BASE: self.base_epoch}

    # -- flushing and reading --------------------------------------------------------------

    def flush(
        self,
        epoch: int,
        tables: Mapping[str, NetChange] | None,
        views: Mapping[str, NetChange],
    ) -> None:
        """Brings tables and views up to an epoch in one DuckDB transaction.

        Args:
            epoch: of everything given, afterwards.
            tables: the net changes of *all* base tables since `base_epoch` (those that are left
                out have none), or None to leave the base tables where they are. If given, every
                view with pending changes must be in `views`.
            views: the net changes of views since their epochs.

        Raises:
            UnavailableError: the file was moved, deleted or replaced.
            RefusedError, UnavailableError, OutcomeUnknownError: see `Flusher.write`.
        """
        if self.log is not None:
            self.log.sync(epoch)
        epochs = dict.fromkeys(views, epoch)
        if tables is not None:
            epochs[BASE] = epoch
        if not epochs:
            return
        with self.write_lock:
            self.demand_in_place()
            before = self.flusher.number
            try:
                self.flusher.write({**(tables or {}), **views}, epochs)
            finally:
                if self.flusher.number > before:  # also where an interrupt came behind the COMMIT
                    self._epochs.update(epochs)
            self.recorded(epochs)

    def pin(self, cursor: Cursor, *, writing: bool = False) -> None:
        """Begins a transaction whose snapshot is the file as it is now.

        Hold `write_lock` around the flush and this call, so that no other flush comes between.

        Args:
            cursor: of the query.
            writing: the query may advance sequences; else the transaction is read only.
        """
        run(cursor, "BEGIN TRANSACTION" if writing else "BEGIN TRANSACTION READ ONLY")
        rows(cursor, "SELECT 1 FROM _ivm.meta LIMIT 0")

    # -- checkpoint and close --------------------------------------------------------------

    def checkpoint(self) -> bool:
        """Writes DuckDB's log into the file; False if open transactions prevent it now."""
        return self._checkpointer.run()

    def checkpoint_attached(self, only: str) -> None:
        """The same for another database, by its folded name."""
        checkpoint_attached(self.cursor(), self.database, only)

    def close(self) -> None:
        """Checkpoints and closes (flush first); closing twice does nothing.

        Before `take` it changes nothing: the next opening finds the same state as this one.
        """
        if self._closed:
            return
        self._closed = True
        with contextlib.ExitStack() as rest:  # all of it, whatever fails
            rest.callback(self.file.close)
            rest.callback(self.flusher.close)
            if self._witness is not None:
                rest.callback(self._witness.close, forget=False)
            rest.callback(self._close_in_good_order)
            rest.callback(self._checkpointer.stop)

    def _close_in_good_order(self) -> None:
        if self.log is not None:
            self.log.close()
        if not self._ours:
            return
        self.demand_in_place()
        checkpoint_attached(self.cursor(), self.database)
        if self.log is None or self.base_epoch >= self.log.last_epoch:
            system_tables.mark_closed(self.flusher.cursor)
        done = self._checkpointer.run(final=True)
        if self._witness is not None:
            self._witness.close(forget=done)
        self.tell_addresses([])
