"""Threads that work in the background, so that no commit pays for it.

Contract: a job changes nothing that can be seen, but how fast it is. One whose owner is gone is not
done. Long jobs have a thread of their own: a short one that waited for them would come too late.

A long job takes half of the machine, and may give way to one that does the work of several: so it
waits as long as further ones come, unless it must not, and for `MOST_AGE` at most.
"""

from __future__ import annotations

import atexit
import heapq
import itertools
import threading
import time
import weakref
from collections.abc import Callable

LONG_ROWS = 200_000
"""The rows from which on a job is long: merging so many takes some 50 ms."""
PAUSE = 0.05  # seconds without a further long job after which no writer is at work
MOST_AGE = 1.0  # seconds


class Worker:
    """A thread that does jobs, those of fewer rows first; it begins with the first one.

    Args:
        name: of the thread.
        pause: seconds without a further job for which those that can wait do.
    """

    def __init__(self, name: str, pause: float) -> None:
        self._name = name
        self._pause = pause
        self._waiting: list[tuple[int, int, weakref.WeakMethod[Callable[[], None]]]] = []
        self._turn = itertools.count()
        self._latest = self._due = 0.0  # when those that wait are done, at the latest and if quiet
        self._changed = threading.Condition()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def put(self, job: Callable[[], None], rows: int, *, urgent: bool = False) -> None:
        """Takes a job.

        Args:
            job: a method, of an object that the caller holds; it must not raise.
            rows: on which it works.
            urgent: it waits for no further ones.
        """
        with self._changed:
            now = time.monotonic()
            if urgent:
                self._latest = now
            elif not self._waiting:
                self._latest = now + MOST_AGE
            heapq.heappush(self._waiting, (rows, next(self._turn), weakref.WeakMethod(job)))
            self._due = min(now + self._pause, self._latest)
            self._changed.notify()
            if self._thread is None or not self._thread.is_alive():  # a forked child has no thread
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
                atexit.register(self._stop, self._thread)

    def _stop(self, thread: threading.Thread) -> None:
        """Ends the thread before the interpreter unloads its modules."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        thread.join()

    def _work(self) -> None:
        while (reference := self._next()) is not None:
            job = reference()
            if job is not None:
                job()
            del job  # or the thread itself would hold its owner while it waits

    def _next(self) -> weakref.WeakMethod[Callable[[], None]] | None:
        """The next job once it is due; None at the end."""
        with self._changed:
            while not self._stopped:
                left = self._due - time.monotonic()
                if self._waiting and left <= 0:
                    return heapq.heappop(self._waiting)[2]
                self._changed.wait(left if self._waiting else None)
        return None


_short, _long = Worker("ivm-merger", 0), Worker("ivm-long-merger", PAUSE)


def do_aside(job: Callable[[], None], rows: int, *, urgent: bool = False) -> None:
    """Has a job done in the background; see `Worker.put`."""
    (_short if rows < LONG_ROWS else _long).put(job, rows, urgent=urgent)


def do_later(job: Callable[[], None], rows: int) -> None:
    """Has a job done that can wait, also a short one, in the background."""
    _long.put(job, rows)
