"""The open databases of this process, and their closing, also of those the program has dropped.

Contract: a database is closed once: by `Database.close`, else by the next `connect` after the last
reference to it is gone, else as the program ends. Closing does not wait forever: statements that
run are interrupted, and the file is released at the end of the last one that goes on. A database
that cannot be closed prevents neither the closing of others nor a `connect`. A forked child closes
nothing: it has neither the threads nor the lock of the file, and two writers would destroy both
log and file.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ivm.engine.background_flush import BackgroundFlush
from ivm.engine.engine import Engine
from ivm.reads.reads import StateReads
from ivm.session.session import Session
from ivm.storage.errors import UnavailableError
from ivm.storage.interrupts import Deferral, check
from ivm.storage.warehouse.database_file import OF_THE_PARENT
from ivm.storage.warehouse.duckdb_errors import Translating, ours

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds that closing waits for interrupted statements to end."""

_CLOSED = "the database is closed: open it again with ivm.connect()"
_PAUSE = 0.02  # seconds between interrupts: one that comes between two statements is lost

_open: dict[Lifetime, weakref.ref[object]] = {}
_log = logging.getLogger("ivm")


class Lifetime:
    """The sessions and the background thread of a `Database` from its opening to its closing.

    Args:
        engine: just opened.
        owner: the `Database`: without references to it, the engine can be closed.

    Attributes:
        closed: whether no statement may begin any more.
        unfinished: whether it is closed, but the file not yet released.
    """

    def __init__(self, engine: Engine, owner: object) -> None:
        self.engine = engine
        self.closed = self.unfinished = False
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()  # held by their threads
        self._changing = threading.Lock()  # guards `closed` and `_sessions`
        self._closing = threading.Lock()  # a second `close` waits for the first
        self._reason = _CLOSED
        self._failed: list[BaseException] = []
        self._flusher = BackgroundFlush(engine)
        self._reads = StateReads(engine)
        _open[self] = weakref.ref(owner)

    def demand_open(self) -> None:
        """Raises UnavailableError if the database is closed or the parent process's."""
        if self.closed:
            raise UnavailableError(self._reason)

    def session(self) -> Session:
        """A new session."""
        with self._changing:
            self.demand_open()
            session = Session(self.engine, self._reads)
            self._sessions.add(session)
        return session

    def run(
        self,
        session_of: Callable[[], Session],
        work: Callable[[Session], T],
        *,
        looks: bool = False,
    ) -> T:
        """Calls a function with a session; every call that runs something comes here.

        See `Session.fail`, `Translating` and `ivm.storage.interrupts`.

        Args:
            session_of: gives the session.
            work: the function.
            looks: it tells what background threads do, and leaves their troubles to other calls.
        """
        with Deferral() as call, Translating():
            session = session_of()
            call.cursor = session.cursor
            try:
                with session.lock:
                    self.demand_open()  # it may have been closed during the wait
                    if session.transaction is None and not looks:
                        self.engine.warehouse.troubles.raise_one()
                    try:
                        done = work(session)
                        check()
                        return done
                    except BaseException as error:
                        session.fail(error)
                        raise
            finally:
                if self.unfinished:
                    self.finish()

    def leave_to_parent(self) -> None:
        """Refuses all use in a child process, forked from the one that opened the database."""
        self.closed, self._reason = True, OF_THE_PARENT

    @property
    def busy(self) -> bool:
        """Returns whether a statement runs, or a result is being read."""
        with self._changing:  # a set that grows meanwhile cannot be walked through
            sessions = list(self._sessions)
        return any(session.busy for session in sessions)

    def close(self) -> None:
        """Rolls back open transactions, flushes, checkpoints and releases the file.

        Raises:
            UnavailableError: a statement has not ended, and the file is released when it does; or
                DuckDB cannot write: the file is released, and its log has every commit.
        """
        with self._closing:
            self.engine.jobs.close()
            with self._changing:
                if self.closed:
                    return
                self.closed = self.unfinished = True
                sessions = list(self._sessions)
            _open.pop(self, None)
            self._flusher.stop()
            self.engine.writer_lock.close(_CLOSED)
            end = time.monotonic() + PATIENCE
            left = [session for session in sessions if not self._end(session, end)]
            if not left:
                self._finish()
        if left:
            self.finish()  # the last statement may have ended while this thread held `_closing`
        if self.unfinished:
            raise UnavailableError(
                f"{len(left)} statements of other threads have not ended {PATIENCE:g} s after they "
                "were interrupted: the database is closed, and its file is let go when they end"
            )

    def finish(self) -> None:
        """Releases the file, if the last statement that the closing did not wait for has ended."""
        with self._closing:
            with self._changing:
                sessions = list(self._sessions)
            if self.unfinished and not [s for s in sessions if not self._end(s, 0)]:
                self._finish()

    def _end(self, session: Session, end: float) -> bool:
        """Interrupts a session's statement until it has ended, and closes the session; False if it
        has not ended in time."""
        try:
            while not session.close(_PAUSE):
                if time.monotonic() > end:
                    return False
                session.interrupt()
        except BaseException as error:  # the session is closed; the others must be, too
            self._failed.append(error)
        return True

    def _finish(self) -> None:
        self.unfinished = False
        failed = self._failed
        for step in (self.engine.writer_lock.end, self.engine.close, self.engine.warehouse.close):
            try:
                step()
            except BaseException as error:  # the other steps run all the same
                failed.append(error)
        if not failed:
            self.engine.save_state()
        for other in failed[1:]:
            failed[0].add_note(str(other))
        if failed:
            raise failed[0]


def opened(path: str) -> object | None:
    """The `Database` of a file that this process has open; None if it has none."""
    wanted = Path(os.path.expanduser(path)).resolve()
    for lifetime, owner in list(_open.items()):
        if lifetime.engine.warehouse.file.file == wanted and not lifetime.closed:
            return owner()
    return None


def close_forgotten() -> None:
    """Closes the databases without references whose results are not being read."""
    for lifetime, owner in list(_open.items()):
        if owner() is None and not lifetime.busy:
            _close_for_nobody(lifetime)


def _close_for_nobody(lifetime: Lifetime) -> None:
    try:
        lifetime.close()
    except Exception as error:  # logged: no caller waits for this database
        file = lifetime.engine.warehouse.file.file
        _log.warning("%s could not be closed in good order: %s", file, ours(error))


def _leave_to_parent() -> None:
    for lifetime in _open:
        lifetime.leave_to_parent()
    _open.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


@atexit.register
def _close_all() -> None:
    for lifetime in list(_open):
        _close_for_nobody(lifetime)
