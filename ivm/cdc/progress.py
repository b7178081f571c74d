"""How far a running source is, for SHOW SOURCES: written by its job, read by anybody."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime

from ivm.cdc.apply import Ingested
from ivm.cdc.sources.source import Batch, Reader

_WINDOW = 10.0  # seconds over which a rate is taken


class Progress:
    """The progress of one job.

    Attributes:
        state: `not started`, `starting`, `running`, or `waiting` for an upstream that does not
            answer.
        reason: of waiting; None otherwise.
        events: applied since the job began.
        caught_up: whether everything was applied that the upstream had a moment ago.
    """

    def __init__(self) -> None:
        self.state = "not started"
        self.reason: str | None = None
        self.events = 0
        self.caught_up = False
        self._reader: Reader | None = None
        self._time: datetime | None = None
        self._recent: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    def opened(self, reader: Reader) -> None:
        """The upstream answers."""
        self.state, self.reason, self._reader = "running", None, reader

    def applied(self, batch: Batch, done: Sequence[Ingested]) -> None:
        """A batch is committed."""
        self.events += sum(each.applied for each in done)
        self.caught_up = False
        self._time = batch.time or self._time
        self._recent.append((time.monotonic(), self.events))
        while len(self._recent) > 2 and self._recent[1][0] < time.monotonic() - _WINDOW:
            self._recent.popleft()

    def idle(self) -> None:
        """There is nothing to read."""
        self.caught_up = self._reader is not None and self._reader.caught_up()

    def waiting(self, reason: str) -> None:
        """The upstream does not answer."""
        self.state, self.reason, self.caught_up = "waiting", reason, False

    def closed(self) -> None:
        """The reader is about to be closed."""
        self._reader = None

    def started(self) -> None:
        """The job begins."""
        self.state = "starting"

    def ended(self) -> None:
        """The job has ended."""
        self.state, self.caught_up = "not started", False

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
