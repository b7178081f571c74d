"""The address at which clients of PostgreSQL's protocol come in."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from pathlib import Path

from ivm.serve.access import Gate, is_loopback
from ivm.serve.pg.catalog.catalog import Catalog
from ivm.serve.pg.connection import PgConnection
from ivm.serve.pg.statements.describe import KnownParameters
from ivm.serve.pg.wire.poller import Poller
from ivm.serve.pool import SessionPool
from ivm.serve.settings import ServerSettings, address
from ivm.serve.statement_log import StatementLog
from ivm.serve.tls import server_context
from ivm.storage.errors import UnavailableError

_BACKLOG = 1024
_LOOKS = 1.0
_RECEIVED = 1 << 16  # bytes read at a time


class PgListener:
    """Listens for PostgreSQL's protocol; see `Listener`.

    Args:
        pool: the sessions of the server.
        log: of logins and statements.
        folder: for a certificate that the server makes.

    Attributes:
        connections: those that are open.
        gate: who may do what.
        catalog: answers queries about the catalog.
        known: remembers the types of parameters.
        tls: encrypts connections; None if they cannot be.
        poller: waits for the sockets of clients that are logged in.
        received: the bytes that have just come.
        refusing: nobody comes in any more, and who has nothing to do leaves.
    """

    def __init__(self, pool: SessionPool, log: StatementLog, folder: Path) -> None:
        self.pool = pool
        self.gate: Gate = pool.gate
        self.log = log
        self.catalog = Catalog(pool.database.path)
        self.known = KnownParameters()
        self.connections: set[PgConnection] = set()
        self.refusing = False
        self.poller: Poller | None = None
        self.received = memoryview(bytearray(_RECEIVED))
        self._folder = folder
        self.tls: ssl.SSLContext | None = server_context(pool.settings, folder)
        self._server: asyncio.Server | None = None
        self._watch: asyncio.Task[None] | None = None

    async def open(self) -> str:
        """See `Listener`."""
        host, port = address(self.pool.settings.pg)
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: PgConnection(self), host, port, backlog=_BACKLOG
            )
        except OSError as error:
            raise UnavailableError(
                f"the address {host}:{port} cannot be had ({error.strerror or error}): end what "
                "listens there, or choose another one"
            ) from error
        self.poller = Poller() if Poller.is_possible() else None
        self._watch = loop.create_task(self._send_idle_away())
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"postgresql://{host}:{port}"

    async def refuse(self) -> None:
        """See `Listener`."""
        self.refusing = True
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.take_leave()

    @property
    def busy(self) -> bool:
        """See `Listener`."""
        return any(connection.busy for connection in list(self.connections))

    async def close(self) -> None:
        """See `Listener`."""
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.abort()
        await asyncio.sleep(0)  # their transports call `connection_lost`
        if self.poller is not None:
            self.poller.end()

    def apply(self, settings: ServerSettings) -> None:
        """See `Listener`."""
        self.tls = server_context(settings, self._folder)
        self.log.apply(settings)

    def left(self, number: int) -> None:
        """A client has left."""
        self.pool.release(number)

    def trusts(self, host: str) -> bool:
        """Whether programs at an address need no password."""
        return self.pool.settings.trust == "loopback" and is_loopback(host)

    @property
    def demands_tls(self) -> bool:
        """Whether connections from other machines must be encrypted: always if they can be."""
        return self.tls is not None

    async def _send_idle_away(self) -> None:
        while True:
            await asyncio.sleep(_LOOKS)
            now, limit = time.monotonic(), self.pool.settings.idle_seconds
            for connection in list(self.connections):
                connection.look(now, limit)
