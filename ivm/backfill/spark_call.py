"""Work on Spark that a statement waits for.

Law: the statement ends as soon as it is to, though a call of Spark's cannot be interrupted; and the
program's signal handlers stay, though PySpark sets one of its own where the main thread starts it.
So the work has a thread of its own.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ivm.engine.engine import Engine
from ivm.storage.errors import UnavailableError
from ivm.storage.interrupts import check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK = 0.1  # seconds between looks whether Spark has ended, or the statement is to end
_PATIENCE = 5.0  # seconds that Spark has to end a job

Work: TypeAlias = "Callable[[SparkSession, Callable[[], None]], None]"
"""Is given the session, and what raises where the statement has ended meanwhile."""


class SparkCall:
    """Work that begins at once.

    Args:
        engine: of the database; gives the Spark session.
        what: is done, as Spark shows it.
        work: to be done; what it raises is raised by `wait`.
    """

    def __init__(self, engine: Engine, what: str, work: Work) -> None:
        self._engine, self._what, self._work = engine, what, work
        self._group = f"ivm-call-{uuid.uuid4().hex}"
        self._error: BaseException | None = None
        self._spark: SparkSession | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="ivm-spark-call", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Waits for its end, and ends it before where the statement is to end."""
        try:
            while self._thread.is_alive():
                self._thread.join(_LOOK)
                check()
                if self._engine.jobs.closed:
                    raise UnavailableError(f"the database was closed during the {self._what}")
        except BaseException:
            self._stop()
            raise
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            spark = self._spark = self._engine.spark()
            with contextlib.suppress(Exception):  # Spark Connect has no context
                spark.sparkContext.setJobGroup(self._group, f"ivm: {self._what}", True)
            self._work(spark, self._check)
        except BaseException as error:
            self._error = error

    def _check(self) -> None:
        if self._stopping:
            raise UnavailableError("the statement has ended")

    def _stop(self) -> None:
        """Ends the job; a thread that does not answer is left to itself."""
        self._stopping, end = True, time.monotonic() + _PATIENCE
        while self._thread.is_alive() and time.monotonic() < end:
            if self._spark is not None:
                with contextlib.suppress(Exception):  # Spark has ended, or is another process
                    self._spark.sparkContext.cancelJobGroup(self._group)
            self._thread.join(_LOOK)
