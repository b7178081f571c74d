"""The writer lock, which a waiter can take from an idle transaction.

Invariant: at most one transaction holds the lock, and only its holder changes tables. An open
transaction without a statement for `idle_limit` seconds is rolled back for a waiter.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

from ivm.storage.errors import UnavailableError
from ivm.storage.interrupts import check

_COURTESY = 0.02  # seconds at most to let others go first


class Holder(Protocol):
    """A transaction for the lock that it holds."""

    def idle_seconds(self) -> float:
        """The seconds since its last statement."""

    def expire(self) -> None:
        """Rolls back, called by another thread, unless a statement is running."""

    def rollback(self) -> None:
        """Undoes the transaction and releases the lock."""


class WriterLock:
    """The writers' lock.

    Args:
        idle_limit: seconds that an open transaction may be idle while others wait.
        wait_limit: seconds after which a waiting writer fails.
    """

    def __init__(self, idle_limit: float = 60.0, wait_limit: float = 300.0) -> None:
        self.idle_limit = idle_limit
        self.wait_limit = wait_limit
        self._lock = threading.Lock()
        self._owner: Holder | None = None
        self._closed: str | None = None
        self._waiting = 0

    @property
    def held(self) -> bool:
        """Whether somebody holds the lock at this moment."""
        return self._lock.locked()

    def acquire(self, session: Holder) -> None:
        """Waits for the lock.

        Raises:
            UnavailableError: another transaction held it longer than `wait_limit`, or the database
                has been closed meanwhile.
        """
        if not self._lock.acquire(blocking=False):
            self._waiting += 1
            try:
                self._wait()
            finally:
                self._waiting -= 1
        self._owner = session
        if self._closed is not None:
            self.release()
            raise UnavailableError(self._closed)

    def acquire_if_free(self, session: Holder) -> bool:
        """Acquires the lock unless somebody holds it or waits for it; returns whether it has."""
        if self._waiting or self._closed is not None or not self._lock.acquire(blocking=False):
            return False
        self._owner = session
        return True

    def acquire_within(self, session: Holder, seconds: float) -> bool:
        """Waits for the lock at most that long; returns whether it has it. Nobody expires."""
        self._waiting += 1
        try:
            acquired = self._lock.acquire(timeout=seconds)
        finally:
            self._waiting -= 1
        if acquired and self._closed is not None:
            self._lock.release()
            return False
        if acquired:
            self._owner = session
        return acquired

    def pass_to(self, session: Holder) -> None:
        """Lets the owner's lock be another one's."""
        self._owner = session

    def _wait(self) -> None:
        end = time.monotonic() + self.wait_limit
        # In short waits: an interrupt, the closing and an idle owner are noticed between them.
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

    def give_way(self) -> None:
        """Lets those who wait go first, called by a writer that writes again and again.

        A released lock goes to whoever asks next, which would be that writer.
        """
        end = time.monotonic() + _COURTESY
        while self._waiting and time.monotonic() < end:
            time.sleep(_COURTESY / 100)

    def close(self, reason: str) -> None:
        """Refuses the lock from here on, also to waiting writers."""
        self._closed = reason

    def end(self) -> None:
        """Rolls back the transaction that holds the lock, left open by a thread that has ended."""
        owner = self._owner
        if owner is not None:
            owner.rollback()

    def release(self) -> None:
        """Releases the lock (called by its owner, or for it by `expire`)."""
        self._owner = None
        self._lock.release()
