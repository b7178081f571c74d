"""The HTTP side of a server: uvicorn on one address, under the server's own life and signals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ivm.serve.http.app import app_of
from ivm.serve.http.endpoint import Served
from ivm.serve.http.feeds import Hub
from ivm.serve.http.measures import Measures
from ivm.serve.http.runs import Runner
from ivm.serve.http.sessions import HeldSessions
from ivm.serve.pool import SessionPool
from ivm.serve.settings import ServerSettings, address
from ivm.serve.tls import server_context
from ivm.serve.users import Users
from ivm.storage.errors import UnavailableError

_log = logging.getLogger("ivm.serve")
HEAD_SECONDS = 10.0
"""After which a connection is closed whose next request has not come."""
_HEAD_BYTES = 64 << 10
_KEEP_ALIVE = 75  # seconds between two requests of a connection
_SPARE = 200  # connections beside those with a session or a feed
_LOOK = 1.0
_BEGIN = 10.0  # seconds


class _Protocol(H11Protocol):
    """Closes connections whose request does not come: each costs little, but many do."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has come."""
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Something of a request, or more, has come."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._late is None:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has left."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._late = self.loop.call_later(HEAD_SECONDS, self._close_late)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close_late(self) -> None:
        self._late = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            _log.warning("%s: closed: no request came for %g s", self.client, HEAD_SECONDS)
            self.transport.close()


class _Uvicorn(uvicorn.Server):
    """uvicorn without signal handlers of its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leaves signals to the server."""
        yield


class HttpListener:
    """See `Listener`.

    Args:
        pool: the sessions of all clients.
        users: who may do what.
        folder: for a certificate that the server makes.
    """

    def __init__(self, pool: SessionPool, users: Users, folder: Path) -> None:
        self._pool = pool
        self._context: ssl.SSLContext | None = server_context(pool.settings, folder)
        hub = Hub(pool.database, pool.threads)
        held = HeldSessions(pool)
        self._served = Served(pool.database, pool, users, Runner(pool), held, hub, Measures())
        self.port = 0

    async def open(self) -> str:
        """Listens; returns the address for the log.

        Raises:
            UnavailableError: the address cannot be had.
        """
        host, port = address(self._pool.settings.http)
        try:
            listening = _listening(host, port)
        except OSError as error:
            raise UnavailableError(
                f"{host}:{port} cannot be listened on: {error.strerror or error}"
            ) from error
        self.port = listening.getsockname()[1]
        self._server = _Uvicorn(self._config())
        self._serving = asyncio.ensure_future(self._server.serve([listening]))
        end = time.monotonic() + _BEGIN
        while not self._server.started and not self._serving.done() and time.monotonic() < end:
            await asyncio.sleep(0.01)
        if not self._server.started:
            raise UnavailableError(f"the HTTP side on {host}:{port} does not start")
        self._looking = asyncio.ensure_future(self._look())
        return f"http{'s' if self._context else ''}://{host}:{self.port}"

    def _config(self) -> uvicorn.Config:
        settings = self._pool.settings
        config = uvicorn.Config(
            app_of(self._served),
            http=_Protocol,
            ws="websockets-sansio",
            ws_max_size=1 << 16,
            lifespan="off",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            h11_max_incomplete_event_size=_HEAD_BYTES,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=max(int(settings.grace_seconds), 1),
            limit_concurrency=settings.connections + settings.subscribers + _SPARE,
        )
        config.load()
        config.ssl = self._context
        return config

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            now = time.monotonic()
            self._served.held.look(now)
            self._served.hub.look(now)

    async def refuse(self) -> None:
        """Takes no more clients; feeds end, and their clients come back later."""
        self._served.hub.close()
        self._server.should_exit = True

    @property
    def busy(self) -> bool:
        """See `Listener`."""
        return bool(self._server.server_state.tasks)

    async def close(self) -> None:
        """Closes the connections that are left."""
        if not hasattr(self, "_serving"):
            return
        self._looking.cancel()
        self._served.held.close_all()
        self._served.hub.close()
        self._server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await self._serving

    def apply(self, settings: ServerSettings) -> None:
        """Takes other settings: the limits are asked for in the pool; address and TLS stay."""


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named: asyncio sets TCP_NODELAY by it, without which each answer takes 40 ms.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # clients can go without a word
    try:
        found.bind((host, port))
    except OSError:
        found.close()
        raise
    found.setblocking(False)
    return found
