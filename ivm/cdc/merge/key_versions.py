"""Which of several rows under one key an event of a batch means.

Law: while a transaction is under way, and only then, a key may have several rows: `UPDATE … SET id
= id + 1` below a key that is checked at the end moves a row to a key before the row there has left
it. Such a row is displaced, and an update or delete behind it that tells the whole row before means
the row that is equal, displaced or not; NULLs that it tells may be values that it does not know.
Where none is equal, or nothing is told, it means the latest row, and the displaced ones are gone
with it; but an update that takes a row away from a key to which another one has just been moved
means the older. An insert behind a removal moves, too, if the transaction is told: some upstreams
tell a new key by a pair. The displaced ones are gone, too, with a row that was inserted over them,
unless the batch is known to be whole transactions, each once; else an equal row is one that comes
again. What an event of that transaction takes from its key, if it tells another row, has left
before; so it is in later batches as long as each ends within that transaction. At the end of the
batch a key has its latest row, and where an event tells that it is of another transaction than the
one before it under its key. The displaced rows that are left then may be given to the next batch,
see the module `displaced`.

So only keys are looked at to which a row comes while another one is there, and of which a later
event is no such row again, those of given rows, and those from which a transaction that comes again
takes a row; there are none but below such keys, and where events come again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from ivm.cdc.formats.events import Events
from ivm.cdc.merge.told import Displaced, Told
from ivm.ingest.fast_path import FastPath
from ivm.storage.values.column import Indexes, Mask, concat, not_null
from ivm.storage.values.consolidate import group
from ivm.storage.values.zset import empty

STORED, NEW = -1, -2
_UNKNOWN = -1  # the code of a value that is not known


@dataclass(frozen=True)
class Looks:
    """The looks at keys to which a row comes while another one is there.

    Attributes:
        at: their numbers among all of the batch.
        event: the number of each one's event.
        key: the number of its key.
        writes: whether it leaves a row.
        comes: whether that row comes from elsewhere: an insert, or a row that is moved here.
        arrives: whether it comes behind a removal: as moved, if its transaction is known.
        moves: whether the event moves a row.
    """

    at: Indexes
    event: Indexes
    key: Indexes
    writes: Mask
    comes: Mask
    arrives: Mask
    moves: Mask


@dataclass(frozen=True)
class Lanes:
    """The rows under keys, each with the looks at it.

    Attributes:
        of: of each look the number of the row, from 0.
        key: of each row the number of its key.
        given: of each row the number of the given one that it is; `STORED` for that of the table,
            `NEW` for others.
        lasts: of each row whether it is the one that its key has at the end.
        displaced: the rows that are displaced at the end, each with the last look at its key.
        again: the last look at each key to which a row has come again in the transaction of that.
    """

    of: list[int] = field(default_factory=list)
    key: list[int] = field(default_factory=list)
    given: list[int] = field(default_factory=list)
    lasts: list[bool] = field(default_factory=list)
    displaced: list[tuple[int, int]] = field(default_factory=list)
    again: list[int] = field(default_factory=list)

    def add(self, key: int, given: int) -> int:
        """Adds a row; returns its number."""
        self.key.append(key)
        self.given.append(given)
        self.lasts.append(False)
        return len(self.key) - 1


def lanes(
    path: FastPath, looks: Looks, events: Events, stored: Mask, told: Told, given: Indexes
) -> Lanes:
    """Finds which row each look means.

    Args:
        path: of the table.
        looks: in order.
        events: the rows that they leave, and the keys that they remove.
        stored: by key, whether there is a row in the table.
        told: of the batch.
        given: of each given row the number of its key, -1 where nothing looks at it.
    """
    codes = _codes(path, looks, events, told)
    found = Lanes(of=[0] * len(looks.at))
    rows = _by_key(given)
    for key, numbers in _by_key(looks.key).items():
        own = codes.stored.get(key) if stored[key] else None
        one = _Key(found, key, own, told.exact)
        left = [(number, codes.given[number]) for number in rows.get(key, [])]
        one.give(left, codes.since, again=told.comes_again)
        one.run(looks, codes, numbers)
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
        given: of each given row.
        after: of each look, the row that it leaves.
        before: of each look, the row that it means, and which of its values are NULL.
        transaction: of each look the number of its transaction.
        since: the number of that of the given rows.
    """

    stored: dict[int, list[int]]
    given: list[list[int]]
    after: list[list[int]]
    before: list[tuple[list[int], list[bool]]]
    transaction: list[int]
    since: int


def _codes(path: FastPath, looks: Looks, events: Events, told: Told) -> _Codes:
    keys, first = np.unique(looks.key, return_index=True)
    index = told.index()
    found = index.find([events.columns[i].take(first) for i in path.key])
    before, transactions = told.befores(looks.event)
    given = told.displaced.rows if told.displaced else empty([type for _, type in path.schema])
    sizes = [len(found.probe) + len(given), len(looks.at), len(looks.at)]
    columns = [i for i in range(len(path.schema)) if i not in path.key]
    whole = np.zeros((sum(sizes), len(columns)), np.int64)
    nulls = np.zeros((sizes[2], len(columns)), np.bool_)
    for place, i in enumerate(columns):
        own = events.columns[i]
        old = own if before is None else before.columns[i]
        stored = found.rows.columns[index.columns.index(i)]
        pool = concat([stored, given.columns[i], own, old])
        whole[:, place] = group([pool], [path.schema[i][1]])[1]
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
    *transaction, since = _numbered(transactions, len(looks.at), told.displaced)
    return _Codes(
        dict(zip(at, rows[: len(at)], strict=True)),
        rows[len(at) : begin],
        rows[begin:middle],
        list(zip(rows[middle:], nulls.tolist(), strict=True)),
        transaction,
        since,
    )


def _numbered(texts: pa.Array | None, count: int, since: Displaced | None) -> list[int]:
    """Transactions as numbers, equal ones for equal texts; that of given rows is the last."""
    own = pa.nulls(count, pa.string()) if texts is None else texts.cast(pa.string())
    every = pa.concat_arrays([own, pa.array([since.transaction if since else None], pa.string())])
    numbers: list[int] = every.dictionary_encode().indices.fill_null(_UNKNOWN).to_pylist()
    return numbers


@dataclass
class _Row:
    """A row that is there.

    Attributes:
        lane: its number.
        codes: its values.
        displaces: whether it was moved here over another.
        is_again: whether it has come again in this transaction.
    """

    lane: int
    codes: list[int]
    displaces: bool = False
    is_again: bool = False


class _Key:
    """The rows under one key, the latest last."""

    def __init__(self, found: Lanes, key: int, stored: list[int] | None, exact: bool) -> None:
        self._found, self._key, self._exact = found, key, exact
        self._free = found.add(key, NEW if stored is None else STORED)
        self._rows: list[_Row] = []
        self._transaction, self._again = _UNKNOWN, False
        if stored is not None:
            self._rows.append(_Row(self._free, stored))

    def give(self, rows: Sequence[tuple[int, list[int]]], since: int, *, again: bool) -> None:
        """Puts given rows, by their numbers, before the stored one, to which they were displaced.

        Args:
            rows: their numbers and values.
            since: the number of their transaction.
            again: whether it comes again; then the stored row may be one of those that have.
        """
        if rows or again:
            older = [_Row(self._found.add(self._key, number), codes) for number, codes in rows]
            over = bool(rows)
            newer = [replace(row, displaces=over, is_again=again) for row in self._rows]
            self._rows, self._transaction, self._again = [*older, *newer], since, again

    def run(self, looks: Looks, codes: _Codes, numbers: Sequence[int]) -> None:
        """Takes the looks at the key in order."""
        for n in numbers:
            self._go_on(codes.transaction[n])
            if looks.comes[n]:
                is_known = codes.transaction[n] != _UNKNOWN
                moved = bool(looks.moves[n] or (looks.arrives[n] and is_known))
                lane = self._come(codes.after[n], moved=moved)
            elif looks.writes[n]:
                lane = self._change(codes.after[n], self._meant(*codes.before[n]))
            else:
                lane = self._go(*codes.before[n], moves=bool(looks.moves[n]))
            self._found.of[n] = self._free = lane
        if self._rows:
            self._found.lasts[self._rows[-1].lane] = True
        if any(row.displaces for row in self._rows):
            self._found.displaced.extend((row.lane, numbers[-1]) for row in self._rows[:-1])
        if self._again:
            self._found.again.append(numbers[-1])

    def _go_on(self, transaction: int) -> None:
        """Takes the displaced rows away behind their transaction."""
        if _UNKNOWN not in (transaction, self._transaction) and transaction != self._transaction:
            self._rows = [replace(row, is_again=False) for row in self._rows[-1:]]
            self._again = False
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
        if self._rows and not moved and _UNKNOWN in codes:  # what it lacks the row there has
            return self._change(codes, None)
        again = [] if self._exact else [row for row in self._rows if row.codes == codes]
        if again:
            self._rows.remove(again[0])
            lane = again[0].lane
        else:
            lane = self._found.add(self._key, NEW) if self._rows else self._free
        is_again = bool(again) and moved and self._transaction != _UNKNOWN
        self._again = self._again or is_again
        self._rows.append(_Row(lane, codes, moved and bool(self._rows), is_again))
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

    def _go(self, old: list[int], null: list[bool], *, moves: bool) -> int:
        if not self._rows:
            return self._free
        row, latest = self._meant(old, null), self._rows[-1]
        is_told = any(code != _UNKNOWN for code in old)
        if row is None and is_told and all(each.is_again for each in self._rows):
            return self._found.add(self._key, NEW)
        if row is None and moves and latest.displaces:
            row = self._rows[0]
        if row is None or (row is latest and not (self._exact or row.displaces)):
            self._rows.clear()
            return latest.lane
        self._rows.remove(row)
        return row.lane


def suspects(key: Indexes, over: Mask, comes: Mask, given: Indexes) -> Mask:
    """The looks at keys to which a row comes while another is there, and that are looked at again.

    Args:
        key: of each look, in order.
        over: whether it is of a row that comes while another one is there.
        comes: see `Looks`.
        given: keys at which all looks are such.
    """
    count = key.max(initial=-1) + 1
    displacing = over.nonzero()[0]
    first = np.full(count, len(key))
    np.minimum.at(first, key[displacing], displacing)
    chosen = np.zeros(count, np.bool_)
    chosen[key[~comes & (np.arange(len(key)) > first[key])]] = True
    chosen[given] = True
    found: Mask = chosen[key]
    return found
