"""Sessions that clients hold from one request to the next, for transactions over HTTP.

Law: who has the token of a session, and is its user still, may use it, one request at a time. One
that is not used for `IDLE` seconds is closed, and its open transaction rolled back.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator

from ivm.serve.access import User
from ivm.serve.http.errors import HttpError
from ivm.serve.pool import SessionPool
from ivm.serve.served_session import ServedSession

IDLE = 60.0


class Held:
    """A session of a client.

    Args:
        session: open.

    Attributes:
        lock: held by the request that uses it.
    """

    def __init__(self, session: ServedSession) -> None:
        self.session = session
        self.lock = asyncio.Lock()
        self.used = time.monotonic()


class HeldSessions:
    """The sessions by token; the event loop calls it.

    Args:
        pool: of the server.
    """

    def __init__(self, pool: SessionPool) -> None:
        self._pool = pool
        self._held: dict[str, Held] = {}

    async def open(self, user: User, peer: str) -> str:
        """Opens a session; returns its token.

        Raises:
            UnavailableError: there are as many connections as the settings allow.
        """
        number = self._pool.reserve()
        try:
            session = await self._pool.threads.call(lambda: self._pool.open(number, user, peer))
        except BaseException:
            self._pool.release(number)
            raise
        token = secrets.token_urlsafe(24)
        self._held[token] = Held(session)
        return token

    def find(self, token: str, user: User) -> Held:
        """The session of a token.

        Raises:
            HttpError: there is none, or it is another user's.
        """
        found = self._held.get(token)
        if found is None or found.session.user != user:
            raise HttpError(
                404,
                "session",
                f"the session is unknown, or was closed after {IDLE:g} s without a request, and "
                "its transaction rolled back: open another by POST /sessions",
            )
        found.used = time.monotonic()
        return found

    @contextlib.asynccontextmanager
    async def using(self, token: str, user: User) -> AsyncIterator[ServedSession]:
        """The session of a token, once no other request uses it.

        Raises:
            HttpError: there is none, or it was closed meanwhile, or it is another user's.
        """
        async with self.find(token, user).lock:
            yield self.find(token, user).session

    def close(self, token: str, user: User) -> None:
        """Closes a session."""
        held = self.find(token, user)
        del self._held[token]
        self._pool.release(held.session.number)

    def look(self, now: float) -> None:
        """Closes sessions that nobody has used for long; called now and then."""
        for token, held in list(self._held.items()):
            if held.lock.locked():
                held.used = now
            elif now - held.used > IDLE:
                del self._held[token]
                self._pool.release(held.session.number)

    def close_all(self) -> None:
        """Closes all sessions."""
        for held in self._held.values():
            self._pool.release(held.session.number)
        self._held.clear()
