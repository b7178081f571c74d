"""A transaction that expires when it is idle for too long while others wait for its lock.

Contract: it does not expire while a statement runs, and no statement begins after it has expired.
"""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

from ivm.engine.base.writer_lock import WriterLock
from ivm.storage.errors import UnavailableError


class IdleTimeout(ABC):
    """What the writer lock asks of its holder, see `Holder`; as a context manager, a statement.

    Args:
        lock: knows how long a transaction may be idle.

    Attributes:
        over: why the transaction is over; None if it is open.
        way_out: what is to be done then.
        is_forgotten: whether nobody can go on with it.
    """

    def __init__(self, lock: WriterLock) -> None:
        self._lock = lock
        self._last_used = time.monotonic()
        self._busy = threading.RLock()
        self.over: str | None = None
        self.way_out = "begin again"
        self.is_forgotten: Callable[[], bool] = lambda: False

    @abstractmethod
    def rollback(self) -> None:
        """Undoes the transaction, and releases the lock."""

    def idle_seconds(self) -> float:
        """The seconds since the end of the last statement; endless if no other can come."""
        return math.inf if self.is_forgotten() else time.monotonic() - self._last_used

    def expire(self) -> None:
        """Rolls back from a waiter's thread, unless a statement is running."""
        if not self._busy.acquire(blocking=False):  # a statement of another thread holds it
            return
        try:
            limit = self._lock.idle_limit
            # Once more, now that no statement can begin: one may have ended just before.
            if self.over is None and self.idle_seconds() > limit:
                self.rollback()
                self.over = (
                    f"the transaction did nothing for {limit:g} s while others waited, and was "
                    "rolled back"
                )
        finally:
            self._busy.release()

    def __enter__(self) -> Self:
        """Begins a statement."""
        self._busy.acquire()
        if self.over is not None:
            self._busy.release()
            raise UnavailableError(f"{self.over}: {self.way_out}")
        return self

    def __exit__(self, *exc: object) -> None:
        self._last_used = time.monotonic()
        self._busy.release()
