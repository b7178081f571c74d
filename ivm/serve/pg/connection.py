"""One connection's side in the event loop: bytes come in, whole messages go to a thread.

Invariant: at most one thread works for a connection, and only it writes to the client once somebody
is logged in: to the socket itself where nothing waits in the loop before, so that a small answer
costs no turn of the loop. The loop logs in, encrypts, and cancels; it touches no session. What is
not encrypted is read by the `Poller` after the login, else by the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

from ivm.serve.access import User, is_loopback, trusted
from ivm.serve.pg import codec
from ivm.serve.pg.backend import Backend
from ivm.serve.pg.codec import Frame, ProtocolError, Reader
from ivm.serve.pg.errors import (
    BAD_LOGIN,
    IDLE_TRANSACTION,
    NO_LOGIN,
    PROTOCOL,
    STOPPED,
    PgError,
    error_fields,
)
from ivm.serve.pg.incoming import Incoming
from ivm.serve.pg.login import Login
from ivm.serve.pg.session_settings import SessionSettings
from ivm.serve.pg.sockets import keep_alive, read_now, written_now
from ivm.serve.pool import STOPPING
from ivm.serve.statement_log import LOG
from ivm.storage.errors import IvmError
from ivm.storage.warehouse.duckdb_errors import ours

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
        self._transport: asyncio.Transport | None = None
        self._incoming = Incoming()
        self._working = self._lost = self._encrypting = self._paused = self._closing = False
        self._polled = False  # read by the poller, no more by the loop
        self._lock = threading.Lock()  # guards all of these, `_queued` and `_socket`
        self._queued = 0  # answers that wait in the loop
        self._socket = -1  # of an open connection that is not encrypted
        self._writable = threading.Event()
        self._writable.set()
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
        self._transport = cast(asyncio.Transport, transport)
        if self._timer is not None:
            return
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        self.peer, self._host = f"{host}:{port}", str(host)
        keep_alive(transport)
        self._listener.connections.add(self)
        self._timer = self._loop.call_later(_LOGIN_SECONDS, self._login_took_too_long)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has left, or was sent away."""
        with self._lock:  # no thread uses the socket from here on: its number will be another's
            self._leave_poller()
            self._lost, self._socket = True, -1
            working = self._working
        self._writable.set()
        self._listener.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._number is not None:
            self._listener.left(self._number)
        if self._backend is not None and not working:
            self._backend.close()

    def pause_writing(self) -> None:
        """The client does not read what is sent."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It reads again."""
        self._writable.set()

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
            if self._socket < 0:
                return
            data = read_now(self._socket, _READ)
            if data:
                self._incoming.add(data)
            elif data is not None:
                self._leave_poller()
        if data:
            self.last = time.monotonic()
            work = self._next_work()
            if work is not None:
                self._work(work)
        elif data is not None:
            self._in_loop(self._close)

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
            self._in_loop(partial(self.refuse, PgError(PROTOCOL, str(error))))
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
        if self._paused or not self._incoming.is_much:
            return
        self._paused = True
        poller = self._listener.poller
        if self._polled and poller is not None:
            poller.pause(self._socket)
        elif self._transport is not None:
            self._transport.pause_reading()

    def _go_on_reading(self) -> None:
        poller, transport = self._listener.poller, self._transport
        with self._lock:
            if not self._paused:
                return
            self._paused = False
            if self._polled and poller is not None:
                poller.resume(self._socket)
                return
        if transport is not None:
            with contextlib.suppress(RuntimeError):  # it is closing
                transport.resume_reading()

    def _join_poller(self) -> None:
        """Has the thread that waits for the sockets read from here on; the loop does no more."""
        poller, transport = self._listener.poller, self._transport
        if poller is None or transport is None or transport.is_closing():
            return
        with self._lock:
            if self._socket < 0 or self._paused:
                return
            transport.pause_reading()
            self._polled = True
            poller.add(self._socket, self)

    def _leave_poller(self) -> None:
        """Has nobody read any more; called with the lock."""
        poller = self._listener.poller
        if self._polled and poller is not None and self._socket >= 0:
            poller.remove(self._socket)
            self._polled = False

    # -- before the login -----------------------------------------------------------------------

    def _start(self, frame: Frame, left: int) -> None:
        """Answers the first message: a wish for encryption, a cancel, or the start itself."""
        reader = Reader(frame.body)
        version = reader.long()
        if version == codec.SSL_REQUEST:
            self._encrypt(left)
        elif version == codec.GSS_REQUEST:
            self._write(b"N")
        elif version == codec.CANCEL_REQUEST:
            self._listener.pool.cancel(reader.long(), reader.long() & 0xFFFFFFFF)
            self._close()
        elif version >> 16 != 3:
            raise ProtocolError(f"version 3 of the protocol is spoken here, not {version >> 16}")
        else:
            self._incoming.tagged = True
            self._open(reader)

    def _encrypt(self, left: int) -> None:
        context = self._listener.tls
        if context is None:
            self._write(b"N")
            return
        if left:  # sent before the client can have read the answer: somebody put it there
            raise ProtocolError("bytes before the encryption")
        self._encrypting = True
        self._write(b"S")
        self._loop.create_task(self._start_tls(context))

    async def _start_tls(self, context: ssl.SSLContext) -> None:
        assert self._transport is not None
        try:
            transport = await self._loop.start_tls(
                self._transport, self, context, server_side=True, ssl_handshake_timeout=10
            )
        except (OSError, ssl.SSLError) as error:
            self._listener.log.refused(self.peer, "", f"no encryption: {error}")
            self._close()
            return
        self._transport = transport
        self._encrypting = False
        self._advance()

    def _open(self, reader: Reader) -> None:
        while name := reader.text():
            self._given[name] = reader.text()
        listener, encrypted = self._listener, self._is_encrypted or is_loopback(self._host)
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
        if self._lost:
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
        self._write(self._login.begin())
        self._working = False
        if len(self._incoming):
            self._loop.call_soon(self._advance)

    @property
    def _user(self) -> str:
        return self._given.get("user", "")

    @property
    def _is_encrypted(self) -> bool:
        transport = self._transport
        return transport is not None and transport.get_extra_info("ssl_object") is not None

    def _login_took_too_long(self) -> None:
        self.refuse(PgError(NO_LOGIN, f"there was no login within {_LOGIN_SECONDS:g} s"))

    def refuse(self, error: IvmError | PgError) -> None:
        """Tells the client an error, and ends the connection."""
        if self._backend is None:
            self._listener.log.refused(self.peer, self._user, error)
            if isinstance(error, PgError) and error.code == BAD_LOGIN:
                self._listener.gate.failures.failed(self._host, self._user)
        with self._lock:
            self._closing = True
        told = error_fields(error)
        self._write(codec.fields(b"E", {**told, "S": "FATAL", "V": "FATAL"}))
        self._close()

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
                asks = not goes_on or self._lost or self._paused or self._listener.refusing
                frames = None if asks else self._taken()
                self._working = asks or frames is not None
            if asks:
                self._in_loop(partial(self._worked, goes_on))
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
                self._in_loop(partial(self.refuse, PgError(PROTOCOL, str(error))))
        except (PgError, IvmError) as error:
            self._in_loop(partial(self.refuse, error))
        except Exception as error:  # the client is told, and others are served
            LOG.exception("a fault of the server: please report it")
            self._in_loop(partial(self.refuse, ours(error)))
        return False

    def _worked(self, goes_on: bool) -> None:
        """A thread has done what it was given, and there is something to decide."""
        with self._lock:
            self._working, self._closing = False, self._closing or not goes_on
            lost = self._lost
        if lost:
            if self._backend is not None:
                self._backend.close()
        elif not goes_on:
            self._close()
        elif self._listener.refusing:
            self.take_leave()
        else:
            self._go_on_reading()
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
        assert self._number is not None
        listener = self._listener
        served = listener.pool.open(self._number, user, self.peer)
        settings = SessionSettings({"session_authorization": user.name, **self._wishes()})
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
        listener.log.login(served, "PostgreSQL's protocol")
        self.send(answer)
        backend.greet()
        self._backend, self._login = backend, None
        self._open_socket()
        if self._timer is not None:
            self._in_loop(self._timer.cancel)
        return True

    def _open_socket(self) -> None:
        """Lets threads write to the socket, if what is written is not encrypted."""
        transport = self._transport
        if transport is not None and not self._is_encrypted:
            with self._lock:
                if not self._lost:
                    self._socket = transport.get_extra_info("socket").fileno()
            self._in_loop(self._join_poller)

    def _wishes(self) -> dict[str, str]:
        """The settings that the client gave at its start, and that stand for themselves."""
        return {"application_name": self._given.get("application_name", "")}

    def send(self, data: bytes) -> None:
        """See `Client`."""
        with self._lock:
            if self._lost:
                raise ConnectionResetError("the client has left")
            written = 0
            if self._socket >= 0 and not self._queued:
                written = written_now(self._socket, data)
                if written == len(data):
                    return
            self._queued += 1
        rest = data[written:] if written else data
        self._in_loop(lambda: self._write_queued(rest))
        if len(rest) >= _LARGE:
            self._wait_for_reader()

    def _write_queued(self, data: bytes) -> None:
        self._write(data)
        transport = self._transport
        if self._socket < 0 or transport is None or not transport.get_write_buffer_size():
            with self._lock:
                self._queued = max(self._queued - 1, 0)
        else:
            self._loop.call_later(_MOMENT, self._write_queued, b"")

    def _wait_for_reader(self) -> None:
        written = threading.Event()
        self._in_loop(written.set)
        written.wait(60)
        while not self._writable.wait(0.5) and not self._lost:
            pass
        if self._lost:
            raise ConnectionResetError("the client has left")

    def _in_loop(self, call: Callable[[], object]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(call)

    # -- the end --------------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._lost:
            self._transport.write(data)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

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
        if self._transport is not None:
            self._transport.abort()

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


_LARGE = 1 << 17
_READ = 1 << 16  # bytes read at a time
_MOMENT = 0.005  # seconds
