"""The steps in which the rows that a query needs are found, one relation after the other.

Law: where each relation has the rows of its step alone, the answer is the same. A step asks for the
keys that the rows of steps before it have, so these are all that a join can pair with its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ivm.ingest.first_per_key import first_of_each
from ivm.reads.accesses import Access, Accesses, Origin, Table
from ivm.reads.verdicts import NO_KEY, NotFromStateError
from ivm.sql.scalar.lookup import Lookup, Range
from ivm.storage.values.column import Column, FixedColumn, Mask
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.values.zset import ZSet


class Indexed(NamedTuple):
    """A table with indexes.

    Attributes:
        name: its canonical name.
        schema: all its columns.
        keys: positions of the columns by which each index finds rows.
    """

    name: str
    schema: Schema
    keys: Sequence[tuple[int, ...]]


class Step(NamedTuple):
    """How the rows of one table are found.

    Attributes:
        table: whose rows.
        name: its canonical name.
        key: the columns by which they are found.
        by: what each of these equals; if there are several origins, they are of one table.
        range: of the only column instead, or None.
        types: of the key's columns.
    """

    table: Table
    name: str
    key: tuple[int, ...]
    by: tuple[Lookup | Origin, ...]
    range: Range | None
    types: tuple[ColumnType, ...]

    @property
    def columns(self) -> tuple[int, ...]:
        """The positions of the columns that are read."""
        return self.table[1]

    @property
    def is_constant(self) -> bool:
        """Whether all rows that are found have the same key."""
        return self.range is None and all(isinstance(each, Lookup) for each in self.by)

    def values(self, given: Sequence[Column], found: Mapping[Table, ZSet]) -> list[Column] | None:
        """The keys to look up, none twice; None if no row can have one.

        Args:
            given: the parameters' columns of one row.
            found: the rows that were found before, with the columns of their scans.
        """
        constants = [each.key(given) for each in self.by if isinstance(each, Lookup)]
        if None in constants:
            return None
        if len(constants) == len(self.by):
            return [column for column in constants if column is not None]
        return self._linked(given, found)

    def _linked(self, given: Sequence[Column], found: Mapping[Table, ZSet]) -> list[Column] | None:
        """The same where columns of another table are equal."""
        (table,) = {each.table for each in self.by if isinstance(each, Origin)}
        rows, columns = found[table], list[Column]()
        fit = np.ones(len(rows), np.bool_)
        for each, type in zip(self.by, self.types, strict=True):
            if isinstance(each, Lookup):
                column = each.key(given)
                assert column is not None
                columns.append(column.take(np.zeros(len(rows), np.int64)))
            else:
                column, fits = _as(rows.columns[each.column], each.type, type)
                columns.append(column)
                fit &= fits
        kept = np.flatnonzero(fit)
        kept = kept[first_of_each([column.take(kept) for column in columns], self.types)]
        return [column.take(kept) for column in columns] if len(kept) else None


def _as(column: Column, given: ColumnType, type: ColumnType) -> tuple[Column, Mask]:
    """A column as one of the key's type, and which of its values a key can have."""
    fits = np.ones(len(column), np.bool_) if column.valid is None else column.valid
    if given == type:
        return column, fits
    assert isinstance(column, FixedColumn)
    assert type.dtype is not None
    limits = np.iinfo(type.dtype)
    values = column.values
    fits = fits & (values >= int(limits.min)) & (values <= int(limits.max))
    return FixedColumn(values.astype(type.dtype)), fits


def steps_to(
    accesses: Accesses, tables: Mapping[Table, Indexed], known: Collection[Table]
) -> tuple[Step, ...]:
    """How the rows of all tables are found, in an order in which they can be.

    Args:
        accesses: the query's.
        tables: those that it reads.
        known: others, whose rows are known.

    Raises:
        NotFromStateError: those of one cannot be found.
    """
    found, reached, waiting = list[Step](), [*known, *accesses.lists], list(tables)
    while waiting:
        ways = [step_to(accesses, table, tables[table], reached) for table in waiting]
        possible = [way for way in ways if way is not None]
        if not possible:
            raise NotFromStateError(NO_KEY.format(tables[waiting[0]].name))
        step = min(possible, key=lambda way: way.range is not None)
        found.append(step)
        reached.append(step.table)
        waiting.remove(step.table)
    return tuple(found)


def step_to(
    accesses: Accesses, table: Table, indexed: Indexed, reached: Collection[Table]
) -> Step | None:
    """How the rows of a table are found if those of others are; None if they cannot be."""
    access = accesses.by_table.get(table, Access())
    for key in indexed.keys:
        types = tuple([indexed.schema[i][1] for i in key])
        for last in (None, *reached):
            by = [access.by(column, last) for column in key]
            equal = tuple([each for each in by if each is not None])
            if len(equal) == len(key):
                return Step(table, indexed.name, key, equal, None, types)
    for key in indexed.keys:
        type = indexed.schema[key[0]][1]
        if len(key) == 1 and type.is_ordered_word and key[0] in access.ranges:
            return Step(table, indexed.name, key, (), access.ranges[key[0]], (type,))
    return None
