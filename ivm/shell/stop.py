"""Signals that ask a command which has no end of its own to stop.

Law: a handler runs between any two steps of the main thread, which may hold a lock of `threading`
just then: it takes none, and wakes whoever waits by a byte in a socket.
"""

from __future__ import annotations

import selectors
import signal
import socket
from types import FrameType
from typing import Any


class Stop:
    """The first SIGINT or SIGTERM asks to stop, a second one ends the process.

    Attributes:
        number: of the signal that has come; None before.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        self._came, self._coming = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._came, selectors.EVENT_READ)
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as in a script's background
                self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._selector.close()
        self._came.close()
        self._coming.close()

    def wait(self, seconds: float) -> bool:
        """Waits for a signal; returns whether one has come."""
        return bool(self._selector.select(seconds))

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        for each in self._before:
            signal.signal(each, signal.SIG_DFL)
        self._coming.send(b"\0")
