"""The background jobs of one open database: threads that somebody started, and can see and stop.

Contract: a job is asked to stop without waiting for it; `close` waits for all. What a job could not
do is in its status. The jobs of a kind are run by one at a time, who is referred to meanwhile.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol, TypeAlias


class Job(Protocol):
    """A thread that works until it is told to stop."""

    def stop(self) -> None:
        """Asks it to end; returns at once."""

    def join(self, timeout: float) -> bool:
        """Waits for its end; returns whether it has ended."""


Make: TypeAlias = Callable[[str, Job | None], Job]


class _Run(NamedTuple):
    """How jobs of a kind are started, and who wants it."""

    make: Make
    owner: object


class Jobs:
    """The jobs by kind ("source", "sink") and name; safe for any number of threads."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], Job] = {}
        self._runs: dict[str, _Run] = {}
        self._disowned: weakref.WeakSet[Job] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._closed = False

    def run(self, kind: str, make: Make, owner: object = None) -> bool:
        """Runs jobs of this kind from now on, see `changed`.

        Args:
            kind: of job.
            make: starts the job of a name, which begins after the end of the one before, if any.
            owner: who runs them, see `stop_of`; None for the database itself.

        Returns:
            False if they are run already, which stays as it is.
        """
        mine = _Run(make, owner)
        with self._lock:
            return self._runs.setdefault(kind, mine) is mine

    def runs(self, kind: str) -> bool:
        """Whether jobs of this kind are run."""
        return kind in self._runs

    def changed(self, kind: str, name: str) -> None:
        """Starts a job whose definition has changed; the old one, told to stop, ends by itself."""
        with self._lock:
            run, old = self._runs.get(kind), self._jobs.get((kind, name))
            if old is not None:
                old.stop()
            if run is None or self._closed:
                return
            self._jobs[kind, name] = run.make(name, old)

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
            every = {*self._runs, *[kind for kind, _ in self._jobs]}
            jobs = self._told_to_stop([kind] if kind else every)
        return _unended(jobs, timeout)

    def stop_of(self, owner: object, timeout: float = 10.0) -> list[str]:
        """The same for the jobs that somebody runs, and nobody else."""
        with self._lock:
            jobs = self._told_to_stop({k for k, run in self._runs.items() if run.owner == owner})
        return _unended(jobs, timeout)

    def _told_to_stop(self, kinds: Collection[str]) -> list[tuple[str, Job]]:
        for kind in kinds:
            self._runs.pop(kind, None)
        jobs = [(name, job) for (kind, name), job in self._jobs.items() if kind in kinds]
        for _, job in jobs:
            job.stop()
        return jobs

    def close(self) -> None:
        """Stops all jobs for good."""
        self._closed = True
        self.stop()


def _unended(jobs: Sequence[tuple[str, Job]], timeout: float) -> list[str]:
    """Waits for the ends of jobs; the names of those that have not ended in time."""
    end = time.monotonic() + timeout
    return [name for name, job in jobs if not job.join(max(end - time.monotonic(), 0.0))]
