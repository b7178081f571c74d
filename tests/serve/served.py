"""`ivm serve` in a process of its own, over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.server_process import ServerProcess, free_ports


class Served(ServerProcess):
    """A served database.

    Args:
        folder: of its file.
        trusted: whether programs of this machine need no password.

    Attributes:
        url: of its HTTP side.
    """

    def __init__(self, folder: Path, *, trusted: bool = True) -> None:
        [port] = free_ports(1)
        super().__init__(folder / "server.log", port)
        self._file = folder / "shop.duckdb"
        self._trusted = trusted
        self.url = f"http://127.0.0.1:{port}"

    def command(self) -> list[str]:
        """See `ServerProcess.command`."""
        trust = ["--trust-loopback"] if self._trusted else []
        address = f"127.0.0.1:{self.port}"
        return [sys.executable, "-m", "ivm", "serve", str(self._file), "--http", address, *trust]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serves for the time of a block."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def sql(self, text: str) -> list[list[Any]]:
        """Runs SQL; returns the rows of the last statement."""
        answer = httpx.post(f"{self.url}/sql", json={"sql": text}, timeout=60)
        assert answer.status_code == 200, answer.text
        rows: list[list[Any]] = answer.json()["rows"]
        return rows
