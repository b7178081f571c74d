"""The facts of rows: what is known of a file and of a row's place in it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from ivm.cdc.sources.files.placed import Run
from ivm.cdc.sources.metadata import COUNT, TEXT, TIME, Facts

FACTS: Facts = {"path": TEXT, "row": COUNT, "modified": TIME}
"""Of a row: the name of its stream, its number as in dead letters, the last change of its file."""


def facts_of(
    runs: Sequence[Run], changed: Sequence[int], asked: Collection[str]
) -> dict[str, pa.Array]:
    """Some facts of rows.

    Args:
        runs: of rows, in order.
        changed: when the file of each run was changed, in nanoseconds since 1970.
        asked: the names of the facts.
    """
    lengths = [run.length for run in runs]
    begins = np.repeat(np.cumsum([0, *lengths[:-1]]), lengths)
    rows = np.repeat([run.first for run in runs], lengths) + np.arange(sum(lengths)) - begins
    at = pa.array(np.repeat(np.arange(len(runs)), lengths))
    known = {
        "path": lambda: pa.array([run.stream for run in runs], TEXT).take(at),
        "row": lambda: pa.array(rows, COUNT),
        "modified": lambda: pa.array([each // 1000 for each in changed], COUNT).cast(TIME).take(at),
    }
    return {fact: known[fact]() for fact in asked}
