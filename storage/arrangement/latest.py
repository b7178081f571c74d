"""The last entry under a key that has one row at most, which tells that row.

Law: in a `unique` layout the last entry under a key is its row, or takes its row out where its
weight is negative. What the row was before need not be said, so an update is one entry. Entries of
a key are in a run in the order of their arrival; the newest run (or the write buffer) that holds a
key decides.

Where codes are hashes, the last entry under a code may be of another key: the caller compares keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ivm.storage.arrangement.bloom import BloomProbe
from ivm.storage.arrangement.run import Run
from ivm.storage.arrangement.run_cursors import RunSource
from ivm.storage.arrangement.write_buffer import WriteBuffer
from ivm.storage.values.column import AnyCodes, Indexes, Mask, join_arrays
from ivm.storage.values.zset import ZSet, add

_FIRST = np.zeros(1, np.int64)


Pieces = list[tuple[Indexes, ZSet]]
"""Numbers of probes, and the rows found for them."""


class Piece(NamedTuple):
    """Entries of a run or a write buffer, and their codes."""

    codes: AnyCodes
    rows: ZSet


def latest_of_one(source: RunSource, code: Any) -> Pieces:
    """The last entry under one code."""
    rows = source.buffer.find_one(code, source.seen)
    if len(rows):
        return _entry(source.buffer, int(rows[-1]))
    for run in reversed(source.runs):
        start, stop = run.find_one(code)
        if start < stop:
            return _entry(run, stop - 1)
    return []


def _entry(origin: Run | WriteBuffer, row: int) -> Pieces:
    return [(_FIRST, origin.slice(row, row + 1))]


def latest_rows(source: RunSource, probes: npt.NDArray[Any], asked: Iterable[BloomProbe]) -> Pieces:
    """The last entries under codes in any order.

    Args:
        source: whose write buffer is read.
        probes: the codes.
        asked: the source's runs, newest first.
    """
    decided = np.zeros(len(probes), np.bool_)
    pieces = _buffered(source.buffer, source.seen, probes) if source.seen else []
    for hits, _ in pieces:
        decided[hits] = True
    for run, mine, numbers in asked:
        if pieces:
            mine, numbers = _undecided(mine, numbers, decided)
        hits, rows = run.find_last(mine)
        if not len(hits):
            continue
        if numbers is not None:
            hits = numbers[hits]
        if pieces:
            new = (~decided[hits]).nonzero()[0]
            if len(new) < len(hits):
                hits, rows = hits[new], rows[new]
        decided[hits] = True
        pieces += _entries(run, hits, rows)
    return pieces


def _buffered(buffer: WriteBuffer, seen: int, probes: npt.NDArray[Any]) -> Pieces:
    """The last entries among the first `seen` of a write buffer."""
    order = np.argsort(probes)
    which, rows = buffer.find(probes[order], seen)
    if not len(rows):
        return []
    last = np.full(len(probes), -1, np.int64)
    last[order[which]] = rows  # numpy keeps the last of repeated indexes
    hits = (last >= 0).nonzero()[0]
    return _entries(buffer, hits, last[hits])


def _undecided(
    probes: npt.NDArray[Any], numbers: Indexes | None, decided: Mask
) -> tuple[npt.NDArray[Any], Indexes | None]:
    """The probes whose last entry is not found yet, if these are the fewer ones; else all."""
    open_ = (~(decided if numbers is None else decided[numbers])).nonzero()[0]
    if 2 * len(open_) > len(probes):
        return probes, numbers
    return probes[open_], open_ if numbers is None else numbers[open_]


def _entries(origin: Run | WriteBuffer, numbers: Indexes, rows: Indexes) -> Pieces:
    """The rows, as one piece or none."""
    return [(numbers, origin.take(rows))] if len(rows) else []


def without_replaced(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces, oldest first, but those whose keys are just those of a newer one."""
    kept = list[Piece]()
    for piece in reversed(pieces):
        if not any(np.array_equal(piece.codes, newer.codes) for newer in kept):
            kept.append(piece)
    return kept[::-1]


def last_of_each(pieces: Sequence[Piece]) -> ZSet:
    """The live rows of all keys of some pieces, oldest first, whose codes are exact."""
    codes = join_arrays([piece.codes for piece in pieces])
    rows = _last(codes) if len(pieces) > 1 or (codes[1:] <= codes[:-1]).any() else None
    parts, stop = [], 0
    for piece in pieces:
        start, stop = stop, stop + len(piece.rows)
        parts.append(_live(piece.rows, None if rows is None else rows[start:stop]))
    return add(parts)


def _last(codes: AnyCodes) -> Mask:
    """The mask of the last entry of each code."""
    order = np.argsort(codes, kind="stable")
    ordered, last = codes[order], np.ones(len(order), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=last[:-1])
    mask = np.empty(len(order), np.bool_)
    mask[order] = last
    return mask


def _live(entries: ZSet, last: Mask | None) -> ZSet:
    mask = entries.weights > 0
    mask = mask if last is None else mask & last
    return entries if mask.all() else entries.filter(mask)
