"""Threads that run what they are given, as many as there is to run at one time.

Invariant: work never waits for a thread as long as there are fewer than the most. They are daemons:
one that hangs does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")

_log = logging.getLogger("ivm.serve")


class Threads:
    """Threads of the server.

    Args:
        most: of them.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = self._idle = 0
        self._lock = threading.Lock()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def submit(self, work: Callable[[], None]) -> None:
        """Calls a function in one of the threads, now or when one is free."""
        with self._lock:
            starts = not self._idle and self._count < self._most
            if starts:
                self._count += 1
            elif self._idle:
                self._idle -= 1
        self._work.put(work)
        if starts:
            name = f"ivm serve {self._count}"
            threading.Thread(target=self._run, name=name, daemon=True).start()

    async def call(self, work: Callable[[], T]) -> T:
        """Calls a function in one of the threads, and waits for what it returns or raises."""
        future: Future[T] = Future()
        self.submit(lambda: _fulfil(future, work))
        return await asyncio.wrap_future(future)

    def raise_most(self, most: int) -> None:
        """Allows more threads from here on; there are never fewer."""
        self._most = max(self._most, most)

    def end(self) -> None:
        """Ends the threads once they have done what they were given."""
        for _ in range(self._count):
            self._work.put(None)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception:  # a fault of ours: the thread serves others
                _log.exception("a fault of the server: please report it")
            with self._lock:
                self._idle += 1


def _fulfil(future: Future[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
