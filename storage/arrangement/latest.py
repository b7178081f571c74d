"""The live row under a key that has one row at most, from the last entry under it.

Law: if every batch holds −old row and +new row of its keys, in this order, the newest run (or the
write buffer) that holds a key decides its row: entries of a key are in a run in the order of their
arrival, and a merge that cancels leaves −old and +new, or nothing where both are equal.

Where codes are hashes, the last entry under a code may be of another key, also one that is gone:
so entries are given whatever their weights are, and the caller compares their keys.
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
from ivm.storage.values.column import Indexes, Mask
from ivm.storage.values.zset import ZSet

_FIRST = np.zeros(1, np.int64)


Pieces = list[tuple[Indexes, ZSet]]
"""Numbers of probes, and the rows found for them."""


def latest_of_one(source: RunSource, code: Any, *, dead: bool) -> Pieces:
    """The row of the last entry under one code; `dead`: also where it takes the row out."""
    rows = source.buffer.find_one(code, source.seen)
    if len(rows):
        return _entry(source.buffer, int(rows[-1]), dead)
    for run in reversed(source.runs):
        start, stop = run.find_one(code)
        if start < stop:
            return _entry(run, stop - 1, dead)
    return []


def _entry(origin: Run | WriteBuffer, row: int, dead: bool) -> Pieces:
    return [(_FIRST, origin.slice(row, row + 1))] if dead or origin.weight(row) > 0 else []


def latest_rows(
    source: RunSource, probes: npt.NDArray[Any], asked: Iterable[BloomProbe], *, dead: bool
) -> Pieces:
    """The rows of the last entries under codes in any order.

    Args:
        source: whose write buffer is read.
        probes: the codes.
        asked: the source's runs, newest first.
        dead: also of entries that take the row out.
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
        pieces += _entries(source.buffer, hits, last[hits], dead)
    for run, mine, numbers in asked:
        mine, numbers = _undecided(mine, numbers, decided)
        if not len(mine):
            continue
        hits, rows = run.find_last(mine)
        if numbers is not None:
            hits = numbers[hits]
        new = (~decided[hits]).nonzero()[0]
        if len(new) < len(hits):
            hits, rows = hits[new], rows[new]
        decided[hits] = True
        pieces += _entries(run, hits, rows, dead)
    return pieces


def _undecided(
    probes: npt.NDArray[Any], numbers: Indexes | None, decided: Mask
) -> tuple[npt.NDArray[Any], Indexes | None]:
    """The probes whose last entry is not found yet, if these are the fewer ones; else all."""
    open_ = (~(decided if numbers is None else decided[numbers])).nonzero()[0]
    if 2 * len(open_) > len(probes):
        return probes, numbers
    return probes[open_], open_ if numbers is None else numbers[open_]


def _entries(origin: Run | WriteBuffer, numbers: Indexes, rows: Indexes, dead: bool) -> Pieces:
    """The rows, as one piece or none."""
    if not dead:
        live = origin.weights_of(rows) > 0
        if not live.all():
            numbers, rows = numbers[live], rows[live]
    return [(numbers, origin.take(rows))] if len(rows) else []
