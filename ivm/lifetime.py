"""One handle to an open database, from its opening to its closing, and its sessions.

Contract: what a handle has begun ends with it; what others do with the same database goes on.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ivm import open_databases
from ivm.open_databases import CLOSED, OpenDatabase, file_of, open_database, opened, opening
from ivm.session.session import Session
from ivm.settings import Settings
from ivm.storage.errors import UnavailableError
from ivm.storage.interrupts import Deferral, check
from ivm.storage.warehouse.duckdb.duckdb_errors import Translating
from ivm.storage.warehouse.opening.database_file import OF_THE_PARENT

if TYPE_CHECKING:
    from ivm.database import Database

T = TypeVar("T")

_PAUSE = 0.02  # seconds between interrupts: one that comes between two statements is lost


class Lifetime:
    """The sessions of a `Database`.

    Args:
        opened: what it is a handle to.
        owner: the `Database`: without references to it, the handle counts as closed.

    Attributes:
        opened: as given.
        closed: whether no statement may begin any more.
        unfinished: whether it is closed, but a statement goes on.
    """

    def __init__(self, opened: OpenDatabase, owner: Database) -> None:
        self.opened = opened
        self.engine = opened.engine
        self.closed = self.unfinished = False
        self._owner = weakref.ref(owner)
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()  # held by their threads
        self._changing = threading.Lock()  # guards `closed` and `_sessions`
        self._reason = CLOSED
        self._left = 0  # sessions whose statements have not ended

    @property
    def owner(self) -> Database | None:
        """The `Database`; None if the program has forgotten it."""
        return self._owner()

    def demand_open(self) -> None:
        """Raises UnavailableError if the handle is closed or the parent process's."""
        if self.closed:
            raise UnavailableError(self._reason)

    def session(self, is_gone: Callable[[], bool]) -> Session:
        """A new session.

        Args:
            is_gone: tells whether the thread has ended, or the connection is no more, that alone
                can go on with it.
        """
        owner = self._owner
        with self._changing:
            self.demand_open()
            session = Session(self.engine, self.opened.reads)
            session.is_forgotten = lambda: owner() is None or is_gone()
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
                    self.opened.finish()

    @property
    def busy(self) -> bool:
        """Returns whether a statement runs, or a result is being read."""
        return any(session.busy for session in self._made())

    def _made(self) -> list[Session]:
        with self._changing:  # a set that grows meanwhile cannot be walked through
            return list(self._sessions)

    @property
    def is_shared(self) -> bool:
        """Returns whether the program has other handles to the same database."""
        return self.opened.is_used_beside(self)

    # -- closing --------------------------------------------------------------------------------

    def close(self) -> None:
        """Rolls back open transactions; the last handle flushes, checkpoints, releases the file.

        Raises:
            UnavailableError: a statement has not ended, and the file is released when it does; or
                DuckDB cannot write: the file is released, and its log has every commit.
        """
        was_closed = self.closed
        self.opened.close(self)
        if self.unfinished:
            self.opened.finish()  # the last statement may have ended while `close` held its lock
        if self.unfinished and not was_closed:
            raise UnavailableError(
                f"{self._left} statements of other threads have not ended "
                f"{open_databases.PATIENCE:g} s after they were interrupted: the database is "
                "closed, and its file is let go when they end"
            )

    def refuse(self, reason: str) -> None:
        """Lets no statement begin any more."""
        with self._changing:
            self.unfinished = self.unfinished or not self.closed
            self.closed, self._reason = True, reason

    def leave_to_parent(self) -> None:
        """Refuses all use in a child process; a thread that it lacks may hold the locks."""
        self.closed, self._reason = True, OF_THE_PARENT

    def end(self, end: float) -> list[BaseException]:
        """Closes the sessions; it stays `unfinished` if one has a statement that does not end.

        Args:
            end: the time, as `time.monotonic` tells it, until which statements are interrupted.

        Returns:
            What was raised.
        """
        failed: list[BaseException] = []
        ended = [_end(session, end, failed) for session in self._made()]
        self._left = ended.count(False)
        self.unfinished = self._left > 0
        return failed


def _end(session: Session, end: float, failed: list[BaseException]) -> bool:
    """Interrupts a session's statement until it has ended, and closes the session; False if it
    has not ended in time."""
    try:
        while not session.close(_PAUSE):
            if time.monotonic() > end:
                return False
            session.interrupt()
    except BaseException as error:  # the session is closed; the others must be, too
        failed.append(error)
    return True


def handle_to(path: str, settings: Settings, owner: Database) -> Lifetime:
    """A handle to the database of a file, which is opened unless this process has it open.

    Raises:
        UnavailableError: it is open with other settings.
    """
    file = file_of(path)
    with opening(file):
        found = opened(file)
        if found is not None:
            shared = Lifetime(found, owner)
            if found.add(shared, settings):
                return shared
        made = open_database(path, settings)
        handle = Lifetime(made, owner)
        made.add(handle, settings)
        return handle
