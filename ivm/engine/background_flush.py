"""The background flush: brings DuckDB up to the log at thresholds, without a reader.

Contract: it does what the next read would do, only earlier. A flush that fails is tried again, and
the next caller gets its error. It takes as long as many changes, and half of the machine: as long
as changes come one after the other it waits for the end of them, unless too much is pending.
"""

from __future__ import annotations

import threading
import time

from ivm.engine.engine import Engine
from ivm.storage.log.commit import Commit

MAX_ROWS = 1_000_000  # pending ones from which on it begins, once no writer is at work
MOST_ROWS = 2_000_000  # pending ones from which on it begins beside a writer
PAUSE = 0.05  # seconds without a change after which no writer is at work
MAX_AGE = 10.0  # seconds
AGAIN = 1.0  # seconds after a failure

_WORK = "bringing the tables up to date"


class BackgroundFlush:
    """A thread that flushes when enough rows are pending, or have been for enough seconds.

    Args:
        engine: the engine whose pending deltas are flushed.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._wake = threading.Event()
        self._stopped = False
        self._due: float | None = None
        self._rows, self._changed = 0, 0.0
        engine.be_followed_by(self)
        self._thread = threading.Thread(target=self._run, name="ivm-flush", daemon=True)
        self._thread.start()

    def follow(self, commit: Commit) -> None:
        """Notes how many rows are pending after a commit."""
        self.noticed(self._engine.pending.rows)

    def noticed(self, rows: int) -> None:
        """Notes how many rows are pending."""
        self._rows, self._changed = rows, time.monotonic()
        if self._due is None:
            self._due = self._changed + MAX_AGE
        if rows > MAX_ROWS:
            self._wake.set()

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait(timeout=1.0)
            if self._stopped or not (self._wake.is_set() or self._is_old()):
                continue
            self._wake.clear()
            while not self._stopped and self._rows <= MOST_ROWS and self._is_written():
                time.sleep(PAUSE / 2)
            if not self._stopped:
                self._due = None
                self._flush()

    def _is_old(self) -> bool:
        return self._due is not None and time.monotonic() > self._due

    def _is_written(self) -> bool:
        """Returns whether a writer is at work, and nothing has been pending for too long."""
        at_work = self._engine.writer_lock.held or time.monotonic() - self._changed < PAUSE
        return at_work and not self._is_old()

    def _flush(self) -> None:
        engine = self._engine
        try:
            engine.tables.flush()
            engine.warehouse.troubles.remove(_WORK)
        except Exception as error:
            if not engine.log.diverged:  # else every call raises that error by itself
                engine.warehouse.troubles.add(_WORK, error)
                self._due = time.monotonic() + AGAIN

    def stop(self) -> None:
        """Ends the thread, and waits for a flush that is under way."""
        self._stopped = True
        self._wake.set()
        self._thread.join()
