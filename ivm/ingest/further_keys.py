"""UNIQUE constraints and foreign keys of a table, checked in arrangements without DuckDB.

Law: a change passes here only if DuckDB would let it pass in the same transaction. DuckDB checks at
each statement, and is over-eager: a row that a transaction has removed still counts as a reference
to its parent until the commit, and the update of a column with an index is a removal.
A key with a NULL is equal to no other one and refers to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from ivm.ingest.key_index import KeyIndex, present
from ivm.ingest.key_texts import named, texts
from ivm.ingest.not_fast import NotFastError
from ivm.storage.errors import ConstraintError
from ivm.storage.values.column import Column, Indexes, Mask, concat
from ivm.storage.values.consolidate import all_distinct, group
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.tables.table_info import TableInfo

Positions: TypeAlias = tuple[int, ...]
Lookup: TypeAlias = Callable[[str, Positions], KeyIndex]
"""The arrangement of a table by columns; NotFastError if there is none, and none can be built now.
"""

_STILL = (
    "is still referenced by a foreign key in a different table. If this is an unexpected "
    "constraint violation, please refer to our foreign key limitations in the documentation"
)


MOVES_PARENTS = "it would move rows that foreign keys refer to, which DuckDB alone does, or refuses"


def moves_parents(info: TableInfo, sets: Collection[int], *, returning: bool) -> bool:
    """Returns whether an update of these columns may move rows that foreign keys refer to."""
    written = range(len(info.schema)) if returning else sets  # all, to return a row
    return bool(info.referenced_by) and not info.moved_by.isdisjoint(written)


@dataclass(frozen=True)
class Reference:
    """A foreign key, seen from one of its tables.

    Attributes:
        own: columns of that table.
        table: the other one.
        columns: those of the other one that are equal.
        names: of these.
    """

    own: Positions
    table: str
    columns: Positions
    names: tuple[str, ...]


class Removed(NamedTuple):
    """Rows that a statement takes out or replaces.

    Attributes:
        rows: with these columns of the table.
        columns: positions.
        sets: the columns that the rows replacing them may have other values in; None where they are
            not replaced.
    """

    rows: ZSet
    columns: Positions
    sets: Collection[int] | None

    def keys(self, positions: Positions) -> list[Column]:
        """The values of the rows in columns that they have."""
        return [self.rows.columns[self.columns.index(i)] for i in positions]


@dataclass(frozen=True)
class FurtherKeys:
    """What a table's rows have to fit besides its primary key.

    Attributes:
        table: canonical name.
        uniques: UNIQUE constraints and indexes.
        parents: foreign keys of the table.
        children: foreign keys of other tables to this one.
        moved_by: columns that DuckDB does not update in place, which matters if there are children.
    """

    table: str
    uniques: tuple[Positions, ...] = ()
    parents: tuple[Reference, ...] = ()
    children: tuple[Reference, ...] = ()
    moved_by: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.uniques or self.parents or self.children)

    def refuse(self, schema: Schema, added: ZSet, removed: Removed | None, lookup: Lookup) -> None:
        """Refuses a change of the table that does not fit.

        Args:
            schema: of the table.
            added: new rows with all columns.
            removed: what they replace, or what goes.
            lookup: finds rows of this table and the others.

        Raises:
            ConstraintError: in DuckDB's words.
            NotFastError: it cannot be decided here.
        """
        sets = None if removed is None else removed.sets
        kept = None  # columns in which no new value can be
        if removed is not None and sets is not None and len(added) == len(removed.rows):
            kept = set(range(len(schema))) - set(sets)
        if len(added):
            for positions in self.uniques:
                if kept is None or not kept.issuperset(positions):
                    _refuse_equal(_Key(schema, positions), added, removed, self.table, lookup)
            for reference in self.parents:
                if kept is None or not kept.issuperset(reference.own):
                    gone = removed if sets is None and reference.table == self.table else None
                    _refuse_orphans(reference, added, gone, lookup)
        if removed is not None and len(removed.rows) and self.children:
            if sets is not None and not self.moved_by.isdisjoint(sets):
                raise NotFastError(MOVES_PARENTS)
            for reference in self.children if sets is None else ():
                _refuse_referenced(reference, removed, lookup)

    def demand(self, lookup: Lookup) -> None:
        """Raises NotFastError if new rows cannot be checked here."""
        for positions in self.uniques:
            lookup(self.table, positions)
        for reference in self.parents:
            lookup(reference.table, reference.columns)


class _Key(NamedTuple):
    schema: Schema
    positions: Positions

    @property
    def names(self) -> tuple[str, ...]:
        return tuple([self.schema[i][0] for i in self.positions])

    @property
    def types(self) -> list[ColumnType]:
        return [self.schema[i][1] for i in self.positions]


def _refuse_equal(
    key: _Key, added: ZSet, removed: Removed | None, table: str, lookup: Lookup
) -> None:
    keys = whole_keys([added.columns[i] for i in key.positions])
    if not len(keys[0]):
        return
    if len(keys[0]) > 1 and not all_distinct(keys, key.types):
        at = repeated_at(keys, key.types)
        words = "Constraint Error: PRIMARY KEY or UNIQUE constraint violation: duplicate key "
        raise ConstraintError(f'{words}"{_values(keys, key.types, at)}"')
    gone = None if removed is None else removed.keys(key.positions)
    found = taken(keys, key.types, lookup(table, key.positions), gone)
    if found.any():
        shown = _named(key.names, keys, key.types, int(found.argmax()))
        raise ConstraintError(
            f'Constraint Error: Duplicate key "{shown}" violates unique constraint.'
        )


def _refuse_orphans(
    reference: Reference, added: ZSet, gone: Removed | None, lookup: Lookup
) -> None:
    """Refuses rows whose parents are not stored, or among those that go."""
    keys = whole_keys([added.columns[i] for i in reference.own])
    if not len(keys[0]):
        return
    index = lookup(reference.table, reference.columns)
    lacking = ~present(index.find(keys), len(keys[0]))
    if gone is not None:
        lacking |= among(keys, gone.keys(reference.columns), index.key_types)
    if lacking.any():
        shown = _named(reference.names, keys, index.key_types, int(lacking.argmax()))
        raise ConstraintError(
            f'Constraint Error: Violates foreign key constraint because key "{shown}" does not '
            "exist in the referenced table"
        )


def _refuse_referenced(reference: Reference, removed: Removed, lookup: Lookup) -> None:
    keys = whole_keys(removed.keys(reference.own))
    if not len(keys[0]):
        return
    index = lookup(reference.table, reference.columns)
    count = len(keys[0])
    found = present(index.find(keys), count) | present(index.find_committed(keys), count)
    if found.any():
        shown = _named(reference.names, keys, index.key_types, int(found.argmax()))
        raise ConstraintError(
            f'Constraint Error: Violates foreign key constraint because key "{shown}" {_STILL}'
        )


def taken(
    keys: Sequence[Column],
    types: Sequence[ColumnType],
    index: KeyIndex,
    gone: Sequence[Column] | None,
) -> Mask:
    """The mask of the keys that stored rows have which stay.

    Args:
        keys: of new rows; no NULL is among them.
        types: of the columns.
        index: of the stored rows by these columns.
        gone: the keys of the stored rows that go, or are replaced; None for none.
    """
    found = present(index.find(keys), len(keys[0]))
    if gone is not None and found.any():
        found &= ~among(keys, gone, types)
    return found


def whole_keys(keys: Sequence[Column]) -> list[Column]:
    """The keys without a NULL."""
    if all(key.valid is None for key in keys):
        return list(keys)
    whole = whole_rows(keys)
    return [key.take(whole) for key in keys]


def whole_rows(keys: Sequence[Column]) -> Indexes:
    """The indexes of the keys without a NULL."""
    whole = np.ones(len(keys[0]), np.bool_)
    for key in keys:
        if key.valid is not None:
            whole &= key.valid
    return whole.nonzero()[0]


def repeated_at(keys: Sequence[Column], types: Sequence[ColumnType]) -> int:
    """The index of a row that others are equal to."""
    groups = group(keys, types)
    return int(groups.first[np.bincount(groups.inverse).argmax()])


def among(keys: Sequence[Column], others: Sequence[Column], types: Sequence[ColumnType]) -> Mask:
    """The mask of the rows of `keys` that have an equal row in `others`."""
    count = len(keys[0])
    if len(others[0]) == 0 or count == 0:
        return np.zeros(count, np.bool_)
    both = [concat([a, b]) for a, b in zip(keys, others, strict=True)]
    groups = group(both, types)
    seen = np.zeros(len(groups.first), np.bool_)
    seen[groups.inverse[count:]] = True
    return seen[groups.inverse[:count]]


def _named(
    names: Sequence[str], keys: Sequence[Column], types: Sequence[ColumnType], at: int
) -> str:
    return named(names, _one(keys, at), types)[0]


def _values(keys: Sequence[Column], types: Sequence[ColumnType], at: int) -> str:
    return ", ".join(texts(_one(keys, at), types)[0])


def _one(keys: Sequence[Column], at: int) -> list[Column]:
    return [key.take(np.array([at])) for key in keys]
