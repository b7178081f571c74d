"""The ticking of the clock: a thread that commits what is due, each time as an epoch.

Contract: a tick waits for the writer lock as long as the next tick is away, and is left out where
it does not get it; the next one, which begins at once, makes up for it. So it is had however long
the commits of others take. A tick that fails is tried again, and the next caller gets the error.
"""

from __future__ import annotations

import contextlib
import threading

from ivm.engine.base.jobs import Job
from ivm.engine.engine import Engine
from ivm.engine.opening.expired_rows import expire
from ivm.engine.transactions.background_commits import commit_own
from ivm.storage.errors import UnavailableError
from ivm.storage.log.change import TableChange
from ivm.storage.warehouse.duckdb.duck import Cursor

KIND = "clock"
_WORK = "the ticking of the clock"
RETAINED = 1.0
"""Seconds between two looks at what is older than its table keeps it, or idle."""
_AGAIN = 1.0  # seconds after a failure
_LONGEST = 60.0  # seconds: the system's clock may have been set meanwhile


def tick(engine: Engine, cursor: Cursor, patience: float) -> bool:
    """Commits what is due: the change of the clock and of watermarks that follow it, then the
    removal of rows that are too old.

    Args:
        engine: of the database.
        cursor: of the caller's own.
        patience: seconds to wait for the writer lock, each time.

    Returns:
        False if another transaction held the lock all that time.
    """

    def due() -> list[TableChange]:
        return [*engine.clock.due(cursor), *engine.watermarks.idle(engine.clock.second())]

    return commit_own(engine, cursor, patience, due) and expire(engine, cursor, patience)


class ClockJob:
    """The thread; see `Job`.

    Args:
        engine: of the database.
        after: the job before, which may not have ended yet.
    """

    def __init__(self, engine: Engine, after: Job | None) -> None:
        self._engine = engine
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, args=(after,), name="ivm-clock")
        self._thread.daemon = True
        self._thread.start()

    def stop(self) -> None:
        """See `Job`."""
        self._stopped = True
        self._wake.set()

    def join(self, timeout: float) -> bool:
        """See `Job`."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def changed(self) -> None:
        """Notes that other ticks may be read from now on; returns at once."""
        self._wake.set()

    def _run(self, after: Job | None) -> None:
        while after is not None and not after.join(_LONGEST):
            pass
        with contextlib.closing(self._engine.warehouse.cursor()) as cursor:
            while not self._stopped:
                self._wake.clear()
                self._wait(self._tick(cursor))

    def _tick(self, cursor: Cursor) -> float | None:
        """Ticks, and returns the seconds until the next time; None if nothing reads the clock."""
        engine = self._engine
        try:
            pause = self._pause()
            done = tick(engine, cursor, 0.0 if pause is None else pause)
            engine.warehouse.troubles.remove(_WORK)
            return self._pause() if done or not pause else 0.0
        except UnavailableError as error:
            if engine.log.fault is None and not self._stopped:
                engine.warehouse.troubles.add(_WORK, error)
        except Exception as error:
            if not self._stopped:
                engine.warehouse.troubles.add(_WORK, error)
        return _AGAIN

    def _pause(self) -> float | None:
        pause = self._engine.clock.pause()
        if not self._engine.retention.rules and not self._engine.watermarks.follow_the_clock:
            return pause
        return RETAINED if pause is None else min(pause, RETAINED)

    def _wait(self, pause: float | None) -> None:
        self._wake.wait(None if pause is None else min(pause, _LONGEST))


def run_clock(engine: Engine) -> None:
    """Lets the clock tick from now on, while something reads it."""

    watermarks = engine.watermarks

    def make(name: str, before: Job | None) -> ClockJob:
        return ClockJob(engine, before)

    def changed() -> None:
        job = engine.jobs.find(KIND, KIND)
        if isinstance(job, ClockJob):
            job.changed()
        elif engine.clock.ticks() or engine.retention.rules or watermarks.follow_the_clock:
            engine.jobs.changed(KIND, KIND)

    engine.jobs.run(KIND, make)
    engine.clock.changed = changed
    changed()
