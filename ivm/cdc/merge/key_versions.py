"""Which of several rows under one key an event of a batch means.

Law: while a transaction is under way, and only then, a key may have several rows: `UPDATE … SET id
= id + 1` below a key that is checked at the end moves a row to a key before the row there has left
it. Such a row is displaced, and an update or delete behind it that tells the whole row before means
the row that is equal, displaced or not; NULLs that it tells may be values that it does not know.
Where none is equal, or nothing is told, it means the latest row, and the displaced ones are gone
with it; but an update that takes a row away from a key to which another one has just been moved
means the older. The displaced ones are gone, too, with a row that was inserted over them, unless
the batch is known to be whole transactions, each once; else an equal row is one that comes again.
At the end of the batch a key has its latest row, and where an event tells that it is of another
transaction than the one before it under its key.

So only keys are looked at to which a row comes while another one is there, and of which a later
event is no such row again; there are none but below such keys, and where events come again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ivm.cdc.formats.events import Events
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.storage.values.column import Indexes, Mask, concat, not_null
from ivm.storage.values.consolidate import group

_UNKNOWN = -1  # the code of a value that is not known


class Before(NamedTuple):
    """What events tell of what was before them.

    Attributes:
        rows: one for each event, unknown where an event does not tell it; None if none does.
        transactions: of each event a text that those of its transaction share, or NULL; None for
            NULL alone.
    """

    rows: Events | None = None
    transactions: pa.Array | None = None


@dataclass(frozen=True)
class Told:
    """What a batch can tell of the rows before its changes, asked for only where it matters.

    Attributes:
        befores: what some events tell, by their numbers.
        index: the table's, with all columns.
        exact: the batch is whole transactions, and what is told are all values of a row: a row
            that is displaced stays when the latest one is gone.
    """

    befores: Callable[[Indexes], Before]
    index: Callable[[], KeyIndex]
    exact: bool = False


@dataclass(frozen=True)
class Looks:
    """The looks at keys to which a row comes while another one is there.

    Attributes:
        at: their numbers among all of the batch.
        event: the number of each one's event.
        key: the number of its key.
        writes: whether it leaves a row.
        comes: whether that row comes from elsewhere: an insert, or a row that is moved here.
        moves: whether the event moves a row.
    """

    at: Indexes
    event: Indexes
    key: Indexes
    writes: Mask
    comes: Mask
    moves: Mask


@dataclass(frozen=True)
class Lanes:
    """The rows under keys, each with the looks at it.

    Attributes:
        of: of each look the number of the row, from 0.
        key: of each row the number of its key.
        is_stored: of each row whether it is the stored one.
        lasts: of each row whether it is the one that its key has at the end.
    """

    of: list[int] = field(default_factory=list)
    key: list[int] = field(default_factory=list)
    is_stored: list[bool] = field(default_factory=list)
    lasts: list[bool] = field(default_factory=list)

    def add(self, key: int, *, is_stored: bool) -> int:
        """Adds a row; returns its number."""
        self.key.append(key)
        self.is_stored.append(is_stored)
        self.lasts.append(False)
        return len(self.key) - 1


def lanes(path: FastPath, looks: Looks, events: Events, stored: Mask, told: Told) -> Lanes:
    """Finds which row each look means.

    Args:
        path: of the table.
        looks: in order.
        events: the rows that they leave, and the keys that they remove.
        stored: by key, whether there is a row in the table.
        told: of the batch.
    """
    codes = _codes(path, looks, events, told)
    found = Lanes(of=[0] * len(looks.at))
    for key, numbers in _by_key(looks.key).items():
        _Key(found, key, codes.stored.get(key) if stored[key] else None, told.exact).run(
            looks, codes, numbers
        )
    return found


def _by_key(keys: Indexes) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for number, key in enumerate(keys.tolist()):
        found.setdefault(key, []).append(number)
    return found


@dataclass(frozen=True)
class _Codes:
    """Rows as numbers, one a column that is not of the key; equal ones for equal values.

    Attributes:
        stored: by key.
        after: of each look, the row that it leaves.
        before: of each look, the row that it means, and which of its values are NULL.
        transaction: of each look the number of its transaction.
    """

    stored: dict[int, list[int]]
    after: list[list[int]]
    before: list[tuple[list[int], list[bool]]]
    transaction: list[int]


def _codes(path: FastPath, looks: Looks, events: Events, told: Told) -> _Codes:
    keys, first = np.unique(looks.key, return_index=True)
    index = told.index()
    found = index.find([events.columns[i].take(first) for i in path.key])
    before, transactions = told.befores(looks.event)
    sizes = [len(found.probe), len(looks.at), len(looks.at)]
    columns = [i for i in range(len(path.schema)) if i not in path.key]
    whole = np.zeros((sum(sizes), len(columns)), np.int64)
    nulls = np.zeros((sizes[2], len(columns)), np.bool_)
    for place, i in enumerate(columns):
        own = events.columns[i]
        old = own if before is None else before.columns[i]
        stored = found.rows.columns[index.columns.index(i)]
        whole[:, place] = group([concat([stored, own, old])], [path.schema[i][1]])[1]
        every = np.ones(len(looks.at), np.bool_)
        lacks = events.unknown.get(i, ~every)
        unsure = every if before is None else before.unknown.get(i, ~every)
        part = whole[sizes[0] :, place]
        part[np.concatenate([lacks, ~every])] = _UNKNOWN
        taken = unsure & looks.moves  # a value that is missing before a move is that behind it
        part[sizes[1] :] = np.where(unsure & ~taken, _UNKNOWN, part[sizes[1] :])
        part[sizes[1] :][taken] = part[: sizes[1]][taken]
        nulls[:, place] = ~not_null(old) & ~taken
    rows: list[list[int]] = whole.tolist()
    begin, middle = sizes[0], sizes[0] + sizes[1]
    at = [int(keys[i]) for i in found.probe]
    return _Codes(
        dict(zip(at, rows[:begin], strict=True)),
        rows[begin:middle],
        list(zip(rows[middle:], nulls.tolist(), strict=True)),
        _numbered(transactions, len(looks.at)),
    )


def _numbered(texts: pa.Array | None, count: int) -> list[int]:
    """Texts as numbers, equal ones for equal texts."""
    if texts is None:
        return [_UNKNOWN] * count
    numbers: list[int] = texts.dictionary_encode().indices.fill_null(_UNKNOWN).to_pylist()
    return numbers


@dataclass
class _Row:
    """A row that is there: its lane, its values, and whether it was moved here over another."""

    lane: int
    codes: list[int]
    displaces: bool = False


class _Key:
    """The rows under one key, the latest last."""

    def __init__(self, found: Lanes, key: int, stored: list[int] | None, exact: bool) -> None:
        self._found, self._key, self._exact = found, key, exact
        self._free = found.add(key, is_stored=stored is not None)
        self._rows: list[_Row] = []
        self._transaction = _UNKNOWN
        if stored is not None:
            self._rows.append(_Row(self._free, stored))

    def run(self, looks: Looks, codes: _Codes, numbers: Sequence[int]) -> None:
        """Takes the looks at the key in order."""
        for n in numbers:
            self._go_on(codes.transaction[n])
            if looks.comes[n]:
                lane = self._come(codes.after[n], moved=bool(looks.moves[n]))
            elif looks.writes[n]:
                lane = self._change(codes.after[n], self._meant(*codes.before[n]))
            else:
                lane = self._go(self._meant(*codes.before[n]), moves=bool(looks.moves[n]))
            self._found.of[n] = self._free = lane
        if self._rows:
            self._found.lasts[self._rows[-1].lane] = True

    def _go_on(self, transaction: int) -> None:
        """Takes the displaced rows away behind their transaction."""
        if _UNKNOWN not in (transaction, self._transaction) and transaction != self._transaction:
            del self._rows[:-1]
        self._transaction = transaction

    def _meant(self, old: list[int], null: list[bool]) -> _Row | None:
        """The row that is equal to the one told; the first look takes a NULL for a value."""
        for sure in (old, [_UNKNOWN if n else code for code, n in zip(old, null, strict=True)]):
            if all(code == _UNKNOWN for code in sure):
                continue
            for row in reversed(self._rows):
                pairs = zip(sure, row.codes, strict=True)
                if all(a == b or _UNKNOWN in (a, b) for a, b in pairs):
                    return row
        return None

    def _come(self, codes: list[int], *, moved: bool) -> int:
        if not self._rows:
            lane = self._free
        elif not moved and _UNKNOWN in codes:  # what it lacks is that of the row there
            return self._change(codes, None)
        else:
            comes_again = [] if self._exact else self._rows
            same = next((row for row in comes_again if row.codes == codes), None)
            if same is not None:
                self._rows.remove(same)
            lane = same.lane if same else self._found.add(self._key, is_stored=False)
        self._rows.append(_Row(lane, codes, displaces=moved and bool(self._rows)))
        return lane

    def _change(self, codes: list[int], row: _Row | None) -> int:
        if row is None:
            if not self._rows:
                return self._come(codes, moved=True)
            row = self._rows[-1]
        self._rows.remove(row)
        known = [old if new == _UNKNOWN else new for old, new in zip(row.codes, codes, strict=True)]
        self._rows.append(_Row(row.lane, known, row.displaces))
        return row.lane

    def _go(self, row: _Row | None, *, moves: bool) -> int:
        if not self._rows:
            return self._free
        latest = self._rows[-1]
        if row is None and moves and latest.displaces:
            row = self._rows[0]
        if row is None or (row is latest and not (self._exact or row.displaces)):
            self._rows.clear()
            return latest.lane
        self._rows.remove(row)
        return row.lane


def suspects(key: Indexes, before: Indexes, comes: Mask, writes: Mask, stored: Mask) -> Mask | None:
    """The looks at keys to which a row comes while another is there, and that are looked at again.

    Args:
        key: of each look, in order.
        before: the look at the same key before each one, -1 if there is none.
        comes: see `Looks`.
        writes: see `Looks`.
        stored: by key, whether there is a row in the table.
    """
    there = np.where(before < 0, stored[key], writes[before])
    displacing = (comes & there).nonzero()[0]
    if not len(displacing):
        return None
    first = np.full(len(stored), len(key))
    np.minimum.at(first, key[displacing], displacing)
    again = ~comes & (np.arange(len(key)) > first[key])
    if not again.any():
        return None
    chosen = np.zeros(len(stored), np.bool_)
    chosen[key[again]] = True
    found: Mask = chosen[key]
    return found
