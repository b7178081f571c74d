"""The live row under a key that has one row at most, from the last entry under it.

Law: if every batch holds −old row and +new row of its keys, in this order, the newest run (or the
write buffer) that holds a key decides its row: entries of a key are in a run in the order of their
arrival, and a merge that cancels leaves −old and +new, or nothing where both are equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ivm.storage.arrangement.bloom import BloomProbe
from ivm.storage.arrangement.run import Run
from ivm.storage.arrangement.run_cursors import RunSource
from ivm.storage.arrangement.write_buffer import WriteBuffer
from ivm.storage.values.column import Indexes
from ivm.storage.values.zset import ZSet

_FIRST = np.zeros(1, np.int64)


Pieces = list[tuple[Indexes, ZSet]]
"""Numbers of probes, and the rows found for them."""


def latest_of_one(source: RunSource, code: Any) -> Pieces:
    """The live row under one code."""
    rows = source.buffer.find_one(code, source.seen)
    if len(rows):
        return _entry(source.buffer, int(rows[-1]))
    for run in reversed(source.runs):
        start, stop = run.find_one(code)
        if start < stop:
            return _entry(run, stop - 1)
    return []


def _entry(origin: Run | WriteBuffer, row: int) -> Pieces:
    return [(_FIRST, origin.slice(row, row + 1))] if origin.weight(row) > 0 else []


def latest_rows(source: RunSource, probes: npt.NDArray[Any], asked: Iterable[BloomProbe]) -> Pieces:
    """The live rows under codes in any order.

    Args:
        source: whose write buffer is read.
        probes: the codes.
        asked: the source's runs, newest first.
    """
    decided = np.zeros(len(probes), np.bool_)
    pieces: Pieces = []
    if source.seen:
        order = np.argsort(probes)
        last = np.full(len(probes), -1, np.int64)
        which, rows = source.buffer.find(probes[order], source.seen)
        last[order[which]] = rows  # numpy keeps the last of repeated indexes
        hits = (last >= 0).nonzero()[0]
        decided[hits] = True
        pieces += _live(source.buffer, hits, last[hits])
    for run, mine, numbers in asked:
        hits, rows = run.find_last(mine)
        if numbers is not None:
            hits = numbers[hits]
        new = (~decided[hits]).nonzero()[0]
        if len(new) < len(hits):
            hits, rows = hits[new], rows[new]
        decided[hits] = True
        pieces += _live(run, hits, rows)
    return pieces


def _live(origin: Run | WriteBuffer, numbers: Indexes, rows: Indexes) -> Pieces:
    """The rows of positive weight, as one piece or none."""
    live = origin.weights_of(rows) > 0
    if not live.all():
        numbers, rows = numbers[live], rows[live]
    return [(numbers, origin.take(rows))] if len(rows) else []
