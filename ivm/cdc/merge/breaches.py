"""The events whose rows take a UNIQUE key that another row has, or refer to no row.

Law: after the events that are left no two rows have one key, and each row has its parents. Of
several rows that would have one key, the one that has it already keeps it, then the one whose event
came first. What happens within a batch does not matter: rows may exchange their keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ivm.ingest.fast_path import FastPath
from ivm.ingest.further_keys import Positions, Removed, among, taken, whole_rows
from ivm.ingest.key_index import present
from ivm.ingest.key_texts import named
from ivm.storage.errors import ConstraintError
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column, Indexes, Mask
from ivm.storage.values.consolidate import group
from ivm.storage.values.types import ColumnType

_NOBODY, _STORED = -1, -2
_BACK = (
    "the row was out of the way while a statement upstream moves keys, and comes back now: insert "
    "the row that it refers to, or delete the one that has its key, and ingest the events again "
    "(of a source: RESUME SOURCE)"
)


def breaches(path: FastPath, change: TableChange, turns: Indexes) -> dict[int, str]:
    """Some of the events whose rows break a constraint, and why; {} if none does.

    Those that take a key from a row that may itself be refused are left for the next round.

    Args:
        path: of the table, in a transaction.
        change: what the events come to.
        turns: int64[n], for each row of `change.added` the number of its event, -1 for none.

    Raises:
        NotFastError: the rows cannot be looked up in this transaction.
        ConstraintError: a row breaks one that has no event here, see `displaced_rows`.
    """
    if path.further is None or not len(change.added):
        return {}
    found = _orphans(path, change, turns) or _collisions(path, change, turns)
    if -1 in found:
        raise ConstraintError(f"{found[-1]}; {_BACK}")
    return found


def _orphans(path: FastPath, change: TableChange, turns: Indexes) -> dict[int, str]:
    """The events whose rows refer to no row of another table."""
    assert path.further is not None
    found: dict[int, str] = {}
    for reference in path.further.parents:
        rows = whole_rows([change.added.columns[i] for i in reference.own])
        keys = [change.added.columns[i].take(rows) for i in reference.own]
        parents = path.index_by(reference.columns, reference.table)
        lacking = (~present(parents.find(keys), len(rows))).nonzero()[0]
        what = f"FOREIGN KEY constraint failed: no row of {reference.table} has"
        texts = _named(what, reference.names, [k.take(lacking) for k in keys], parents.key_types)
        found |= dict(zip(turns[rows[lacking]].tolist(), texts, strict=True))
    return found


def _collisions(path: FastPath, change: TableChange, turns: Indexes) -> dict[int, str]:
    """The events whose rows take a key of a row that stays."""
    assert path.further is not None
    holders = [(key, _holders(path, key, change, turns)) for key in path.further.uniques]
    lacking = np.zeros(len(change.added), np.bool_)
    for _, holder in holders:
        lacking |= holder != _NOBODY
    found: dict[int, str] = {}
    for key, holder in holders:
        rows = _certain(holder, lacking)
        found |= dict(zip(turns[rows].tolist(), _why_taken(path, key, change, rows), strict=True))
    if lacking.any() and not found:  # they have their keys of each other: the last one goes
        last = np.array([int(np.where(lacking, turns, -1).argmax())])
        key = next(key for key, holder in holders if holder[last[0]] != _NOBODY)
        found = {int(turns[last[0]]): _why_taken(path, key, change, last)[0]}
    return found


def _certain(holder: Indexes, lacking: Mask) -> Indexes:
    """The rows whose key is one of a row that stays."""
    by_new = holder >= 0
    by_new[by_new] = ~lacking[holder[by_new]]
    found: Indexes = (by_new | (holder == _STORED)).nonzero()[0]
    return found


def _holders(path: FastPath, key: Positions, change: TableChange, turns: Indexes) -> Indexes:
    """For each new row the new one that has its key, or `_STORED`, or `_NOBODY` but itself."""
    added = change.added
    holder = np.full(len(added), _NOBODY)
    whole = whole_rows([added.columns[i] for i in key])
    if not len(whole):
        return holder
    both, width = (*key, *path.key), len(key)
    new, types = [added.columns[i].take(whole) for i in both], [path.schema[i][1] for i in both]
    gone = Removed(change.removed, change.removed_columns, None).keys(both)
    stored = taken(new[:width], types[:width], path.index_by(key), gone[:width])
    keeps = among(new, gone, types)
    number = group(new[:width], types[:width]).inverse
    order = np.lexsort((np.where(keeps, -1, turns[whole]), number))[::-1]
    first = np.empty(len(whole), np.int64)
    first[number[order]] = order  # numpy keeps the last of repeated indexes
    owner = first[number]
    holder[whole] = np.where(owner == np.arange(len(whole)), _NOBODY, whole[owner])
    holder[whole[stored]] = _STORED
    return holder


def _why_taken(path: FastPath, key: Positions, change: TableChange, rows: Indexes) -> list[str]:
    """Why rows are refused that take a key."""
    columns = [change.added.columns[i].take(rows) for i in key]
    names, types = zip(*[path.schema[i] for i in key], strict=True)
    what = f"UNIQUE constraint failed: another row of {path.table} has"
    return _named(what, names, columns, types)


def _named(
    what: str, names: Sequence[str], keys: Sequence[Column], types: Sequence[ColumnType]
) -> list[str]:
    return [f"{what} {text}" for text in named(names, keys, types)]
