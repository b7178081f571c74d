"""The background flush: DuckDB follows the log at thresholds, without a reader.

Law: it only does what a read would do, earlier; a failure stays pending and is met by the next
read, which tells its caller.
"""

from __future__ import annotations

import threading
import time

import duckdb

from ivm.engine import Engine
from ivm.storage.errors import IvmError

MAX_ROWS = 1_000_000
MAX_AGE = 10.0  # seconds
BACKLOG = 4  # times MAX_ROWS pending: writers wait for the flush


class Flusher:
    """A thread that flushes when enough rows or enough seconds have gathered.

    Args:
        engine: what to flush.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._wake = threading.Event()
        self._stopped = False
        self._due: float | None = None
        engine.on_pending = self.noticed
        self._thread = threading.Thread(target=self._run, name="ivm-flush", daemon=True)
        self._thread.start()

    def noticed(self, rows: int) -> None:
        """A commit left this many rows pending."""
        if self._due is None:
            self._due = time.monotonic() + MAX_AGE
        if rows > BACKLOG * MAX_ROWS:
            self._engine.flush()
        elif rows > MAX_ROWS:
            self._wake.set()

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait(timeout=1.0)
            old = self._due is not None and time.monotonic() > self._due
            if self._stopped or not (self._wake.is_set() or old):
                continue
            self._wake.clear()
            self._due = None
            try:
                self._engine.flush()
            except (duckdb.Error, IvmError):
                time.sleep(1.0)  # what could not be flushed is pending still

    def stop(self) -> None:
        """Let the thread end."""
        self._stopped = True
        self._wake.set()
        self._thread.join()
