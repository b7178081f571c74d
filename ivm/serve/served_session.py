"""One client's session: its statements run in threads of the pool, one at a time.

Contract: a statement that is cancelled, or takes too long, ends as one that Ctrl-C interrupts: it
has changed nothing, or its outcome was decided before. The event loop touches no session.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TypeVar

from ivm.connection import Connection
from ivm.serve.access import User
from ivm.session.names.caller_scope import variables
from ivm.session.session import Session
from ivm.storage.errors import IvmError, UnavailableError
from ivm.storage.interrupts import Cancellable

T = TypeVar("T")


class CancelledError(UnavailableError):
    """A statement that was cancelled by its client, its time limit or the server's end."""


class ServedSession:
    """A session that a client has.

    Args:
        number: of the session, unique in the server.
        user: who is logged in.
        peer: the client's address, for the log.
        connection: the database's session; opened in a thread of the pool.
        seconds: after which a statement is cancelled; 0: never.
        refused: called where the database cannot do something now, in the calling thread.

    Attributes:
        secret: by which the client cancels statements.
        seconds: after which a statement is cancelled; 0: never.
        cancelled: what the client has cancelled last, for what waits for the client.
    """

    def __init__(
        self,
        number: int,
        user: User,
        peer: str,
        connection: Connection,
        seconds: float,
        refused: Callable[[], None],
    ) -> None:
        self.number = number
        self.user = user
        self.peer = peer
        self.secret = secrets.randbits(32)
        self.seconds = seconds
        self.connection = connection
        self.cancelled: CancelledError | None = None
        self._refused = refused
        self._call: Cancellable | None = None
        self._began = 0.0

    def run(self, work: Callable[[Session], T]) -> T:
        """Calls a function with the session, in the calling thread.

        Raises:
            CancelledError: it was cancelled, and has changed nothing.
            IvmError: what the function raises.
        """
        return self.around(lambda: self.connection.run(work))

    def run_changing(self, work: Callable[[Session], T]) -> T:
        """Calls a function as `run` does, in the transaction that waits to begin.

        That of a user who may change nothing never begins: it would hold up who may.
        """
        if not self.user.grant.writes:
            return self.run(work)
        return self.around(lambda: self.connection.run_changing(work))

    def around(self, work: Callable[[], T]) -> T:
        """Calls a function that uses the session, such as one that reads a result on; see `run`."""
        call = Cancellable()
        call.cursor = self.connection.statement_cursor
        with call, variables({}):  # SQL of a client reads no variables of the server
            self._began, self._call = time.monotonic(), call
            try:
                return work()
            except IvmError as error:
                reason = call.reason
                if reason is None and isinstance(error, UnavailableError):
                    self._refused()
                if reason is None or error is reason or call.is_too_late:
                    raise
                raise reason from error
            finally:
                self._call = None

    def cancel(self, reason: str) -> None:
        """Cancels the statement that runs, from any thread; if none does, it is only noted.

        It is repeated until the statement has ended: DuckDB loses an interrupt between two
        statements.
        """
        self.cancelled = CancelledError(reason)
        call = self._call
        if call is not None:
            call.take(self.cancelled)

    def demand_wanted(self) -> None:
        """Ends what was cancelled while it waited for its client, as no statement ran.

        Raises:
            CancelledError: it was.
        """
        if self.cancelled is not None:
            raise self.cancelled

    def look(self, now: float) -> None:
        """Cancels the statement that runs if it takes too long, and again if it is cancelled."""
        call = self._call
        if call is None:
            return
        if call.reason is not None:
            call.take(call.reason)
        elif self.seconds and now - self._began > self.seconds:
            self.cancel(f"the statement was cancelled: it took longer than {self.seconds:g} s")

    @property
    def busy(self) -> bool:
        """Whether a statement runs."""
        return self._call is not None

    def close(self) -> None:
        """Undoes an open transaction and frees the session, in a thread of the pool."""
        self.connection.close()
