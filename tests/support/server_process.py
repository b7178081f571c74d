"""A server for tests that is one process and listens on a port of this machine.

Contract: it keeps its data when it is stopped and started; `start` returns when it answers.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

WAIT = 60.0
"""Seconds after which a server is taken for one that hangs."""


_PORTS = range(15_000, 32_000)
"""Below those that the system gives to clients: between here and its start, none takes a port."""


def free_ports(count: int) -> list[int]:
    """Ports of this machine on which nobody listens, other ones in each process."""
    found: set[int] = set()
    while len(found) < count:
        port = secrets.choice(_PORTS)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.add(port)
    return list(found)


class ServerProcess(ABC):
    """A server.

    Args:
        output: the file that gets what it prints.
        port: on which it is to listen.

    Attributes:
        port: on 127.0.0.1.
    """

    def __init__(self, output: Path, port: int) -> None:
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port

    @abstractmethod
    def command(self) -> list[str]:
        """The program and its arguments."""

    @property
    def runs(self) -> bool:
        """Whether it is started."""
        return self._process is not None

    def start(self) -> None:
        """Starts it and waits until it answers.

        Raises:
            RuntimeError: it does not; with the last that it has printed.
        """
        command = self.command()
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        until = time.monotonic() + WAIT
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                said = self._output.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{command[0]} does not start: {said}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Stops it in order."""
        if self._process is not None:
            self._process.terminate()
            self._ended(self._process)

    def kill(self) -> None:
        """Stops it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._ended(self._process)

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """It keeps its connections open, and does nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _ended(self, process: subprocess.Popen[bytes]) -> None:
        process.wait(WAIT)
        self._process = None

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True
