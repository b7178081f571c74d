"""A listener in this process, for tests that need its gate, its sessions, or many connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ivm
from ivm.serve.access import Gate, NoUsers
from ivm.serve.pg.listener import PgListener
from ivm.serve.pool import SessionPool
from ivm.serve.settings import ServerSettings
from ivm.serve.statement_log import StatementLog


@dataclass
class Listening:
    """A listener, the sessions of its clients, and the loop that runs it."""

    listener: PgListener
    pool: SessionPool
    loop: asyncio.AbstractEventLoop
    port: int

    def dsn(self, user: str = "ann") -> str:
        """How libpq reaches it."""
        return f"host=127.0.0.1 port={self.port} user={user} dbname=shop connect_timeout=30"

    def raw(self, user: str = "ann") -> socket.socket:
        """A connection that has sent its first message, as a socket."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        client.sendall(startup(user))
        return client


def startup(user: str = "ann") -> bytes:
    """The first message of a connection."""
    body = struct.pack("!i", 3 << 16) + f"user\0{user}\0database\0shop\0\0".encode()
    return struct.pack("!i", len(body) + 4) + body


@contextlib.contextmanager
def listening(
    database: ivm.Database, folder: Path, settings: ServerSettings, gate: Gate | None = None
) -> Iterator[Listening]:
    """A listener on a free port for the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    pool = SessionPool(database, gate or NoUsers(), settings)
    listener = PgListener(pool, StatementLog(settings), folder)
    try:
        told = asyncio.run_coroutine_threadsafe(listener.open(), loop).result(30)
        yield Listening(listener, pool, loop, int(told.rpartition(":")[2]))
    finally:
        asyncio.run_coroutine_threadsafe(listener.close(), loop).result(30)
        pool.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
