"""The rows that a change by a source updates, deletes and adds, found by a key index.

Law: a row of the target and one of the source are a pair if all conjuncts are true; those that
compare the key with columns of the source find it, the others are evaluated for the pairs found. A
row of the target in several pairs, of which DuckDB would choose one or refuse all, is left to it.
What a branch sets or inserts has values for all rows, whether or not the branch is for them.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ivm.changes.read.joined_clauses import Branch, JoinedChange
from ivm.changes.read.sources import parts_of
from ivm.changes.values.row_expressions import Part, RowExpressions
from ivm.ingest.effect import Effect
from ivm.ingest.fast_path import FastPath
from ivm.ingest.first_per_key import first_of_each
from ivm.ingest.key_index import KeyIndex
from ivm.ingest.not_fast import NotFastError, demanded
from ivm.sql.statements.nodes.expressions import Expression
from ivm.sql.statements.nodes.nodes import Name
from ivm.storage.identifiers import fold, quote
from ivm.storage.values.column import Column, Indexes, Mask, null_column
from ivm.storage.values.consolidate import all_distinct
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.values.zset import ZSet, add, empty, ones


@dataclass(frozen=True)
class Join:
    """How the rows of a table and a source find each other.

    Attributes:
        change: what is done with them.
        reference: by which the statement calls the table.
        path: of the table, which has a primary key.
        parts: the columns of its sources, as expressions see them.
        by: of these, one source's after the other's, those that the key is compared with.
        conditions: the conjuncts that are left.
    """

    change: JoinedChange
    reference: str
    path: FastPath
    parts: tuple[Part, ...]
    by: tuple[int, ...]
    conditions: tuple[Expression, ...]

    @functools.cached_property
    def source(self) -> Schema:
        """The columns of all sources."""
        return tuple([column for schema, _ in self.parts for column in schema])

    @functools.cached_property
    def names(self) -> list[Expression]:
        """What reads these columns in the statement."""
        return [
            Expression(f"{quote(qualifiers[-1])}.{quote(name)}")
            for schema, qualifiers in self.parts
            for name, _ in schema
        ]

    @property
    def needs_all(self) -> bool:
        """Returns whether the table's rows are needed with all their columns."""
        branches = self.change.matched
        simple = all(b.action == "delete" and b.condition is None for b in branches)
        return not simple or bool(self.conditions or self.change.returned)


SETS_KEY = "it sets columns of the primary key"
_MANY = "the rows that meet its condition are many, or there is no kernel that finds them"
NO_JOIN = (
    "its condition does not compare the whole primary key with columns of the source, of its types"
)
NO_PARTS = "the columns of its sources are not told apart by their names"


def join_of(change: JoinedChange, reference: str, path: FastPath, schema: Schema) -> Join:
    """Splits the conjuncts.

    Args:
        schema: of the source's query.

    Raises:
        NotFastError: they do not compare the whole key with columns alike.
    """
    if change.plain is not None and len(schema) > 1:
        raise NotFastError(NO_JOIN)  # IN takes one column
    parts = demanded(parts_of(schema, change.aliases), NO_PARTS)
    if not _are_clear(parts, reference):
        raise NotFastError(NO_PARTS)
    join = Join(change, reference, path, parts, (), ())
    scope, source = _Scope(((path.schema, ("", reference)), *parts)), join.source
    by: dict[int, int] = {}
    rest = []
    for conjunct in change.conjuncts:
        pair = None if conjunct.names is None else scope.pair(conjunct.names)
        if pair is None or pair[0] not in path.key or pair[0] in by:
            rest.append(conjunct.expression)
        elif not _are_alike(path.schema[pair[0]][1], source[pair[1]][1]):
            raise NotFastError(NO_JOIN)
        else:
            by[pair[0]] = pair[1]
    if not path.key or len(by) < len(path.key):
        raise NotFastError(NO_JOIN)
    return replace(join, by=tuple([by[i] for i in path.key]), conditions=tuple(rest))


def _are_clear(parts: Sequence[Part], reference: str) -> bool:
    """Returns whether no column of a source has the name of another, nor a source the table's.

    Nor has a column the name of the table's row number, which the schema does not list.
    """
    for schema, qualifiers in parts:
        names = {"rowid", *[fold(name) for name, _ in schema]}
        if len(names) <= len(schema) or fold(qualifiers[-1]) == fold(reference):
            return False
    return True


class _Scope:
    """Finds the columns that names mean in a table, the first part, and its sources."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self._parts = parts

    def pair(self, names: tuple[Name, Name]) -> tuple[int, int] | None:
        """The positions of a column of the table and one of the source; None for others."""
        found = [self._find(name) for name in names]
        sides = {side: position for each in found if each is not None for side, position in (each,)}
        return (sides[0], sides[1]) if len(sides) == 2 else None

    def _find(self, parts: Name) -> tuple[int, int] | None:
        *qualifier, column = [fold(part) for part in parts]
        found, first = [], 0
        for number, (schema, qualifiers) in enumerate(self._parts):
            if not qualifier or qualifier == [fold(qualifiers[-1])]:
                names = [fold(name) for name, _ in schema]
                found += [(min(number, 1), first + i) for i, n in enumerate(names) if n == column]
            first += len(schema) if number else 0
        return found[0] if len(found) == 1 else None


def _are_alike(key: ColumnType, other: ColumnType) -> bool:
    """Returns whether comparing the two is comparing them as values of the key's type."""
    return key.sql == other.sql or (key.is_integer and other.is_integer)


def _chosen(rows: ZSet, mask: Mask) -> ZSet:
    return rows if mask.all() else rows.filter(mask)


def _joined(parts: Sequence[ZSet]) -> ZSet:
    filled = [part for part in parts if len(part)] or [parts[0]]
    return add(filled) if len(filled) > 1 else filled[0]


class JoinedRows:
    """The rows of one change.

    Args:
        join: how they are found.
        index: of the table; with all columns if they are needed.
        rows: of the source.
        over: gives the expressions over some columns.
    """

    def __init__(
        self,
        join: Join,
        index: KeyIndex,
        rows: ZSet,
        over: Callable[[tuple[Part, ...]], RowExpressions],
    ) -> None:
        self.join, self.index, self._rows = join, index, rows
        path = join.path
        held = tuple([path.schema[i] for i in index.columns])
        target: Part = (held, ("", join.reference))
        self._both = over((target, *join.parts))
        self._alone = over(join.parts)

    def demand_sets(self) -> None:
        """Raises NotFastError unless all that is set has values, if the rows make none fail."""
        for position, expression in self._sets():
            self._both.demand_kernel(expression, self.join.path.schema[position][1])

    def effect(self, stored: ZSet, probe: Indexes) -> Effect:
        """What the change does to pairs.

        Args:
            stored: rows of the table, with the columns of the index.
            probe: for each the position of the row of the source.

        Raises:
            NotFastError: DuckDB must run it.
        """
        change, added = self.join.change, None
        if change.pieces is None:
            alone = self._unmatched(probe)
            self._demand_values(self._rows.filter(alone))
            added = self._added(alone) if change.unmatched else None
            added = added if added is None or len(added) else None
        if self.join.source and not self._are_distinct(stored):
            if not change.once:
                raise NotFastError("a row meets several of the source, of which DuckDB takes one")
            first = first_of_each(self._keys(stored), self._key_types())
            stored, probe = stored.take(first), probe[first]
        sets = frozenset([position for position, _ in self._sets()])
        return Effect(*self._changed(stored, probe), added, sets)

    def meeting(self, condition: Expression, most: int, entries: int) -> ZSet:
        """The table's rows that meet a condition, which fails for no row of the table.

        Args:
            condition: that can be decided by a row alone.
            most: rows to find.
            entries: of the index to look at, where the key's bounds do not suffice.

        Raises:
            NotFastError: DuckDB must find them.
        """

        def mask(rows: ZSet, *, of_all: bool = False) -> Mask:
            return self._both.mask(condition, rows.columns, len(rows), of_all=of_all)

        near = self._between(condition, most)
        if near is not None:
            with contextlib.suppress(NotFastError):
                return near.filter(mask(near, of_all=True))
        if self.index.row_count > entries:
            raise NotFastError(_MANY)
        return demanded(self.index.where(mask, most), _MANY)

    def _between(self, condition: Expression, most: int) -> ZSet | None:
        """The rows between the bounds that a condition sets to the key; None if they are many."""
        types = self._key_types()
        if len(types) > 1 or not types[0].is_ordered_word:
            return None
        bounds = self._both.bounds(condition, self.index.key[0])
        return None if bounds is None else self.index.between(*bounds, most, committed=False)

    def pairs(self) -> tuple[ZSet, Indexes]:
        """The pairs that the key finds, as `effect` takes them; NotFastError as above."""
        rows = self._rows
        by = zip(self.join.by, self._key_types(), strict=True)
        found = [self._cast(position, type, rows) for position, type in by]
        given = np.arange(len(rows))
        if any(column.valid is not None for column in found):
            known = [column.valid for column in found if column.valid is not None]
            given = np.flatnonzero(np.logical_and.reduce(known))
            found = [column.take(given) for column in found]
        matches = self.index.find(found)
        stored, probe = matches.rows, given[matches.probe]
        for condition in self.join.conditions:
            columns = self._columns(stored, probe)
            mask = self._both.mask(condition, columns, len(stored), of_all=True)
            stored, probe = stored.filter(mask), probe[mask]
        return stored, probe

    def _columns(self, stored: ZSet, probe: Indexes) -> list[Column]:
        return [*stored.columns, *[column.take(probe) for column in self._rows.columns]]

    def _cast(self, position: int, type: ColumnType, rows: ZSet) -> Column:
        """A column of the source, cast to a type."""
        if self.join.source[position][1].sql == type.sql:
            return rows.columns[position]
        return self._alone.value(self.join.names[position], type, rows.columns, len(rows))

    def _key_types(self) -> list[ColumnType]:
        return [self.join.path.schema[i][1] for i in self.join.path.key]

    def _keys(self, stored: ZSet) -> list[Column]:
        return [stored.columns[self.index.columns.index(i)] for i in self.join.path.key]

    def _are_distinct(self, stored: ZSet) -> bool:
        return len(stored) < 2 or all_distinct(self._keys(stored), self._key_types())

    # -- pairs ----------------------------------------------------------------------------------

    def _changed(self, stored: ZSet, probe: Indexes) -> tuple[ZSet, ZSet, ZSet | None]:
        """The stored rows that are deleted, those that are updated, and their new values."""
        none = stored.slice(0, 0)
        deleted, replaced, updated = [none], [none], []
        columns = self._columns(stored, probe)
        for branch, mask in self._parts(self._both, self.join.change.matched, columns):
            if branch.action == "delete":
                deleted.append(_chosen(stored, mask))
            elif branch.action == "update":
                new = self._updated(branch, stored, columns)
                replaced.append(_chosen(stored, mask))
                updated.append(_chosen(new, mask))
        return _joined(deleted), _joined(replaced), _joined(updated) if updated else None

    def _parts(
        self, expressions: RowExpressions, branches: Sequence[Branch], columns: Sequence[Column]
    ) -> Iterator[tuple[Branch, Mask]]:
        """The rows that each branch is for."""
        left = np.ones(len(columns[0]), np.bool_)
        for branch in branches:
            mask = left.copy()
            if branch.condition is not None:
                mask &= expressions.mask(branch.condition, columns, len(left))
            yield branch, mask
            left &= ~mask

    def _updated(self, branch: Branch, stored: ZSet, columns: Sequence[Column]) -> ZSet:
        """The new values of all stored rows, also of those that the branch is not for."""
        schema = self.join.path.schema
        sets = self._positions([name for name, _ in branch.sets])
        if not set(sets).isdisjoint(self.join.path.key):
            raise NotFastError(SETS_KEY)
        new = list(stored.columns)
        for position, (_, expression) in zip(sets, branch.sets, strict=True):
            type = schema[position][1]
            new[position] = self._both.value(expression, type, columns, len(stored))
        return ZSet(tuple(new), ones(len(stored)))

    def _sets(self) -> list[tuple[int, Expression]]:
        """What all branches set, by position."""
        found: list[tuple[int, Expression]] = []
        for branch in self.join.change.matched:
            positions = self._positions([name for name, _ in branch.sets])
            found += zip(positions, [expression for _, expression in branch.sets], strict=True)
        return found

    def _positions(self, names: Sequence[str]) -> list[int]:
        """The positions of columns of the table; NotFastError if one is unknown or named twice."""
        known = {fold(name): i for i, (name, _) in enumerate(self.join.path.schema)}
        found = [known.get(fold(name)) for name in names]
        positions = [i for i in found if i is not None]
        if len(set(positions)) < len(names):
            raise NotFastError("it names an unknown column, or one twice")
        return positions

    # -- rows of the source that match none -----------------------------------------------------

    def _unmatched(self, probe: Indexes) -> Mask:
        unmatched = np.ones(len(self._rows), np.bool_)
        unmatched[probe] = False
        return unmatched

    def _demand_values(self, rows: ZSet) -> None:
        """Demands that all that is set has values for rows that match none, too.

        DuckDB computes them, the table's columns being NULL, and refuses the statement if one
        fails.
        """
        schema = self.join.path.schema
        nothing = [null_column(schema[i][1], len(rows)) for i in self.index.columns]
        for position, expression in self._sets() if len(rows) else ():
            type = schema[position][1]
            self._both.demand_values(expression, type, [*nothing, *rows.columns])

    def _added(self, alone: Mask) -> ZSet:
        """The rows that are inserted, with all columns."""
        columns = self._rows.columns
        added = [empty([type for _, type in self.join.path.schema])]
        for branch, mask in self._parts(self._alone, self.join.change.unmatched, columns):
            if branch.action == "insert":
                new = self._inserted(branch, self._rows)
                added.append(_chosen(new, mask & alone))
        return _joined(added)

    def _inserted(self, branch: Branch, rows: ZSet) -> ZSet:
        """All rows of the source as the branch inserts them, also those that it is not for."""
        path, count = self.join.path, len(rows)
        every = [name for name, _ in path.schema]
        positions = self._positions(every if branch.columns is None else branch.columns)
        width = len(self.join.source) if branch.values is None else len(branch.values)
        if len(positions) != width:
            raise NotFastError("it gives another number of values than of columns")
        given: dict[int, Column] = {}
        for number, position in enumerate(positions):
            type = path.schema[position][1]
            if branch.values is None:
                given[position] = self._cast(number, type, rows)
            else:
                value = branch.values[number]
                given[position] = self._alone.value(value, type, rows.columns, count)
        return ZSet(path.complete(given, count), ones(count))
