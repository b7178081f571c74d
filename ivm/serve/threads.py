"""Threads that run what they are given: one after another as long as it is short, else beside it.

Invariant: work that waits gets a thread of its own once all that runs has run for a moment, so
nothing waits for long work or for what only later work can end. They are daemons: one that hangs
does not keep the process from ending.

Short statements are run by one thread: many would only hand the interpreter to each other, which
takes longer than the statements (measured: more than twice as long for look-ups of 50 clients).
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")

_log = logging.getLogger("ivm.serve")
_MOMENT = 0.002  # seconds after which work is no longer short


class Threads:
    """Threads of the server.

    Args:
        most: of them.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = self._idle = 0
        self._work: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._came = threading.Condition(self._lock)
        self._began: dict[int, float] = {}  # by thread, of the work that runs
        self._waits = threading.Event()
        self._ended = False
        threading.Thread(target=self._watch, name="ivm serve watch", daemon=True).start()

    def submit(self, work: Callable[[], None]) -> None:
        """Calls a function in one of the threads, soon."""
        with self._lock:
            self._work.append(work)
            if not self._began and len(self._work) == 1:
                self._wake()
                return
        self._waits.set()  # also if a thread was woken that has not yet taken the work before

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
        with self._lock:
            self._ended = True
            self._came.notify_all()
        self._waits.set()

    def _wake(self) -> None:
        """Lets one more thread take work; called with the lock."""
        if self._idle:
            self._came.notify()
        elif self._count < self._most:
            self._count += 1
            name = f"ivm serve {self._count}"
            threading.Thread(target=self._run, name=name, daemon=True).start()

    def _watch(self) -> None:
        """Gives waiting work a thread where all that runs is long."""
        while not self._ended:
            self._waits.wait()
            time.sleep(_MOMENT)
            with self._lock:
                if not self._work:
                    self._waits.clear()
                    continue
                latest = max(self._began.values(), default=0.0)
                if time.monotonic() - latest > _MOMENT:
                    self._wake()

    def _run(self) -> None:
        me = threading.get_ident()
        while (work := self._next(me)) is not None:
            try:
                work()
            except Exception:  # a fault of ours: the thread serves others
                _log.exception("a fault of the server: please report it")

    def _next(self, me: int) -> Callable[[], None] | None:
        with self._lock:
            self._began.pop(me, None)
            while not self._work:
                if self._ended:
                    return None
                self._idle += 1
                self._came.wait()
                self._idle -= 1
            self._began[me] = time.monotonic()
            return self._work.popleft()


def _fulfil(future: Future[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
