"""What Spark's tasks did, from its status store: seconds and bytes, summed over all tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Tasks:
    """Sums over the tasks of some of Spark's stages.

    Attributes:
        scan: seconds of stages that read no shuffle, with all that Spark computes in one pass.
        state: seconds of stages that read one.
        exchange: seconds of writing shuffles and of waiting for them, which are in neither.
        shuffled: bytes written to shuffles.
        written: bytes of files.
    """

    scan: float = 0
    state: float = 0
    exchange: float = 0
    shuffled: int = 0
    written: int = 0


class StatusStore:
    """Spark's stages; each is told once."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._gateway = context._gateway
        self._store = context._jsc.sc().statusStore()
        self._told = -1

    def tasks(self) -> Tasks:
        """What was done by the stages that ended since the last call."""
        found, new = Tasks(), self._told
        quantiles = self._gateway.new_array(self._gateway.jvm.double, 0)
        listed = self._store.stageList(None, False, False, quantiles, None)
        for i in range(listed.size()):
            stage = listed.apply(i)
            if stage.stageId() > self._told and str(stage.status()) == "COMPLETE":
                new = max(new, stage.stageId())
                _add(found, stage)
        self._told = new
        return found


def _add(found: Tasks, stage: Any) -> None:
    exchange = stage.shuffleWriteTime() / 1e9 + stage.shuffleFetchWaitTime() / 1e3
    rest = max(stage.executorRunTime() / 1e3 - exchange, 0.0)
    if stage.shuffleReadBytes():
        found.state += rest
    else:
        found.scan += rest
    found.exchange += exchange
    found.shuffled += stage.shuffleWriteBytes()
    found.written += stage.outputBytes()
