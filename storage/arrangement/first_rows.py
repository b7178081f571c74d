"""The first live rows under a key, merged from all runs in either direction.

Law: let b be the smallest of the last rows read from runs with unread rows. All rows up to b have
been read from every run (no row occurs twice in a run), so their net weights are known. Where
cancelled rows leave fewer than k known live ones, four times as many rows are read from each run,
or as many as the write buffer may cancel; many cancelled ones of a key that runs hold are left out
of all later reads (see `cancelled`).

Law of the merge for one exact key (`first_of_one`): if the row under one cursor comes strictly
before those under all others by its first order key, no other run holds it, so it is the next row
and its weight is its own. Rows that tie are one row, with the sum of their weights, if all their
values are the same; few different ones are sorted. Where many tie, or a value is NULL, NaN or
neither number nor string, the general merge decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ivm.storage.arrangement.cancelled import record
from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.run import Run
from ivm.storage.arrangement.run_cursors import RunCursors, RunSource, read_cursors
from ivm.storage.arrangement.write_buffer import FixedBuffer, WriteBuffer
from ivm.storage.values import thresholds
from ivm.storage.values.column import Column, FixedColumn, Indexes, Mask, concat
from ivm.storage.values.key_codes import KeyCodes, same_key
from ivm.storage.values.ordering.order import OrderTerm, term_codes
from ivm.storage.values.ordering.sort import sort_rows
from ivm.storage.values.radix_sort import order_of
from ivm.storage.values.zset import ZSet, add

DEEPER = 4
"""How many times more rows are read of each run where those read do not suffice."""
CANCELLED_ROWS = 64
"""Cancelled rows of a key that are met one by one, or without a record of them."""


def first_rows(
    source: RunSource, keys: Sequence[Column], k: int, codes: KeyCodes | None
) -> tuple[Indexes, ZSet]:
    """The first k live rows per key: their probes, and the rows in order of probe and layout."""
    layout = source.layout
    probes = layout.search_codes(keys, codes)
    if len(probes) <= thresholds.FIRST_KEYS and layout.exact and keys[0].valid is None:
        alone = _each_alone(source, probes, k)
        if alone is not None:
            return alone
    order = np.argsort(probes)
    found: list[tuple[Indexes, ZSet]] = []
    depth = k
    while len(order):
        cursors = read_cursors(source, probes[order], order, depth)
        if cursors is None:
            break
        if depth == 1 and source.terms[0].type.is_word:
            probe, rows, unsure = _sole_firsts(source, keys, cursors, len(probes))
        else:
            probe, rows, unsure, source = _resolve(source, keys, cursors, k, len(probes))
        found.append((probe, rows))
        order = order[unsure[order]]
        depth = max(DEEPER * depth, k + source.seen // max(len(order), 1))
    if not found:
        return np.zeros(0, np.int64), source.zero
    return found[0] if len(found) == 1 else _in_order_of_probe(found)


def _each_alone(source: RunSource, probes: npt.NDArray[Any], k: int) -> tuple[Indexes, ZSet] | None:
    """The first rows of one probe after the other, or None where the general merge must decide."""
    found = []
    for number, probe in enumerate(probes):
        rows = first_of_one(source, probe, k, number)
        if rows is None:
            return None
        found.append(rows)
    if not found:
        return None
    return np.arange(len(found)).repeat([len(rows) for rows in found]), add(found)


def _in_order_of_probe(found: list[tuple[Indexes, ZSet]]) -> tuple[Indexes, ZSet]:
    probe = np.concatenate([probe for probe, _ in found])
    order = order_of(probe)
    return probe[order], add([rows for _, rows in found]).take(order)


def _resolve(
    source: RunSource, keys: Sequence[Column], cursors: RunCursors, k: int, probes: int
) -> tuple[Indexes, ZSet, Mask, RunSource]:
    """The first rows of the probes for which the rows read suffice, and a mask of the others.

    Also what is to be read from now on.
    """
    # Sorting brings the copies of a row in several runs together: begins[i] is the first of row i.
    order, begins = sort_rows(cursors.probe, cursors, source.terms)
    known = _known(cursors, order, begins, probes)
    row = order[begins]
    probe = cursors.probe[row]
    weights = np.add.reduceat(cursors.weights[order], begins)
    cancelled = known & (weights == 0)
    many = np.bincount(probe[cancelled], minlength=probes) > CANCELLED_ROWS
    if many.any():
        source = _without_cancelled(source, cursors, order, begins, known & many[probe])
    # Rows past the bound, cancelled rows and those of another key with the same hash count nothing.
    weights[~(known & (weights > 0) & _right_key(source.layout, keys, cursors, probe, row))] = 0
    totals = np.zeros(probes, np.int64)
    np.add.at(totals, probe, weights)
    # A probe must be read deeper if some run has more of its rows and fewer than k are known.
    unsure = np.zeros(probes, np.bool_)
    unsure[cursors.probe[cursors.goes_on]] = True
    unsure &= totals < k
    # The running sum of all weights, less that of the probes before, is the weight before a row
    # among those of its own probe; the row at which it passes k is cut.
    before = np.cumsum(weights) - weights - (np.cumsum(totals) - totals)[probe]
    weights = np.minimum(weights, k - before)
    kept = np.flatnonzero((weights > 0) & ~unsure[probe])
    return probe[kept], cursors.take(row[kept], weights[kept], source.columns), unsure, source


def _sole_firsts(
    source: RunSource, keys: Sequence[Column], cursors: RunCursors, probes: int
) -> tuple[Indexes, ZSet, Mask]:
    """The first row of each probe that it decides by the first order key, and a mask of the others.

    Such a row stands alone before those of all other runs, so that none of these cancels it.
    """
    term = source.terms[0]
    codes = term_codes(cursors[term.column], term)
    least = np.full(probes, np.iinfo(np.int64).max)
    np.minimum.at(least, cursors.probe, codes)
    heads = (codes == least[cursors.probe]).nonzero()[0]
    found = cursors.probe[heads]
    alone = (np.bincount(found, minlength=probes)[found] == 1) & (cursors.weights[heads] > 0)
    heads, found = heads[alone], found[alone]
    right = _right_key(source.layout, keys, cursors, found, heads)
    place, unsure = np.full(probes, -1, np.int64), np.zeros(probes, np.bool_)
    place[found[right]] = heads[right]
    probe = (place >= 0).nonzero()[0]
    unsure[cursors.probe] = True
    unsure[probe] = False
    rows = cursors.take(place[probe], np.ones(len(probe), np.int64), source.columns)
    return probe, rows, unsure


def _without_cancelled(
    source: RunSource, cursors: RunCursors, order: Indexes, begins: Indexes, rows: Mask
) -> RunSource:
    """The source without those of the marked rows that its runs cancel; these go on record.

    Each run keeps what it and the older ones cancel, for the time when newer ones are merged.
    """
    runs, cancelled = source.runs, source.cancelled
    origins, copies = cursors.origins, np.diff(begins, append=len(order))
    gone = np.zeros(len(order), np.bool_)
    for count in range(2, len(runs) + 1):  # a run alone cancels nothing: no row is in it twice
        mine = (origins >= 0) & (origins < count)
        sums = np.add.reduceat(np.where(mine, cursors.weights, 0)[order], begins)
        gone[order] = (rows & (sums == 0)).repeat(copies)
        cancelled = record(runs[:count], cursors.entries(gone, count))
    return source._replace(cancelled=cancelled)


def _known(cursors: RunCursors, order: Indexes, begins: Indexes, probes: int) -> Mask:
    """Returns whether each distinct row stands at or before the bound of its probe."""
    # The number of the distinct row that each sorted row is a copy of.
    number = np.zeros(len(order), np.int64)
    number[begins[1:]] = 1
    number = np.cumsum(number)
    # A probe's bound is the smallest last row of a run with unread rows; without one, none.
    bound = np.full(probes, len(order), np.int64)
    last = cursors.goes_on[order]
    np.minimum.at(bound, cursors.probe[order][last], number[last])
    inside: Mask = np.arange(len(begins)) <= bound[cursors.probe[order[begins]]]
    return inside


def _right_key(
    layout: Layout, keys: Sequence[Column], cursors: RunCursors, probe: Indexes, row: Indexes
) -> Mask:
    stored = [cursors[i] for i in layout.key]
    if layout.exact and keys[0].valid is None and stored[0].valid is None:
        return np.ones(len(row), np.bool_)
    return same_key(keys, probe, stored, row, layout.key_types)


_FIXED = (FixedColumn, FixedBuffer)

_Origin: TypeAlias = Run | WriteBuffer
_Cursor: TypeAlias = tuple[Any, _Origin, int, int]
"""The first order key's value at a row, the row's origin, its position, and its range's end."""
_Picked: TypeAlias = tuple[_Origin, int]
"""The origin of a row, and its position there."""


def first_of_one(source: RunSource, code: Any, k: int, number: int = 0) -> ZSet | None:
    """The first k live rows under a code, or None where the general merge must decide.

    Args:
        source: where to read.
        code: of the probe.
        k: rows wanted, at least 1.
        number: of the probe, by which the source's bound knows it.
    """
    term = source.terms[0]
    if k > thresholds.FIRST_ROWS or not _has_cells(term):
        return None
    cursors = _cursors(source, code, term, number)
    return None if cursors is None else _merged(source, cursors, term, k)


def _has_cells(term: OrderTerm) -> bool:
    """Returns whether Python compares the values of the term's column as DuckDB does."""
    type = term.type
    if type.is_bytes:
        return not type.is_enum
    return type.is_ordered_word


def _cursors(source: RunSource, code: Any, term: OrderTerm, probe: int) -> list[_Cursor] | None:
    ranges: list[tuple[_Origin, int, int]] = []
    step = _step(source)
    for number, run in enumerate(source.runs):
        pieces = _pieces(source, number, code, probe)
        if len(pieces) > thresholds.FIRST_ROWS:
            return None
        for start, stop in pieces:
            ranges.append((run, stop - 1, start - 1) if source.backwards else (run, start, stop))
    if source.seen:
        held = source.buffer.find_one(code, source.seen)
        rows = source.buffered(held, np.full(len(held), probe))[0].tolist()
        if len(rows) > thresholds.FIRST_ROWS:
            return None
        ranges += [(source.buffer, row, row + step) for row in rows]
    cursors = []
    key = source.layout.key[0]
    for origin, row, stop in ranges:
        keys = origin.columns[key]
        assert isinstance(keys, FixedColumn | FixedBuffer)
        if keys.valid is not None:  # a NULL key has the code of zero
            return None
        value = origin.columns[term.column].cell(row)
        if value is None or value != value:  # NULL and NaN: Python does not order them
            return None
        cursors.append((value, origin, row, stop))
    return cursors


def _pieces(source: RunSource, number: int, code: Any, probe: int) -> list[tuple[int, int]]:
    """The ranges of a run's rows under a code, without the cancelled stretches."""
    start, stop = source.runs[number].find_one(code)
    if start < stop and source.bound is not None:
        parts = source.runs[number], source.layout, start, stop, probe
        start, stop = source.bound.narrowed_one(*parts, backwards=source.backwards)
    cancelled = source.cancelled_of(number)
    if start >= stop or not len(cancelled.starts):
        return [(start, stop)] if start < stop else []
    _, starts, stops = cancelled.left(np.array([start]), np.array([stop]))
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def _step(source: RunSource) -> int:
    return -1 if source.backwards else 1


def _merged(source: RunSource, cursors: list[_Cursor], term: OrderTerm, k: int) -> ZSet | None:
    picked: list[_Picked] = []
    weights: list[int] = []
    cancelled = 0
    while cursors and k > 0:
        best = _best(cursors, term.descending)
        if len(best) > 1 and not _are_one_row([cursors[i] for i in best], source.layout):
            tied = _tied(cursors, cursors[best[0]][0], term, _step(source))
            if tied is None:
                return None
            for live, count in _sorted(source, tied):
                picked.append(live)
                weights.append(min(count, k))
                k -= weights[-1]
                if not k:
                    break
            continue
        weight = sum([cursors[i][1].weight(cursors[i][2]) for i in best])
        if weight > 0:
            _, origin, row, _ = cursors[best[0]]
            picked.append((origin, row))
            weights.append(min(weight, k))
            k -= weights[-1]
        elif (cancelled := cancelled + 1) > CANCELLED_ROWS:
            return None
        if not _advance(cursors, best, term, _step(source)):
            return None
    if not picked:
        return source.zero
    columns = [_gathered(picked, i) for i in source.columns]
    return ZSet(tuple(columns), np.array(weights, np.int64))


def _best(cursors: list[_Cursor], descending: bool) -> list[int]:
    """The cursors that stand before all others by the first order key."""
    values = [cursor[0] for cursor in cursors]
    value = max(values) if descending else min(values)
    if values.count(value) == 1:
        return [values.index(value)]
    return [i for i, other in enumerate(values) if other == value]


def _are_one_row(cursors: list[_Cursor], layout: Layout) -> bool:
    """Returns whether the cursors stand at equal rows; False where that is not certain."""
    for column, type in enumerate(layout.types):
        cells = [origin.columns[column].cell(row) for _, origin, row, _ in cursors]
        first = cells[0]
        if type.dtype is None and not type.is_bytes:
            return False
        if any(cell != first for cell in cells):  # also if it is a NaN
            return False
        if type.is_float and first == 0:  # 0.0 and -0.0 are two rows
            return False
    return True


def _tied(cursors: list[_Cursor], value: Any, term: OrderTerm, step: int) -> list[_Picked] | None:
    """All rows with a value, past which the cursors move; None if they are many."""
    tied: list[_Picked] = []
    while best := [i for i, cursor in enumerate(cursors) if cursor[0] == value]:
        tied += [cursors[i][1:3] for i in best]
        if len(tied) > CANCELLED_ROWS or not _advance(cursors, best, term, step):
            return None
    return tied


def _sorted(source: RunSource, tied: list[_Picked]) -> Iterator[tuple[_Picked, int]]:
    """The live ones of some rows in order, with their weights."""
    columns = [_gathered(tied, i) for i in range(len(source.layout.types))]
    order, begins = sort_rows(np.zeros(len(tied), np.int64), columns, source.terms)
    weights = np.array([origin.weight(row) for origin, row in tied])
    sums = np.add.reduceat(weights[order], begins)
    for row, weight in zip(order[begins].tolist(), sums.tolist(), strict=True):
        if weight > 0:
            yield tied[row], weight


def _advance(cursors: list[_Cursor], best: list[int], term: OrderTerm, step: int) -> bool:
    """Moves the cursors on, or drops them; False if the next value cannot be compared."""
    for i in reversed(best):
        _, origin, row, stop = cursors[i]
        row += step
        if row == stop:
            del cursors[i]
            continue
        value = origin.columns[term.column].cell(row)
        if value is None or value != value:
            return False
        cursors[i] = (value, origin, row, stop)
    return True


def _gathered(picked: list[_Picked], position: int) -> Column:
    """One column of the picked rows."""
    fixed = [c for origin, _ in picked if isinstance(c := origin.columns[position], _FIXED)]
    if len(fixed) == len(picked) and all(c.valid is None for c in fixed):
        values = [c.values[row] for c, (_, row) in zip(fixed, picked, strict=True)]
        return FixedColumn(np.array(values, fixed[0].values.dtype))
    return concat([_one(origin, position, row) for origin, row in picked])


def _one(origin: _Origin, position: int, row: int) -> Column:
    """One value as a column."""
    if isinstance(origin, Run):
        return origin.columns[position].slice(row, row + 1)
    return origin.columns[position].take(np.array([row]))
