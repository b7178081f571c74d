"""The background jobs of one open database: threads that somebody started, and can see and stop.

Contract: a job is asked to stop without waiting for it; `close` waits for all. What a job could not
do is in its status.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Protocol, TypeAlias


class Job(Protocol):
    """A thread that works until it is told to stop."""

    def stop(self) -> None:
        """Asks it to end; returns at once."""

    def join(self, timeout: float) -> bool:
        """Waits for its end; returns whether it has ended."""


Make: TypeAlias = Callable[[str, Job | None], Job]


class Jobs:
    """The jobs by kind ("source", "sink") and name; safe for any number of threads."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], Job] = {}
        self._makers: dict[str, Make] = {}
        self._disowned: weakref.WeakSet[Job] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = False

    def run(self, kind: str, make: Make) -> None:
        """Runs jobs of this kind from now on, see `changed`.

        Args:
            kind: of job.
            make: starts the job of a name, which begins after the end of the one before, if any.
        """
        with self._lock:
            self._makers[kind] = make

    def runs(self, kind: str) -> bool:
        """Whether jobs of this kind are run."""
        return kind in self._makers

    def changed(self, kind: str, name: str) -> None:
        """Starts a job whose definition has changed; the old one, told to stop, ends by itself."""
        with self._lock:
            make, old = self._makers.get(kind), self._jobs.get((kind, name))
            if old is not None:
                old.stop()
            if make is None or self._closed:
                return
            self._jobs[kind, name] = make(name, old)

    def disown(self, kind: str, name: str) -> Job | None:
        """Stops the job of a definition that is gone, though another one may have its name now."""
        with self._lock:
            job = self._jobs.get((kind, name))
            if job is not None:
                job.stop()
                self._disowned.add(job)
        return job

    def has_definition(self, job: Job) -> bool:
        """Whether what a job was started for is still there; exact with the writer lock held."""
        with self._lock:
            return job not in self._disowned

    @property
    def closed(self) -> bool:
        """Whether all jobs were stopped for good: the database is being closed."""
        return self._closed

    def find(self, kind: str, name: str) -> Job | None:
        """The job, running or ended."""
        with self._lock:
            return self._jobs.get((kind, name))

    def stop(self, kind: str | None = None, timeout: float = 10.0) -> list[str]:
        """Stops jobs, those of one kind or all, and waits for their ends.

        Returns:
            The names of those that have not ended in time.
        """
        with self._lock:
            for known in [kind] if kind else list(self._makers):
                self._makers.pop(known, None)
            jobs = {key: job for key, job in self._jobs.items() if kind in (None, key[0])}
        for job in jobs.values():
            job.stop()
        end = time.monotonic() + timeout
        return [
            key[1] for key, job in jobs.items() if not job.join(max(end - time.monotonic(), 0.0))
        ]

    def close(self) -> None:
        """Stops all jobs for good."""
        self._closed = True
        self.stop()
