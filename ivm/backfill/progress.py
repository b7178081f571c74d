"""How far a first fill is: written by its job, read by anybody."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOT_RUNNING = "not running"
FAILED = "failed"


class FillProgress:
    """The progress of one fill.

    Attributes:
        phase: `waiting`, `starting Spark`, `exporting`, `stage`, `loading`, `catching up`, `done`,
            `failed` or `not running`.
        stage: the number of the stage under way, from 1, and `stages` how many there are.
        label: what the stage computes.
        rows: of the stages that are done, and `bytes` of their files.
        reason: why it has failed.
    """

    def __init__(self) -> None:
        self.phase = "waiting"
        self.stage = self.stages = self.rows = self.bytes = 0
        self.label = ""
        self.reason: str | None = None
        self._group = ""
        self._spark: SparkSession | None = None
        self._began = time.monotonic()
        self._resumed = 0

    def begin(self, phase: str) -> None:
        """Another phase begins."""
        self.phase = phase

    def begin_stages(self, spark: SparkSession, group: str, stages: int, done: int) -> None:
        """The stages begin, of which some were done by an earlier process."""
        self._spark, self._group, self.stages = spark, group, stages
        self._began, self._resumed = time.monotonic(), done
        self.phase = "stage"

    def begin_stage(self, number: int, label: str) -> None:
        """A stage begins."""
        self.stage, self.label = number, label

    def failed(self, reason: str) -> None:
        """The fill has failed."""
        self.phase, self.reason = FAILED, reason

    @property
    def fraction(self) -> float:
        """The part of all stages' tasks that is done, 0 to 1."""
        if self.phase != "stage":
            return 1.0 if self.phase in ("loading", "catching up", "done") else 0.0
        return (self.stage - 1 + self._of_stage()) / max(self.stages, 1)

    def _of_stage(self) -> float:
        """The part of the tasks that Spark knows of for the stage under way."""
        try:
            assert self._spark is not None
            tracker = self._spark.sparkContext.statusTracker()
            jobs = [tracker.getJobInfo(n) for n in tracker.getJobIdsForGroup(self._group)]
            parts = [tracker.getStageInfo(n) for job in jobs[-1:] if job for n in job.stageIds]
        except Exception:  # Spark Connect has no tracker, and a stopped session no answer
            return 0.0
        known = [part for part in parts if part is not None]
        tasks = sum(part.numTasks for part in known)
        return sum(part.numCompletedTasks for part in known) / tasks if tasks else 0.0

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far; None if that cannot be told yet."""
        done = self.fraction * self.stages - self._resumed
        if self.phase != "stage" or done <= 0.05:
            return None
        pace = (time.monotonic() - self._began) / done
        return pace * (1 - self.fraction) * self.stages

    def text(self) -> str:
        """The progress in words, for SHOW MATERIALIZED VIEWS."""
        if self.phase == FAILED:
            return f"failed: {self.reason}"
        if self.phase != "stage":
            return self.phase
        left = self.seconds_left
        rest = "" if left is None else f", {_duration(left)} left"
        return f"stage {self.stage} of {self.stages}, {self.fraction:.0%}{rest}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
