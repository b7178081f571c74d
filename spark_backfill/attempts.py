"""A second attempt by DuckDB alone, where Spark SQL fails on a value.

Law: Spark may compute an expression for rows for which DuckDB does not, since the two move
conditions otherwise. So a failure of Spark SQL decides nothing: the nodes are computed again by
DuckDB in the workers, and what fails there too fails in DuckDB's words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from ivm.spark_backfill.frames import Frames

T = TypeVar("T")

_DATA_EXCEPTION = re.compile(r"\bSQLSTATE: 22")
"""Overflows, divisions by zero, casts of bad values: SQL's class of errors of the data."""


def computed(frames: Frames, work: Callable[[Frames], T]) -> T:
    """Runs a job with the frames; after a failure on a value, with frames of the workers alone.

    Args:
        frames: of the plans of the job.
        work: makes a frame, and runs a job that leaves nothing behind if it fails.
    """
    try:
        return work(frames)
    except Exception as error:
        if not _DATA_EXCEPTION.search(str(error)):
            raise
    return work(frames.by_workers())
