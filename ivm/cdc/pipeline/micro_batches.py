"""The micro-batches of one query of Spark's, each held until it is applied.

Law: `receive` returns once the micro-batch is applied, and raises if it never will be.

Spark's gateway keeps what it has been given to call until the end of the process, so that refers
to nothing of the database.
"""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOOK = 0.1  # seconds


class NotAppliedError(Exception):
    """The pipeline was closed before a micro-batch was applied."""


@dataclass(frozen=True)
class MicroBatch:
    """Rows for which Spark waits.

    Attributes:
        frame: they, to be computed.
        number: of the micro-batch.
        applied: set when Spark may go on.
    """

    frame: DataFrame
    number: int
    applied: threading.Event = field(default_factory=threading.Event)


class MicroBatches:
    """Hands micro-batches from Spark's thread to the one that reads."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[MicroBatch] = queue.Queue()
        self._closed = threading.Event()

    def receive(self, frame: DataFrame, number: int) -> None:
        """For `foreachBatch`: called by Spark, in a thread of its own.

        Raises:
            NotAppliedError: see there.
        """
        given = MicroBatch(frame, number)
        self._waiting.put(given)
        while not given.applied.wait(_LOOK):
            if self._closed.is_set():
                raise NotAppliedError

    def take(self, timeout: float) -> MicroBatch | None:
        """The next one; None if none has come in so many seconds."""
        try:
            return self._waiting.get(timeout=timeout)
        except queue.Empty:
            return None

    def empty(self) -> bool:
        """Whether none waits to be taken."""
        return self._waiting.empty()

    def close(self) -> None:
        """Lets Spark's thread go, without the micro-batch having been applied."""
        self._closed.set()
