"""The open databases of this process, each shared by its handles and closed with the last of them.

Contract: a database is closed once: by the last of its handles that is closed, else by the next
`connect` after the last reference to them is gone, else as the program ends. Closing does not wait
forever: statements that run are interrupted, and the file is released at the end of the last one
that goes on. A database that cannot be closed prevents neither the closing of others nor a
`connect`. A forked child closes nothing: it has neither the threads nor the lock of the file, and
two writers would destroy both log and file.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ivm.backfill.run_fills import run_fills
from ivm.backfill.settings import SparkSettings
from ivm.engine.background_flush import BackgroundFlush
from ivm.engine.engine import Engine
from ivm.engine.opening.opening import open_engine
from ivm.engine.opening.ticking import run_clock
from ivm.engine.views.clock import micros_of
from ivm.reads.reads import StateReads
from ivm.settings import Settings
from ivm.storage.warehouse.duckdb.duckdb_errors import ours

if TYPE_CHECKING:
    from ivm.database import Database
    from ivm.lifetime import Lifetime

PATIENCE = 10.0
"""Seconds that closing waits for interrupted statements to end."""

CLOSED = "the database is closed: open it again with ivm.connect()"

_open: list[OpenDatabase] = []
_opening: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)
_log = logging.getLogger("ivm")


class OpenDatabase:
    """An engine, what runs beside it, and the handles through which the program uses it.

    Args:
        engine: just opened.
        settings: with which.
        spark: gives the session of its fills.
    """

    def __init__(self, engine: Engine, settings: Settings, spark: SparkSettings) -> None:
        self.engine = engine
        self.settings = settings
        self.spark = spark
        self.flusher = BackgroundFlush(engine)
        self.reads = StateReads(engine)
        self.closed = self._released = False
        self._handles: tuple[Lifetime, ...] = ()  # open, or with a statement left
        self._closing = threading.Lock()  # a second `close` waits for the first
        self._failed: list[BaseException] = []

    @property
    def file(self) -> Path | None:
        """Its file, None in memory."""
        return self.engine.warehouse.file.file

    def add(self, handle: Lifetime, asked: Settings) -> bool:
        """Adds a handle of who asks for these settings; returns False if the database is closed.

        While it is being closed, it is waited for: its file is free then.

        Raises:
            UnavailableError: the settings differ, or the files were moved or deleted.
        """
        with self._closing:
            if self.closed:
                return False
            self.engine.warehouse.demand_in_place()
            self.settings.demand_agreement(asked, self.file)
            self._handles = (*self._handles, handle)
            if self not in _open:  # not before: without a handle it is a forgotten one
                _open.append(self)
            return True

    @property
    def owners(self) -> list[Database]:
        """The open handles that the program refers to, in the order of their openings."""
        owners = [handle.owner for handle in self._handles if not handle.closed]
        return [owner for owner in owners if owner is not None]

    def is_used_beside(self, handle: Lifetime) -> bool:
        """Returns whether the program refers to another handle that is open."""
        return any(owner is not handle.owner for owner in self.owners)

    @property
    def is_forgotten(self) -> bool:
        """Returns whether the program cannot use it any more, and reads no result of it."""
        busy = any(handle.busy for handle in self._handles)
        return not (busy or self.owners or self.closed)

    def close(self, handle: Lifetime | None = None) -> None:
        """Closes one handle, and with the last one the database; or all at once.

        What it raises, all but the first as notes, has kept nothing from being closed.
        """
        with self._closing:
            if self.closed or (handle is not None and handle.closed):
                return
            last = handle is None or not self.is_used_beside(handle)
            ending = (handle,) if handle and not last else self._handles
            if last:
                self.engine.jobs.close()
            for each in ending:
                each.refuse(CLOSED)
            if last:
                self._refuse()
            self._end(PATIENCE)

    def finish(self) -> None:
        """Ends closed handles whose last statement has ended since, and then the database."""
        with self._closing:
            self._end(0)

    def _refuse(self) -> None:
        self.closed = True
        self.flusher.stop()
        self.engine.writer_lock.close(CLOSED)

    def _end(self, seconds: float) -> None:
        """Ends the sessions of closed handles; releases the file once no handle is left."""
        end = time.monotonic() + seconds
        closed = [handle for handle in self._handles if handle.closed]
        for handle in closed:
            self._failed += handle.end(end)
            if not handle.unfinished:
                self._handles = tuple([each for each in self._handles if each is not handle])
        if self.closed and not (self._handles or self._released):
            self._released = True
            self._release()
            with contextlib.suppress(ValueError):  # a child has forgotten it
                _open.remove(self)
        self._raise()

    def _release(self) -> None:
        for step in (self.engine.writer_lock.end, self.engine.close, self.engine.warehouse.close):
            try:
                step()
            except BaseException as error:  # the other steps run all the same
                self._failed.append(error)
        if not self._failed:
            self.engine.save_state()

    def _raise(self) -> None:
        failed, self._failed = self._failed, []
        for other in failed[1:]:
            if str(other) != str(failed[0]):
                failed[0].add_note(str(other))
        if failed:
            raise failed[0]

    def leave_to_parent(self) -> None:
        """Refuses all use in a child process, forked from the one that opened the database."""
        for handle in self._handles:
            handle.leave_to_parent()


def open_database(path: str, settings: Settings) -> OpenDatabase:
    """Opens or creates a database; see `ivm.connect`."""
    spark = SparkSettings(path, settings.spark)
    engine = open_engine(
        path,
        sync_at_commit=settings.durability != "interval",
        memory_limit=settings.memory_limit,
        threads=settings.threads,
        functions=settings.functions,
    )
    run_fills(engine, spark)
    if settings.clock is None:
        run_clock(engine)
    else:
        engine.clock.time = micros_of(settings.clock)
    return OpenDatabase(engine, settings, spark)


@contextlib.contextmanager
def opening(file: Path | None) -> Iterator[None]:
    """Lets one thread at a time open or share a file, in its block."""
    with contextlib.nullcontext() if file is None else _opening[file]:
        yield


def file_of(path: str) -> Path | None:
    """The one path of a file; None for memory, and for what no file can be named."""
    with contextlib.suppress(ValueError):
        return None if path == ":memory:" else Path(os.path.expanduser(path)).resolve()
    return None


def opened(file: Path | None) -> OpenDatabase | None:
    """The database of a file that is open or being closed; None if this process has none."""
    found = (each for each in list(_open) if file is not None and each.file == file)
    return next(found, None)


def close_forgotten() -> None:
    """Closes the databases without references whose results are not being read."""
    for each in list(_open):
        if each.is_forgotten:
            _close_for_nobody(each)


def _close_for_nobody(database: OpenDatabase) -> None:
    try:
        database.close()
    except Exception as error:  # logged: no caller waits for this database
        _log.warning("%s could not be closed in good order: %s", database.file, ours(error))


def _leave_to_parent() -> None:
    for each in _open:
        each.leave_to_parent()
    _open.clear()
    _opening.clear()  # locks that threads of the parent may hold


os.register_at_fork(after_in_child=_leave_to_parent)


@atexit.register
def _close_all() -> None:
    for each in list(_open):
        _close_for_nobody(each)
