"""How far a running source is, for SHOW SOURCES: written by its job, read by anybody."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from ivm.cdc.apply import Applied
from ivm.cdc.sources.source import Batch, Position, Reader

Reached: TypeAlias = tuple[dict[str, int], int]
"""Positions by stream, and the number of dead letters."""

NOT_STARTED = "not started"
_WINDOW = 10.0  # seconds over which a rate is taken
FRESH = 5.0
"""Seconds for which a look at the upstream tells that all is applied."""


class Progress:
    """The progress of one job.

    Attributes:
        state: `not started`, `starting`, `running`, `waiting` for an upstream that does not answer,
            or `stopped` by an error.
        reason: why it waits or has stopped; None otherwise.
        events: applied since the source was started here.
        has_caught_up: whether that was so at some time since the job began.
    """

    def __init__(self) -> None:
        self.state = NOT_STARTED
        self.reason: str | None = None
        self.events = 0
        self.has_caught_up = False
        self._caught_up_at: float | None = None
        self._dead_letters: int | None = None
        self._offsets: dict[str, int] = {}
        self._changing = threading.Lock()  # guards `_offsets`, of which another thread takes a copy
        self._reader: Reader | None = None
        self._time: datetime | None = None
        self._recent: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    def opened(self, reader: Reader, positions: Mapping[str, Position], dead_letters: int) -> None:
        """The upstream answers, and the source goes on from these positions."""
        self.state, self.reason, self._reader = "running", None, reader
        self._dead_letters = dead_letters
        self._reach(positions)

    def applied(self, batch: Batch, done: Applied) -> None:
        """A batch is committed."""
        self.events += sum(each.applied for each in done.parts)
        self._dead_letters = (self._dead_letters or 0) + done.refused
        self._reach(batch.positions)
        self._time = batch.time or self._time
        self._recent.append((time.monotonic(), self.events))
        while len(self._recent) > 2 and self._recent[1][0] < time.monotonic() - _WINDOW:
            self._recent.popleft()

    def looked(self, caught_up: bool) -> None:
        """All that was read is applied; says whether that is all that the upstream had then."""
        self._caught_up_at = time.monotonic() if caught_up else None
        self.has_caught_up |= caught_up

    @property
    def caught_up(self) -> bool:
        """Whether everything was applied that the upstream had a moment ago."""
        at = self._caught_up_at
        return at is not None and time.monotonic() - at < FRESH

    def _reach(self, positions: Mapping[str, Position]) -> None:
        with self._changing:
            self._offsets.update((name, position.offset) for name, position in positions.items())

    def reached(self) -> Reached | None:
        """What the source has reached; None while no job that has begun knows it."""
        letters = self._dead_letters
        if letters is None:
            return None
        with self._changing:
            return dict(self._offsets), letters

    def waiting(self, reason: str) -> None:
        """The upstream does not answer."""
        self.state, self.reason, self._caught_up_at = "waiting", reason, None

    def closed(self) -> None:
        """The reader is about to be closed."""
        self._reader = None

    def started(self) -> None:
        """The job begins."""
        self.state = "starting"

    def goes_on(self, before: Progress) -> None:
        """Goes on counting where another job of the source has ended."""
        self.events = before.events
        self._recent = deque([(time.monotonic(), self.events)])

    def ended(self, error: str | None = None) -> None:
        """The job has ended, by an error or because it was told to."""
        self.state = NOT_STARTED if error is None else "stopped"
        self.reason, self._caught_up_at, self._dead_letters = error, None, None

    @property
    def lag_events(self) -> int | None:
        """About how many events the upstream has that are not applied; None if not known."""
        reader = self._reader
        return 0 if self.caught_up else None if reader is None else reader.lag()

    @property
    def lag_seconds(self) -> float | None:
        """The age of the newest applied change, if there are newer ones; None if not known."""
        if self.caught_up:
            return 0.0
        if self._time is None:
            return None
        return max((datetime.now(UTC) - self._time).total_seconds(), 0.0)

    @property
    def rate(self) -> float:
        """Events per second, over the last ten seconds."""
        since, before = self._recent[0]
        return (self.events - before) / max(time.monotonic() - since, 1e-3)
