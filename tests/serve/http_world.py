"""A database served over HTTP from a thread of the test's process, on a port of its own."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

import ivm
from ivm.serve.http.listener import HttpListener
from ivm.serve.pool import SessionPool
from ivm.serve.settings import ServerSettings
from ivm.serve.users import Users


class HttpWorld:
    """A server, until `close`.

    Args:
        database: open; closed with the server.
        named: users as in `ivm.toml`.
        given: settings; trusted neighbours, unless they say otherwise.
    """

    def __init__(
        self, database: ivm.Database, named: Mapping[str, Any] | None = None, **given: Any
    ) -> None:
        self.database = database
        settings = ServerSettings(**{"http": "127.0.0.1:0", "trust": "loopback", **given})
        self.users = Users(database._engine, named or {})
        self.pool = SessionPool(database, self.users, settings)
        self.folder = Path(tempfile.mkdtemp())
        self._begun, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._begun.wait(20)
        self.url = f"http://127.0.0.1:{self.listener.port}"

    async def _serve(self) -> None:
        self.listener = HttpListener(self.pool, self.users, self.folder)
        try:
            await self.listener.open()
            self._begun.set()
            while not self._end.is_set():
                self.pool.look()
                await asyncio.sleep(0.05)
            await self.listener.refuse()
        finally:
            await self.listener.close()

    def client(self, **given: Any) -> httpx.Client:
        """A client of the server."""
        return httpx.Client(base_url=self.url, timeout=20, **given)

    def close(self) -> None:
        """Ends the server and closes the database."""
        self._end.set()
        self._thread.join(20)
        assert not self._thread.is_alive()
        self.pool.close()
        self.database.close()
