"""The first live rows under one exact key, when the first order key alone decides.

Law: a head that stands strictly before all other heads by its first order key is equal to no row in
another run, so it is the next row and its weight is its own. Where two heads tie, or a value is
NULL, NaN or not a number or text, this way gives up and the general one is taken.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ivm.storage.column import FixedColumn
from ivm.storage.heads import Source
from ivm.storage.ordering import Term
from ivm.storage.run import Run
from ivm.storage.tail import FixedTail, Tail
from ivm.storage.zset import ZSet, add

_MOST_ROWS = 8  # rows wanted, and rows of the tail, up to which one by one is the fastest

_Origin: TypeAlias = Run | Tail
_Cursor: TypeAlias = tuple[Any, _Origin, int, int]
"""The first order key's value at a row, where the row is, its position, the end of its range."""


def first_of_one(source: Source, code: Any, k: int) -> ZSet | None:
    """The first k live rows under a code, or None where the general way must be taken."""
    term = source.layout.terms[0]
    if k > _MOST_ROWS or not _has_cells(term):
        return None
    cursors = _cursors(source, code, term)
    return None if cursors is None else _merged(source, cursors, term, k)


def _has_cells(term: Term) -> bool:
    """Whether Python compares the values of the term's column as DuckDB does."""
    type = term.type
    if type.is_bytes:
        return not type.is_enum
    return type.is_word and type.sql != "TIME WITH TIME ZONE"


def _cursors(source: Source, code: Any, term: Term) -> list[_Cursor] | None:
    ranges: list[tuple[_Origin, int, int]] = []
    for run in source.runs:
        start, stop = run.find_one(code)
        if start < stop:
            ranges.append((run, start, stop))
    if source.seen:
        rows = source.tail.find_one(code, source.seen).tolist()
        if len(rows) > _MOST_ROWS:
            return None
        ranges += [(source.tail, row, row + 1) for row in rows]
    cursors = []
    key = source.layout.key[0]
    for origin, row, stop in ranges:
        keys = origin.columns[key]
        assert isinstance(keys, FixedColumn | FixedTail)
        if keys.valid is not None:  # a NULL key has the code of zero
            return None
        value = origin.columns[term.column].cell(row)
        if value is None or value != value:
            return None
        cursors.append((value, origin, row, stop))
    return cursors


def _merged(source: Source, cursors: list[_Cursor], term: Term, k: int) -> ZSet | None:
    pieces: list[ZSet] = []
    while cursors and k > 0:
        best = _best(cursors, term.descending)
        if best is None:
            return None
        _, origin, row, stop = cursors[best]
        weight = origin.weight(row)
        if weight > 0:
            taken = min(weight, k)
            columns = origin.slice(row, row + 1).columns
            pieces.append(ZSet(columns, np.array([taken], np.int64)))
            k -= taken
        if row + 1 == stop:
            del cursors[best]
            continue
        value = origin.columns[term.column].cell(row + 1)
        if value is None or value != value:
            return None
        cursors[best] = (value, origin, row + 1, stop)
    return add(pieces) if pieces else source.layout.zero


def _best(cursors: list[_Cursor], descending: bool) -> int | None:
    """The cursor that stands before all others; None if two stand first."""
    values = [cursor[0] for cursor in cursors]
    value = max(values) if descending else min(values)
    return values.index(value) if values.count(value) == 1 else None
