"""One connection's side in the event loop: bytes come in, whole messages go to a thread.

Invariant: at most one thread works for a connection, and only it sends to the client once somebody
is logged in. The loop logs in, encrypts, and cancels; it touches no session.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from ivm.serve.access import User, is_loopback, trusted
from ivm.serve.pg.backend import Backend
from ivm.serve.pg.catalog.session_settings import SessionSettings, asked_at_login
from ivm.serve.pg.wire import codec
from ivm.serve.pg.wire.codec import Frame, ProtocolError, Reader
from ivm.serve.pg.wire.errors import (
    BAD_LOGIN,
    IDLE_TRANSACTION,
    NO_LOGIN,
    PROTOCOL,
    STOPPED,
    PgError,
    error_fields,
)
from ivm.serve.pg.wire.incoming import Incoming
from ivm.serve.pg.wire.line import Line
from ivm.serve.pg.wire.login import Login
from ivm.serve.pg.wire.sockets import keep_alive
from ivm.serve.pool import STOPPING
from ivm.serve.statement_log import LOG
from ivm.storage.errors import IvmError
from ivm.storage.warehouse.duckdb.duckdb_errors import ours

if TYPE_CHECKING:
    from ivm.serve.pg.listener import PgListener

_LOGIN_SECONDS = 15.0


class PgConnection(asyncio.BufferedProtocol):
    """A connection.

    Args:
        listener: whose it is.
    """

    def __init__(self, listener: PgListener) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._line = Line(listener.poller, self, lambda: listener.pool.settings.send_seconds)
        self._incoming = Incoming()
        self._working = self._encrypting = self._closing = False
        self._tells_late = False  # why it ends
        self._lock = self._line.lock  # guards all of these
        self._number: int | None = None
        self._login: Login | None = None
        self._backend: Backend | None = None
        self._given: dict[str, str] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.peer = "?"
        self._host = ""
        self.last = time.monotonic()

    # -- the transport --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come, or its connection is encrypted from here on."""
        self._line.transport = cast(asyncio.Transport, transport)
        if self._timer is not None:
            return
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        self.peer, self._host = f"{host}:{port}", str(host)
        keep_alive(transport)
        self._listener.connections.add(self)
        self._timer = self._loop.call_later(_LOGIN_SECONDS, self._login_took_too_long)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has left, or was sent away."""
        with self._lock:
            self._line.end()
            working = self._working
        self._listener.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._give_back()
        if self._backend is not None and not working:
            self._backend.close()

    def pause_writing(self) -> None:
        """The client does not read what is sent."""
        self._line.hold()

    def resume_writing(self) -> None:
        """It reads again."""
        self._line.let()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where bytes are to be put: all connections share the place, which is read at once."""
        return self._listener.received

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come."""
        self._incoming.add(self._listener.received[:nbytes])
        self.last = time.monotonic()
        self._advance()

    def readable(self) -> None:
        """Reads and answers what has come, in the thread that waits for the sockets."""
        with self._lock:
            data = self._line.read()
            if data:
                self._incoming.add(data)
        if data:
            self.last = time.monotonic()
            work = self._next_work()
            if work is not None:
                self._work(work)
        elif data is not None:
            self._line.in_loop(self._close)

    def _advance(self) -> None:
        work = self._next_work()
        if work is not None:
            self._submit(work)

    def _next_work(self) -> Callable[[], bool] | None:
        """What a thread is to do now with what has come; None if nothing, or one works already."""
        try:
            if not self._incoming.tagged:
                self._cut_start()
            with self._lock:
                if self._closing:
                    return None
                if self._incoming.tagged and not self._encrypting:
                    self._incoming.cut(known=self._backend is not None)
                if self._working:
                    self._hold_up()
                    return None
                frames = self._taken()
                self._working = frames is not None
        except ProtocolError as error:
            self._line.in_loop(partial(self.refuse, PgError(PROTOCOL, str(error))))
            return None
        return None if frames is None else self._handler(frames)

    def _taken(self) -> list[Frame] | None:
        """The messages that a thread is to answer now."""
        return None if self._closing else self._incoming.take(known=self._login is None)

    def _cut_start(self) -> None:
        """Answers what comes before messages have tags."""
        while not self._encrypting and not self._incoming.tagged:
            found = self._incoming.first()
            if found is None:
                return
            self._start(*found)

    def _hold_up(self) -> None:
        """Reads no more for now, if much waits."""
        if self._incoming.is_much and not self._line.paused:
            self._line.pause()

    # -- before the login -----------------------------------------------------------------------

    def _start(self, frame: Frame, left: int) -> None:
        """Answers the first message: a wish for encryption, a cancel, or the start itself."""
        reader = Reader(frame.body)
        version = reader.long()
        if version == codec.SSL_REQUEST:
            self._encrypt(left)
        elif version == codec.GSS_REQUEST:
            self._line.write(b"N")
        elif version == codec.CANCEL_REQUEST:
            self._listener.pool.cancel(reader.long(), reader.long() & 0xFFFFFFFF)
            self._close()
        elif version >> 16 != 3:
            raise ProtocolError(f"version 3 of the protocol is spoken here, not {version >> 16}")
        else:
            self._incoming.tagged = True
            self._open(reader, version & 0xFFFF)

    def _encrypt(self, left: int) -> None:
        context = self._listener.tls
        if context is None:
            self._line.write(b"N")
            return
        if left:  # sent before the client can have read the answer: somebody put it there
            raise ProtocolError("bytes before the encryption")
        self._encrypting = True
        self._line.write(b"S")
        self._loop.create_task(self._start_tls(context))

    async def _start_tls(self, context: ssl.SSLContext) -> None:
        try:
            transport = await self._loop.start_tls(
                self._line.transport, self, context, server_side=True, ssl_handshake_timeout=10
            )
        except (OSError, ssl.SSLError) as error:
            self._listener.log.refused(self.peer, "", f"no encryption: {error}")
            self._close()
            return
        assert transport is not None
        self._line.transport = transport
        self._encrypting = False
        self._advance()

    def _open(self, reader: Reader, minor: int) -> None:
        while name := reader.text():
            self._given[name] = reader.text()
        unknown = [name for name in self._given if name.startswith("_pq_.")]
        if minor or unknown:
            self._line.write(codec.negotiated(unknown))
        listener, encrypted = self._listener, self._line.is_encrypted or is_loopback(self._host)
        try:
            if listener.demands_tls and not encrypted:
                raise PgError(
                    NO_LOGIN, "connections from elsewhere are encrypted: use sslmode=require"
                )
            wait = self._wait()
        except (IvmError, PgError) as error:
            self.refuse(error)
            return
        self._working = True  # nothing that comes meanwhile is looked at
        if wait:
            self._loop.call_later(wait, self._begin_login)
        else:
            self._begin_login()

    def _wait(self) -> float:
        """The seconds for which the login is held back, see `FailedLogins`."""
        if self._listener.trusts(self._host):
            return 0.0
        return self._listener.gate.failures.wait(self._host, self._user)

    def _begin_login(self) -> None:
        if self._line.lost:
            return
        try:
            self._number = self._listener.pool.reserve()
        except IvmError as error:
            self.refuse(error)
            return
        self._login = Login(self._listener.gate, self._user)
        if self._listener.trusts(self._host):
            self._submit(lambda: self._enter(trusted(self._user), codec.authentication(0)))
            return
        self._line.write(self._login.begin())
        self._working = False
        if len(self._incoming):
            self._loop.call_soon(self._advance)

    @property
    def _user(self) -> str:
        return self._given.get("user", "")

    def _login_took_too_long(self) -> None:
        self.refuse(PgError(NO_LOGIN, f"there was no login within {_LOGIN_SECONDS:g} s"))

    def refuse(self, error: IvmError | PgError) -> None:
        """Tells the client an error, and ends the connection."""
        with self._lock:
            self._closing = True
        delay = 0.0
        if self._backend is None:
            self._listener.log.refused(self.peer, self._user, error)
            if isinstance(error, PgError) and error.code == BAD_LOGIN:
                delay = self._listener.gate.failures.failed(self._host, self._user)
        if not delay:
            self._tell_end(error)
            return
        self._tells_late = True
        self._give_back()  # who waits takes no place
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay, self._tell_end, error)

    def _tell_end(self, error: IvmError | PgError) -> None:
        told = error_fields(error, ends=True)
        self._line.write(codec.fields(b"E", told))
        self._close()

    def _give_back(self) -> None:
        """Gives the connection's place to others."""
        number, self._number = self._number, None
        if number is not None:
            self._listener.left(number)

    # -- in a thread ----------------------------------------------------------------------------

    def _handler(self, frames: list[Frame]) -> Callable[[], bool]:
        backend = self._backend
        if backend is not None:
            return lambda: backend.handle(frames)
        return lambda: self._log_in(frames)

    def _submit(self, work: Callable[[], bool]) -> None:
        self._listener.pool.threads.submit(lambda: self._work(work))

    def _work(self, work: Callable[[], bool]) -> None:
        """Answers messages until none is left, in a thread."""
        while True:
            goes_on = self._done(work)
            self.last = time.monotonic()
            with self._lock:
                asks = (
                    not goes_on or self._line.lost or self._line.paused or self._listener.refusing
                )
                frames = None if asks else self._taken()
                self._working = asks or frames is not None
            if asks:
                self._line.in_loop(partial(self._worked, goes_on))
            if frames is None:
                return
            work = self._handler(frames)

    def _done(self, work: Callable[[], bool]) -> bool:
        """Calls a function, and tells the client what it fails with; returns False at the end."""
        try:
            return work()
        except ConnectionError:
            pass
        except ProtocolError as error:
            if self._backend is None:
                self._line.in_loop(partial(self.refuse, PgError(PROTOCOL, str(error))))
        except (PgError, IvmError) as error:
            self._line.in_loop(partial(self.refuse, error))
        except Exception as error:  # the client is told, and others are served
            LOG.exception("a fault of the server: please report it")
            self._line.in_loop(partial(self.refuse, ours(error)))
        return False

    def _worked(self, goes_on: bool) -> None:
        """A thread has done what it was given, and there is something to decide."""
        with self._lock:
            self._working, self._closing = False, self._closing or not goes_on
            lost = self._line.lost
        if lost:
            if self._backend is not None:
                self._backend.close()
        elif not goes_on:
            if not self._tells_late:
                self._close()
        elif self._listener.refusing:
            self.take_leave()
        else:
            self._line.go_on()
            self._advance()

    def _log_in(self, frames: list[Frame]) -> bool:
        assert self._login is not None
        for i, frame in enumerate(frames):
            answer, user = self._login.answer(frame)
            if user is None:
                self.send(answer)
                continue
            self._listener.gate.failures.succeeded(self._host, self._user)
            self._enter(user, answer)
            if frames[i + 1 :]:
                return bool(self._backend and self._backend.handle(frames[i + 1 :]))
        return True

    def _enter(self, user: User, answer: bytes) -> bool:
        """Opens the session of somebody who is logged in, and greets the client."""
        listener, number = self._listener, self._number
        if number is None:
            raise ConnectionError("the client has gone before this thread could begin")
        served = listener.pool.open(number, user, self.peer)
        settings = SessionSettings({"session_authorization": user.name})
        backend = Backend(
            served,
            self,
            listener.gate,
            listener.catalog,
            listener.known,
            settings,
            lambda: listener.pool.settings,
            listener.log,
        )
        backend.take(asked_at_login(self._given))
        listener.log.login(served, "PostgreSQL's protocol")
        self._backend, self._login = backend, None  # before a client that is greeted sends more
        self.send(answer)
        backend.greet()
        self._line.open()
        if self._timer is not None:
            self._line.in_loop(self._timer.cancel)
        return True

    def send(self, data: bytes) -> None:
        """See `Client`."""
        self._line.send(data)

    # -- the end --------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether messages of somebody who is logged in are being answered; in the loop."""
        return self._backend is not None and (self._working or self._line.has_unsent)

    def _close(self) -> None:
        self._line.transport.close()

    def take_leave(self) -> None:
        """Ends the connection once no statement of it runs, and tells the client why."""
        self.refuse_if_idle(PgError(STOPPED, STOPPING))

    def refuse_if_idle(self, error: PgError) -> None:
        """Ends the connection unless a statement of it runs."""
        with self._lock:
            if self._working or self._closing:
                return
            self._closing = True  # none begins meanwhile
        self.refuse(error)

    def abort(self) -> None:
        """Ends the connection now."""
        self._line.transport.abort()

    def look(self, now: float, limit: float) -> None:
        """Sends a client away that has done nothing for long; called now and then."""
        idle = now - self.last
        if limit and idle > limit:
            self.refuse_if_idle(PgError(STOPPED, f"the connection did nothing for {limit:g} s"))
        limit = self._backend.seconds_in_transaction if self._backend is not None else 0.0
        if limit and idle > limit:
            self.refuse_if_idle(
                PgError(IDLE_TRANSACTION, f"the transaction did nothing for {limit:g} s")
            )
