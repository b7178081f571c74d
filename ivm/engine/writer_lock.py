"""The writer lock: it knows its owner, and can be taken from an idle transaction.

Invariant: at most one session owns the lock; only the owner changes tables. A session that holds
it in an open transaction and does nothing for `idle_limit` seconds loses it to a waiter.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

from ivm.storage.errors import UnavailableError
from ivm.storage.interrupts import check


class Holder(Protocol):
    """A session as the lock sees it."""

    def idle_seconds(self) -> float:
        """Seconds since it last did something; 0 while it is doing something."""

    def expire(self) -> None:
        """Roll its transaction back, from another thread."""

    def rollback(self) -> None:
        """Undo the transaction and release the lock."""


class WriterLock:
    """The writers' lock.

    Args:
        idle_limit: seconds an open transaction may do nothing while others wait.
        wait_limit: seconds a writer waits before it gives up.
    """

    def __init__(self, idle_limit: float = 60.0, wait_limit: float = 300.0) -> None:
        self.idle_limit = idle_limit
        self.wait_limit = wait_limit
        self._lock = threading.Lock()
        self._owner: Holder | None = None
        self._closed: str | None = None

    def acquire(self, session: Holder) -> None:
        """Wait for the lock.

        Raises:
            UnavailableError: another transaction held it longer than `wait_limit`, or the database
                has been closed meanwhile.
        """
        if not self._lock.acquire(blocking=False):
            self._wait()
        self._owner = session
        if self._closed is not None:
            self.release()
            raise UnavailableError(self._closed)

    def _wait(self) -> None:
        end = time.monotonic() + self.wait_limit
        while not self._lock.acquire(timeout=min(self.idle_limit, 0.25)):
            check()
            if self._closed is not None:
                raise UnavailableError(self._closed)
            owner = self._owner
            if owner is not None and owner.idle_seconds() > self.idle_limit:
                owner.expire()
            elif time.monotonic() > end:
                raise UnavailableError(
                    f"another transaction has been open for more than {self.wait_limit:g} s: "
                    "commit or roll it back, then try again"
                )

    def close(self, reason: str) -> None:
        """Nobody gets it any more."""
        self._closed = reason

    def end(self) -> None:
        """Undo what a thread that is gone has left open."""
        if self._owner is not None:
            self._owner.rollback()

    def release(self) -> None:
        """Release the lock (called by its owner, or for it by `expire`)."""
        self._owner = None
        self._lock.release()
