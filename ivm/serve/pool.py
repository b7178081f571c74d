"""The sessions of all clients, and the threads that run their statements.

Invariant: a client without a statement has no thread. There are as many threads as statements run
at the same time, so a transaction that holds the writer lock always gets one for its next
statement.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence

import duckdb

from ivm.database import Database
from ivm.serve.access import Gate, User
from ivm.serve.served_session import ServedSession
from ivm.serve.settings import ServerSettings
from ivm.serve.threads import Threads
from ivm.session.session import Session
from ivm.storage.errors import UnavailableError
from ivm.storage.warehouse.duckdb.duck import rows, run

STOPPING = "the server is being stopped: connect again when it is back"
_SPARE = 4  # threads beside those of the clients' statements


class SessionPool:
    """The sessions of one server.

    Args:
        database: open.
        gate: who may do what.
        settings: the limits.

    Attributes:
        settings: in force for statements from now on.
        threads: that run statements, and whatever else may wait.
        is_lost: whether DuckDB has given the database up after a fault of its own.
    """

    def __init__(self, database: Database, gate: Gate, settings: ServerSettings) -> None:
        self.database = database
        self.gate = gate
        self.settings = settings
        self.threads = Threads(settings.connections + _SPARE)
        self.is_lost = False
        self._sessions: dict[int, ServedSession] = {}
        self._reserved: set[int] = set()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._stopping = False
        with database.connection() as connection:
            connection.run(_set_up)

    def reserve(self) -> int:
        """Reserves a place for a client; returns its number, to be given back by `release`.

        Raises:
            UnavailableError: there are as many as the settings allow, or the server stops.
        """
        with self._lock:
            if self._stopping:
                raise UnavailableError(STOPPING)
            most = self.settings.connections
            if len(self._reserved) >= most:
                raise UnavailableError(
                    f"the server has {most} connections, and takes no more: close one, or raise "
                    "connections in [server] of ivm.toml"
                )
            number = next(self._numbers)
            self._reserved.add(number)
            return number

    def open(self, number: int, user: User, peer: str) -> ServedSession:
        """Opens the session of a client that is logged in, in a thread of the pool.

        Raises:
            ConnectionError: the client has left meanwhile, and its place was given back.
        """
        connection = self.database.connection()
        most = int(self.settings.result_megabytes * 1_000_000)
        connection.run(lambda session: _read_in_batches(session, most))
        seconds = self.settings.statement_seconds
        session = ServedSession(number, user, peer, connection, seconds, self._find_out)
        with self._lock:
            stays = number in self._reserved
            if stays:
                self._sessions[number] = session
        if not stays:
            session.close()
            raise ConnectionResetError("the client has left")
        return session

    def _find_out(self) -> None:
        """Asks DuckDB whether it answers at all."""
        try:
            rows(self.database._engine.warehouse.cursor(), "SELECT 1")
        except duckdb.FatalException:
            self.is_lost = True

    def release(self, number: int) -> None:
        """Closes a client's session, if it has one, and gives its place to others."""
        with self._lock:
            session = self._sessions.pop(number, None)
            self._reserved.discard(number)
        if session is not None:
            session.cancel("the client has left")
            self.threads.submit(session.close)

    def cancel(self, number: int, secret: int) -> None:
        """Cancels the statement of the session that has this number and secret."""
        session = self._sessions.get(number)
        if session is not None and session.secret == secret:
            session.cancel("the statement was cancelled by its client")

    @property
    def size(self) -> int:
        """The number of clients."""
        return len(self._reserved)

    @property
    def busy(self) -> int:
        """The number of statements that run."""
        return sum(session.busy for session in list(self._sessions.values()))

    def look(self) -> None:
        """Cancels what takes too long; called several times a second."""
        now = time.monotonic()
        for session in list(self._sessions.values()):
            session.look(now)

    def apply(self, settings: ServerSettings) -> None:
        """Takes other limits; sessions that are open keep their time limit."""
        self.settings = settings
        self.threads.raise_most(settings.connections + _SPARE)

    def stop(self) -> None:
        """Takes no more clients."""
        with self._lock:
            self._stopping = True

    def cancel_all(self) -> None:
        """Cancels all statements that run."""
        for session in list(self._sessions.values()):
            session.cancel(STOPPING)

    def tell_addresses(self, addresses: Sequence[str]) -> None:
        """Tells programs that find the database's file locked where it is served."""
        self.database._engine.warehouse.tell_addresses(addresses)

    def close(self) -> None:
        """Closes the sessions that are left, and ends the threads when they have nothing to do."""
        for number in list(self._reserved):
            self.release(number)
        self.threads.end()


def _read_in_batches(session: Session, most: int) -> None:
    session.results.in_batches, session.results.most_held = True, most


def _set_up(session: Session) -> None:
    """Sets what DuckDB does for all clients.

    It loads extensions for no statement that does not ask for it by LOAD: a cast to a type of one
    would do it, for users who may not LOAD any. And it gives the memory of large results back to
    the system, which it would keep.
    """
    for setting in ("autoinstall_known_extensions", "autoload_known_extensions"):
        run(session.cursor, f"SET GLOBAL {setting} = false")
    run(session.cursor, "SET GLOBAL allocator_background_threads = true")
