"""The fast path: turns columns of new or old rows into a change of a table, without DuckDB.

Contract: a change made here applies to the stored table without breaking its key, NOT NULL, types
or CHECKs; a change that cannot be applied is refused with nothing changed. Retractions are of the
*stored* row, looked up by key; the caller's idea of the old row is never used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ivm.ingest.effect import Effect
from ivm.ingest.first_per_key import last_of_each, take_counts
from ivm.ingest.further_keys import Positions, Removed, among
from ivm.ingest.key_index import KeyIndex, present
from ivm.ingest.not_fast import VIOLATES, NotFastError
from ivm.ingest.table_rules import TableRules, row_text
from ivm.storage.arrangement.arrangement import Matches
from ivm.storage.errors import ConstraintError, InputError
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column, Mask, concat
from ivm.storage.values.consolidate import all_distinct, consolidate, group
from ivm.storage.values.equality import equal_pairs
from ivm.storage.values.key_codes import same_row
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import Weights, ZSet, ones


@dataclass(frozen=True)
class FastPath(TableRules):
    """The changes of one table."""

    def insert(self, given: dict[int, Column], count: int, index: KeyIndex | None) -> TableChange:
        """Adds rows; columns not given take their default or NULL.

        Args:
            given: column by position.
            count: rows.
            index: needed for a keyed table.

        Raises:
            ConstraintError: a constraint is violated, or a key exists already.
            NotFastError: only DuckDB can add them; no sequence has advanced.
        """
        if self.draws(given):
            self.demand_further()
        rows = ZSet(self.complete(given, count), ones(count))
        self.refuse(Effect(added=rows), index, returning=False)
        return self.change(rows, None)

    def check(
        self, effect: Effect, index: KeyIndex | None, *, returning: bool, in_turn: bool = False
    ) -> list[TableChange]:
        """The changes of the table by a statement of DuckDB's, if it is certain to be taken.

        New rows are in one of their own: in the other one each row then has the one it replaces.

        Args:
            effect: of the statement.
            index: of the table, if it has a primary key, or stored rows are changed.
            returning: whether the statement gives rows: then DuckDB writes all columns of them.
            in_turn: whether each row is of a statement of its own, one after the other.

        Raises:
            NotFastError: DuckDB must run it, perhaps to refuse it.
        """
        try:
            self.refuse(effect, index, returning=returning, in_turn=in_turn)
        except ConstraintError as error:
            raise NotFastError(VIOLATES) from error
        main = self.change(effect.updated, effect.removed, index)
        if effect.added is None or not len(effect.added):
            return [main]
        new = self.change(effect.added, None, index)
        return [main, new] if len(main.removed) else [new]

    def refuse(
        self, effect: Effect, index: KeyIndex | None, *, returning: bool, in_turn: bool = False
    ) -> None:
        """Refuses an effect that breaks a constraint; the arguments as of `check`.

        Raises:
            ConstraintError: in words that name a row.
            NotFastError: DuckDB must find out.
        """
        updated, added = effect.updated, effect.added
        if updated is not None:
            self.check_rows(updated)
            if effect.replaced is not None and not {*self.key}.isdisjoint(effect.sets):
                assert index is not None
                self.demand_key(updated, effect.replaced, index)
        if added is not None:
            self.check_rows(added)
            if self.key and self.key != effect.unmet:
                self._refuse_stored(added, index)
        if effect.sets and not in_turn:
            self.demand_at_once(effect.sets, sum(effect.counts))
        if self.further is not None:
            columns = () if index is None else index.columns
            self._refuse_further(effect, columns, returning=returning, in_turn=in_turn)

    def _refuse_further(
        self, effect: Effect, columns: Positions, *, returning: bool, in_turn: bool
    ) -> None:
        """Refuses rows that break UNIQUE constraints or foreign keys, in DuckDB's order of work."""
        if effect.deleted is not None:
            self.check_further(self._none(), Removed(effect.deleted, columns, None))
        if effect.updated is not None and effect.replaced is not None:
            written = self.set_columns(effect.sets, returning=returning)
            replaced = Removed(effect.replaced, columns, written)
            self.check_further(effect.updated, replaced)
            if in_turn:
                self._refuse_in_turn(effect, replaced)
        if effect.added is not None:
            self.check_further(effect.added, None)
        if [effect.deleted, effect.updated, effect.added].count(None) < 2:
            self._demand_apart(effect)

    def _refuse_in_turn(self, effect: Effect, replaced: Removed) -> None:
        """Refuses a row that takes a further key which another leaves, perhaps only after it."""
        new, count, sets = effect.updated, len(replaced.rows), {*(replaced.sets or ())}
        if new is None or not count or not any(sets.intersection(key) for key in self.keys):
            return
        takes = np.zeros(count, np.bool_)
        for key in self.keys:
            if not sets.isdisjoint(key):
                come = [new.columns[i] for i in key]
                gone = [replaced.rows.columns[replaced.columns.index(i)] for i in key]
                takes |= ~equal_pairs(come, gone, [self.schema[i][1] for i in key])
        nothing = replaced._replace(rows=replaced.rows.slice(0, 0))
        self.check_further(new.filter(takes), nothing)

    def _demand_apart(self, effect: Effect) -> None:
        """Demands that rows of several branches do not get in each other's way."""
        assert self.further is not None
        written, deleted = effect.written, effect.deleted
        if written is None or not len(written):
            return
        refers = any(reference.table == self.table for reference in self.further.parents)
        columns = dict(enumerate(written.columns))
        if (refers and deleted is not None and len(deleted)) or not all(
            self.are_distinct(key, columns) for key in self.keys
        ):
            raise NotFastError(VIOLATES)

    def upsert(self, given: dict[int, Column], count: int, index: KeyIndex) -> TableChange:
        """Adds rows, or changes stored ones; the last of several rows with one key wins.

        Columns not given keep their value where the key is stored (then `index` must hold all
        columns), and take their default where it is not.

        Raises:
            InputError: the table has no key, or a key column is missing.
            ConstraintError: a constraint is violated.
            NotFastError: as of `insert`.
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
        self.check_rows(rows)
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
        self.check_rows(new)
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
        taken = take_counts(matches.probe, matches.rows.weights, wanted)
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

    def _refuse_stored(self, rows: ZSet, index: KeyIndex | None) -> None:
        """Refuses new rows with the key of another one, or of a stored one."""
        assert index is not None
        self._refuse_repeated(rows)
        keys = [rows.columns[i] for i in self.key]
        known = index.find(keys)
        if len(known.probe):
            self._refuse_known(keys, present(known, len(rows)))

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

    def _key_text(self, keys: Sequence[Column], at: int) -> str:
        names = [self.schema[i] for i in self.index_key]
        one = ZSet(tuple(keys), np.ones(len(keys[0]), np.int64)).slice(at, at + 1)
        return row_text(one, tuple(names))


def _all(rows: ZSet) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(len(rows))
