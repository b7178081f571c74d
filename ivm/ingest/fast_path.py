"""The fast path: turns columns of new or old rows into a change of a table, without DuckDB.

Contract: a change made here applies to the stored table without breaking its key, NOT NULL, types
or CHECKs; a change that cannot be applied is refused with nothing changed. Retractions are of the
*stored* row, looked up by key; the caller's idea of the old row is never used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from ivm.ingest.evaluated_defaults import EvaluatedDefault
from ivm.ingest.further_keys import FurtherKeys, Lookup, NeedsDuckDBError, Removed, among
from ivm.ingest.key_index import KeyIndex, present
from ivm.storage.arrangement.arrangement import Matches
from ivm.storage.errors import ConstraintError, InputError
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column, Indexes, Mask, concat, null_column
from ivm.storage.values.consolidate import all_distinct, consolidate, group
from ivm.storage.values.key_codes import same_row
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.values.zset import Weights, ZSet, empty, ones

Check = tuple[str, Callable[[Sequence[Column], int], Mask]]
"""A CHECK's text and a kernel that is false exactly where it is violated."""
Evaluate: TypeAlias = Callable[[Mapping[int, EvaluatedDefault], int], dict[int, Column]]
"""Evaluates defaults, by position, for a number of rows."""


AT_ONCE = 2048
"""Rows that DuckDB inserts or updates at once; keys that later ones leave are not free before."""


@dataclass(frozen=True)
class FastPath:
    """Everything that the fast path must know of one table.

    Attributes:
        table: canonical name.
        schema: its columns.
        key: positions of the primary key, empty for a keyless table.
        required: positions of NOT NULL columns, the key's included.
        defaults: position to a one-row column with the constant default.
        checks: CHECK constraints that kernels evaluate.
        evaluated: position to a default that is evaluated for each row.
        evaluate: evaluates them in the running transaction.
        further: UNIQUE constraints and foreign keys.
        lookup: finds rows by these in the running transaction.
        takes_only: rows can be added, and none removed: the table is not stored, and has no key.
    """

    table: str
    schema: Schema
    key: tuple[int, ...]
    required: tuple[int, ...]
    defaults: Mapping[int, Column]
    checks: tuple[Check, ...]
    evaluated: Mapping[int, EvaluatedDefault] = field(default_factory=dict)
    evaluate: Evaluate | None = field(default=None, compare=False, repr=False)
    further: FurtherKeys | None = None
    lookup: Lookup | None = field(default=None, compare=False, repr=False)
    takes_only: bool = False
    _nothing: dict[tuple[int, ...] | None, ZSet] = field(
        default_factory=dict, compare=False, repr=False
    )

    @property
    def index_key(self) -> tuple[int, ...]:
        """The positions that rows are looked up by: the key, or all columns if there is none."""
        return self.key or tuple(range(len(self.schema)))

    def insert(self, given: dict[int, Column], count: int, index: KeyIndex | None) -> TableChange:
        """Adds rows; columns not given take their default or NULL.

        Args:
            given: column by position.
            count: rows.
            index: needed for a keyed table.

        Raises:
            ConstraintError: a constraint is violated, or a key exists already.
            NeedsDuckDBError: only DuckDB can add them; no sequence has advanced.
        """
        if self.draws(given):
            self.demand_further()
        rows = ZSet(self.complete(given, count), ones(count))
        self.check(rows)
        if self.key:
            assert index is not None
            self._refuse_repeated(rows)
            keys = [rows.columns[i] for i in self.key]
            known = index.find(keys)
            if len(known.probe):
                self._refuse_known(keys, present(known, count))
        self.check_further(rows, None)
        return self.change(rows, None)

    def upsert(self, given: dict[int, Column], count: int, index: KeyIndex) -> TableChange:
        """Adds rows, or changes stored ones; the last of several rows with one key wins.

        Columns not given keep their value where the key is stored (then `index` must hold all
        columns), and take their default where it is not.

        Raises:
            InputError: the table has no key, or a key column is missing.
            ConstraintError: a constraint is violated.
            NeedsDuckDBError: as of `insert`.
        """
        self._need_key("upsert", given)
        if self.draws(given):
            self.demand_further()
        if count > 1:
            last = last_of_each([given[i] for i in self.key], self._key_types())
            if len(last) < count:
                given, count = {i: c.take(last) for i, c in given.items()}, len(last)
        matches = index.find([given[i] for i in self.key])
        columns = self.complete(given, count)
        if len(given) < len(self.schema):
            columns = self._keep_stored(columns, given, matches.probe, matches.rows, index)
        rows = ZSet(columns, ones(count))
        self.check(rows)
        self.check_further(rows, Removed(matches.rows, index.columns, given.keys() - {*self.key}))
        return self.change(rows, matches.rows, index)

    def delete(self, given: dict[int, Column], count: int, index: KeyIndex) -> TableChange:
        """Removes rows by key, from a keyless table whole rows: one for each row given.

        Raises:
            InputError: a key column is missing, or a column is no key column.
            ConstraintError: a row is not stored.
        """
        self._need_exactly(given)
        keys = ZSet(tuple([given[i] for i in self.index_key]), ones(count))
        removal = self._remove(keys, index)
        self.check_further(self._none(), Removed(removal.removed, index.columns, None))
        return removal

    def apply(self, given: dict[int, Column], weights: Weights, index: KeyIndex) -> TableChange:
        """Applies a Z-set: removes rows with negative weights, then adds rows with positive ones.

        Args:
            given: all columns by position.
            weights: int64[n]; ±1 for a keyed table.

        Raises:
            InputError: a column is missing.
            ConstraintError: a removed row is not stored, an added key exists, a constraint fails.
        """
        self._need_all(given)
        rows = ZSet(tuple(given[i] for i in range(len(self.schema))), weights)
        if self.key and len(weights) and np.abs(weights).max() > 1:
            raise ConstraintError(
                f"table {self.table!r} has a primary key: a row's weight is 1 or -1, "
                f"not {weights[np.abs(weights).argmax()]}"
            )
        old, new = rows.filter(weights < 0).negate(), rows.filter(weights > 0)
        removal = self._remove(old.project(self.index_key), index)
        self.check(new)
        if self.key:
            self._refuse_repeated(new)
            keys = [new.columns[i] for i in self.key]
            known = present(index.find(keys), len(new))
            known &= ~among(keys, [old.columns[i] for i in self.key], self._key_types())
            self._refuse_known(keys, known)
        removed = Removed(removal.removed, removal.removed_columns, None)
        self.check_further(new, removed)
        return TableChange(self.table, removal.removed, removal.removed_columns, new)

    def _remove(self, keys: ZSet, index: KeyIndex) -> TableChange:
        if len(keys):
            self.demand_removable()
        types = [self.schema[i][1] for i in self.index_key]
        unique, wanted = self._distinct(keys, types)
        matches = index.find(unique)
        if not self.key:  # only the same row is deleted: 0.0 is not −0.0 here
            own = same_row(unique, matches.probe, matches.rows.columns, _all(matches.rows), types)
            matches = Matches(matches.probe[own], matches.rows.filter(own))
        stored = np.zeros(len(wanted), np.int64)
        np.add.at(stored, matches.probe, matches.rows.weights)
        if (stored < wanted).any():
            self._refuse_unknown(unique, int((stored < wanted).argmax()))
        if self.key and (wanted > 1).any():
            self._refuse_unknown(unique, int((wanted > 1).argmax()))
        taken = _take_counts(matches.probe, matches.rows.weights, wanted)
        removed = ZSet(matches.rows.columns, taken).filter(taken > 0)
        return self.change(None, removed, index)

    def _distinct(
        self, keys: ZSet, types: Sequence[ColumnType]
    ) -> tuple[Sequence[Column], Weights]:
        """The different rows to remove, and the count of each."""
        if not self.key:
            rows = consolidate(keys, types)
            return rows.columns, rows.weights
        if all_distinct(keys.columns, types):
            return keys.columns, keys.weights
        groups = group(keys.columns, types)
        counts = np.zeros(len(groups.first), np.int64)
        np.add.at(counts, groups.inverse, keys.weights)
        return [c.take(groups.first) for c in keys.columns], counts

    def demand_removable(self) -> None:
        """Raises InputError if the table only takes rows."""
        if self.takes_only:
            raise InputError(
                f"rows of {self.table!r} can be added, not deleted: its history lies in files, and "
                "it has no PRIMARY KEY that would tell its rows apart; create it with one"
            )

    def no_index(self) -> KeyIndex:
        """An index without rows, for a table that only takes some: its own are not looked up."""
        every = tuple(range(len(self.schema)))
        return KeyIndex(self.schema, every, every, (), unique=False)

    def nothing(self, index: KeyIndex) -> TableChange:
        """The change that changes nothing."""
        return self.change(None, None, index)

    def change(
        self, added: ZSet | None, removed: ZSet | None, index: KeyIndex | None = None
    ) -> TableChange:
        columns = index.columns if index is not None else self.index_key
        old = self._none(columns) if removed is None else removed
        return TableChange(self.table, old, columns, self._none() if added is None else added)

    def nothing_twice(self) -> tuple[ZSet, list[Column]]:
        """No stored row, and the columns of none that is to be added."""
        return self._none(), list(self._none().columns)

    def _none(self, columns: tuple[int, ...] | None = None) -> ZSet:
        """No rows, of some of the table's columns (None: all)."""
        found = self._nothing.get(columns)
        if found is None:
            positions = range(len(self.schema)) if columns is None else columns
            found = self._nothing[columns] = empty([self.schema[i][1] for i in positions])
        return found

    @property
    def is_plain(self) -> bool:
        """Returns whether it needs no transaction: see `within`."""
        return self.further is None and not self.evaluated

    def within(self, evaluate: Evaluate, lookup: Lookup) -> FastPath:
        """The same in a transaction, which evaluates defaults and finds rows by further keys."""
        return replace(self, evaluate=evaluate, lookup=lookup)

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        """The primary key, and the columns of UNIQUE constraints."""
        key = (self.key,) if self.key else ()
        return key if self.further is None else (*key, *self.further.uniques)

    def index_by(self, key: tuple[int, ...]) -> KeyIndex:
        """The arrangement of the table by a UNIQUE constraint; raises NeedsDuckDBError."""
        index = None if self.lookup is None else self.lookup(self.table, key)
        if index is None:
            raise NeedsDuckDBError
        return index

    def fits_key(self, added: ZSet, removed: ZSet, index: KeyIndex) -> bool:
        """Returns whether rows that replace others, perhaps under other keys, take no stored key.

        Args:
            added: with all columns, none of the key NULL.
            removed: the stored rows, with the columns of the index.
        """
        keys, types = [added.columns[i] for i in self.key], self._key_types()
        if len(added) > 1 and not all_distinct(keys, types):
            return False
        known = present(index.find(keys), len(added))
        gone = [removed.columns[index.columns.index(i)] for i in self.key]
        return not (known & ~among(keys, gone, types)).any()

    def updates_at_once(self, sets: Collection[int], count: int) -> bool:
        """Returns whether so many rows do not get in each other's way in DuckDB."""
        return count <= AT_ONCE or all(set(sets).isdisjoint(key) for key in self.keys)

    def set_columns(self, sets: Collection[int], *, returning: bool) -> Collection[int]:
        """The columns that DuckDB writes where an update sets some: all, to return a row."""
        return range(len(self.schema)) if returning else sets

    def check_further(self, added: ZSet, removed: Removed | None) -> None:
        """Checks UNIQUE constraints and foreign keys; see `FurtherKeys.refuse`."""
        if self.further is not None:
            assert self.lookup is not None
            self.further.refuse(self.schema, added, removed, self.lookup)

    def demand_further(self) -> None:
        """Raises NeedsDuckDBError if UNIQUE constraints or foreign keys cannot be checked here."""
        if self.further is not None:
            assert self.lookup is not None
            self.further.demand(self.lookup)

    def may_fit(self, given: Mapping[int, Column], count: int, index: KeyIndex | None) -> bool:
        """Returns whether rows may be added, as far as it is known before sequences are drawn from.

        Args:
            given: column by position.
            count: rows.
            index: needed for a keyed table.
        """
        drawn = {i for i, one in self.evaluated.items() if one.draws and i not in given}
        known = {i: null_column(self.schema[i][1], count) for i in drawn}
        rows = ZSet(self.complete({**given, **known}, count), ones(count))
        if any(position not in drawn for position, *_ in self.violations(rows)):
            return False
        if self.key and drawn.isdisjoint(self.key):
            assert index is not None
            keys = [rows.columns[i] for i in self.key]
            if not all_distinct(keys, self._key_types()) or len(index.find(keys).probe):
                return False
        return self.fits_further(rows, None)

    def fits_further(self, added: ZSet, removed: Removed | None) -> bool:
        """Returns whether they pass, which is certain; else DuckDB is to run the statement."""
        try:
            self.check_further(added, removed)
        except (ConstraintError, NeedsDuckDBError):
            return False
        return True

    def draws(self, given: Mapping[int, Column]) -> bool:
        """Returns whether rows with these columns take values of sequences, which is not undone."""
        return any(one.draws for i, one in self.evaluated.items() if i not in given)

    def evaluated_too(self, given: Mapping[int, Column], count: int) -> Mapping[int, Column]:
        """The columns given and those whose defaults are evaluated for each row."""
        missing = {i: one for i, one in self.evaluated.items() if i not in given}
        if not missing:
            return given
        assert self.evaluate is not None
        return {**given, **self.evaluate(missing, count)}

    def complete(self, given: Mapping[int, Column], count: int) -> tuple[Column, ...]:
        """All columns, those not given with their defaults."""
        known = self.evaluated_too(given, count) if self.evaluated else given
        return tuple(
            [known[i] if i in known else self.default(i, count) for i in range(len(self.schema))]
        )

    def default(self, position: int, count: int) -> Column:
        constant = self.defaults.get(position)
        if constant is None:
            return null_column(self.schema[position][1], count)
        return constant.take(np.zeros(count, np.int64))

    def _keep_stored(
        self,
        columns: tuple[Column, ...],
        given: Mapping[int, Column],
        probe: np.ndarray[tuple[int], np.dtype[np.int64]],
        stored: ZSet,
        index: KeyIndex,
    ) -> tuple[Column, ...]:
        """Replaces columns that are not given by their stored values, at rows that are stored."""
        filled = list(columns)
        count = len(columns[0])
        # Behind the new rows stand the stored ones; a stored row's values are taken from there.
        source = np.arange(count)
        source[probe] = count + np.arange(len(probe))
        for position in range(len(self.schema)):
            if position not in given:
                old = stored.columns[index.columns.index(position)]
                filled[position] = concat([filled[position], old]).take(source)
        return tuple(filled)

    def check(self, rows: ZSet) -> None:
        """Raises ConstraintError if a row violates NOT NULL or a CHECK."""
        for position, why, violated in self.violations(rows):
            row = self._row(rows, int(violated[0]))
            if position is not None:
                raise ConstraintError(f"{why}: row {row} has none; give a value")
            raise ConstraintError(f"{why} for row {row}; nothing was changed")

    def violations(self, rows: ZSet) -> Iterator[tuple[int | None, str, Indexes]]:
        """Rows that violate NOT NULL or a CHECK.

        Args:
            rows: with all columns of the table.

        Returns:
            The position of the column that is NULL or None for a CHECK, the beginning of the
            message, and the indexes of the rows, for each violated constraint.
        """
        for position in self.required:
            valid = rows.columns[position].valid
            if valid is not None and not valid.all():
                yield position, self.why_not_null(position), (~valid).nonzero()[0]
        for text, holds in self.checks:
            mask = holds(rows.columns, len(rows))
            if not mask.all():
                why = f"CHECK constraint failed on table {self.table}: {text} is false"
                yield None, why, (~mask).nonzero()[0]

    def why_not_null(self, position: int) -> str:
        """The beginning of the message that a NOT NULL column has no value."""
        return f"NOT NULL constraint failed: {self.table}.{self.schema[position][0]}"

    def _refuse_repeated(self, rows: ZSet) -> None:
        if len(rows) < 2:
            return
        keys = [rows.columns[i] for i in self.key]
        if all_distinct(keys, self._key_types()):
            return
        groups = group(keys, self._key_types())
        at = int(groups.first[np.bincount(groups.inverse).argmax()])
        raise ConstraintError(
            f"Duplicate key {self._key_text(keys, at)} within the rows for table "
            f"{self.table!r}: keep one of them, or use upsert (the last one wins)"
        )

    def _refuse_known(self, keys: Sequence[Column], known: Mask) -> None:
        if known.any():
            raise ConstraintError(
                f"Duplicate key {self._key_text(keys, int(known.argmax()))} violates the primary "
                f"key of table {self.table!r}: the row exists; replace it by "
                "INSERT OR REPLACE or upsert"
            )

    def _refuse_unknown(self, keys: Sequence[Column], at: int) -> None:
        what = "key" if self.key else "row"
        raise ConstraintError(
            f"cannot delete {what} {self._key_text(keys, at)} of table {self.table!r}: it is not "
            "stored (as often); nothing was changed"
        )

    def _need_key(self, what: str, given: Mapping[int, Column]) -> None:
        if not self.key:
            raise InputError(
                f"cannot {what} into table {self.table!r}: it has no primary key; use insert and "
                "delete, or create it with a PRIMARY KEY"
            )
        for position in self.key:
            if position not in given:
                raise InputError(
                    f"{what} into {self.table!r} needs key column {self.schema[position][0]!r}"
                )

    def _need_exactly(self, given: Mapping[int, Column]) -> None:
        if set(given) != set(self.index_key):
            names = ", ".join(self.schema[i][0] for i in self.index_key)
            raise InputError(
                f"delete from {self.table!r} takes exactly the columns {names}"
                + ("" if self.key else " (the table has no primary key, so whole rows)")
            )

    def _need_all(self, given: Mapping[int, Column]) -> None:
        missing = [name for i, (name, _) in enumerate(self.schema) if i not in given]
        if missing:
            raise InputError(
                f"apply to {self.table!r} needs every column; missing: {', '.join(missing)}"
            )

    def _key_types(self) -> list[ColumnType]:
        return [self.schema[i][1] for i in self.key]

    def _key_text(self, keys: Sequence[Column], at: int) -> str:
        names = [self.schema[i] for i in self.index_key]
        one = ZSet(tuple(keys), np.ones(len(keys[0]), np.int64)).slice(at, at + 1)
        return _text(one, tuple(names))

    def _row(self, rows: ZSet, at: int) -> str:
        return _text(rows.slice(at, at + 1), self.schema)


def _text(row: ZSet, schema: Schema) -> str:
    table = row.to_arrow(schema)
    return (
        "("
        + ", ".join(f"{name}: {_value(table.column(i))}" for i, (name, _) in enumerate(schema))
        + ")"
    )


def _value(column: object) -> str:
    scalar = column[0]  # type: ignore[index]
    return "NULL" if not scalar.is_valid else str(scalar)


def _all(rows: ZSet) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(len(rows))


def last_of_each(keys: Sequence[Column], types: Sequence[ColumnType]) -> Indexes:
    """Index of the last row of each key, ascending."""
    return _one_of_each(keys, types, np.maximum, -1)


def first_of_each(keys: Sequence[Column], types: Sequence[ColumnType]) -> Indexes:
    """Index of the first row of each key, ascending."""
    return _one_of_each(keys, types, np.minimum, len(keys[0]))


def _one_of_each(
    keys: Sequence[Column], types: Sequence[ColumnType], better: np.ufunc, worst: int
) -> Indexes:
    count = len(keys[0])
    if all_distinct(keys, types):
        return np.arange(count)
    groups = group(keys, types)
    best = np.full(len(groups.first), worst)
    better.at(best, groups.inverse, np.arange(count))
    return np.sort(best)


def _take_counts(
    probe: np.ndarray[tuple[int], np.dtype[np.int64]], stored: Weights, wanted: Weights
) -> Weights:
    """The counts to take of each matching row, `wanted[i]` in all for probe i.

    Rows equal in SQL's sense may differ in representation (0.0 and −0.0): they go in match order.
    """
    if len(probe) == len(wanted):  # one matching row a probe
        taken = np.empty(len(probe), np.int64)
        taken[:] = np.minimum(stored, wanted[probe])
        return taken
    # Sorted by probe, a running count of the rows before each within its probe: as many of a row
    # are taken as are still wanted after those.
    order = np.argsort(probe, kind="stable")
    counts, wishes = stored[order], wanted[probe[order]]
    before = np.cumsum(counts) - counts
    starts = np.concatenate(([True], probe[order][1:] != probe[order][:-1]))
    before -= np.maximum.accumulate(np.where(starts, before, 0))
    taken = np.empty(len(probe), np.int64)
    taken[order] = np.clip(wishes - before, 0, counts)
    return taken
