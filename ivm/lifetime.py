"""The databases that this process has open, and their closing, also of those it forgot to close.

Law: what is opened is closed once: by `Database.close`, else by the next `connect` after the
program let go of the object, else as the program ends. Closing ends: statements that run are
interrupted, and one that does not end in time lets the file go when it does. No database is kept
from closing, nor any connect from opening, by another one that fails. A forked child closes
nothing: its copy has neither the threads nor the lock of the file, and two writers would ruin log
and file.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref

from ivm.engine.background_flush import BackgroundFlush
from ivm.engine.engine import Engine
from ivm.session.session import Session
from ivm.storage.errors import UnavailableError
from ivm.storage.warehouse.database_file import OF_THE_PARENT
from ivm.storage.warehouse.duckdb_errors import ours

PATIENCE = 10.0
"""Seconds that closing waits for interrupted statements to end."""

_CLOSED = "the database is closed: open it again with ivm.connect()"
_PAUSE = 0.02  # seconds between interrupts: one that comes between two statements is lost

_open: dict[Lifetime, weakref.ref[object]] = {}
_log = logging.getLogger("ivm")


class Lifetime:
    """What runs behind a `Database` from its opening to its closing.

    Args:
        engine: just opened.
        owner: the object whose users can reach the engine.

    Attributes:
        closed: nothing new may begin.
        unfinished: it is closed, but the file has not been let go yet.
    """

    def __init__(self, engine: Engine, owner: object) -> None:
        self.engine = engine
        self.closed = self.unfinished = False
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()  # theirs is the thread
        self._changing = threading.Lock()  # `closed` and `_sessions`
        self._closing = threading.Lock()  # held by who closes: another one waits
        self._reason = _CLOSED
        self._failed: list[BaseException] = []
        self._flusher = BackgroundFlush(engine)
        _open[self] = weakref.ref(owner)

    def demand_open(self) -> None:
        """Raise UnavailableError if the database is closed or the parent's."""
        if self.closed:
            raise UnavailableError(self._reason)

    def session(self) -> Session:
        """A new session."""
        with self._changing:
            self.demand_open()
            session = Session(self.engine)
            self._sessions.add(session)
        return session

    def leave_to_parent(self) -> None:
        """This process is a child, forked from the one that opened the database."""
        self.closed, self._reason = True, OF_THE_PARENT

    @property
    def busy(self) -> bool:
        """Whether a statement runs, or a result is being read."""
        return any(session.busy for session in list(self._sessions))

    def close(self) -> None:
        """Roll back what is open, flush, checkpoint and let the file go.

        Raises:
            UnavailableError: a statement does not end: it lets the file go when it does; or DuckDB
                cannot write: the file is let go, and its log has every commit.
        """
        with self._closing:
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
            self.finish()  # it may just have ended, and found us closing
        if self.unfinished:
            raise UnavailableError(
                f"{len(left)} statements of other threads have not ended {PATIENCE:g} s after they "
                "were interrupted: the database is closed, and its file is let go when they end"
            )

    def finish(self) -> None:
        """Let the file go, now that a statement has ended that the closing did not wait for."""
        with self._closing:
            sessions = list(self._sessions)
            if self.unfinished and not [s for s in sessions if not self._end(s, 0)]:
                self._finish()

    def _end(self, session: Session, end: float) -> bool:
        """Interrupt what a session runs until it has ended, and close it; False if it does not."""
        try:
            while not session.close(_PAUSE):
                if time.monotonic() > end:
                    return False
                session.interrupt()
        except BaseException as error:  # it is closed; the others are to be
            self._failed.append(error)
        return True

    def _finish(self) -> None:
        self.unfinished = False
        failed = self._failed
        for step in (self.engine.writer_lock.end, self.engine.close, self.engine.warehouse.close):
            try:
                step()
            except BaseException as error:  # the others are done all the same
                failed.append(error)
        for other in failed[1:]:
            failed[0].add_note(str(other))
        if failed:
            raise failed[0]


def close_forgotten() -> None:
    """Close the databases that nobody can reach any more, and whose results nobody reads now."""
    for lifetime, owner in list(_open.items()):
        if owner() is None and not lifetime.busy:
            _close_for_nobody(lifetime)


def _close_for_nobody(lifetime: Lifetime) -> None:
    try:
        lifetime.close()
    except Exception as error:  # nobody is there to be told, and others are to be opened or closed
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
