"""What the rows of one table have to fit, and what they are completed with, without DuckDB.

Law: a row passes exactly where DuckDB would take it. What cannot be decided here raises
NotFastError; nothing is changed then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from ivm.ingest.evaluated_defaults import EvaluatedDefault
from ivm.ingest.further_keys import (
    FurtherKeys,
    Lookup,
    Positions,
    Removed,
    among,
    whole_keys,
)
from ivm.ingest.key_index import KeyIndex, present
from ivm.ingest.key_texts import named
from ivm.ingest.not_fast import VIOLATES, NotFastError
from ivm.storage.errors import ConstraintError
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column, Indexes, Mask, null_column
from ivm.storage.values.consolidate import all_distinct
from ivm.storage.values.types import ColumnType, Schema
from ivm.storage.values.zset import ZSet, empty, ones

Evaluate: TypeAlias = Callable[[Mapping[int, EvaluatedDefault], int], dict[int, Column]]
"""Evaluates defaults, by position, for a number of rows."""
_TOO_MANY = "so many rows with new keys get in each other's way in DuckDB"
AT_ONCE = 2048
"""Rows that DuckDB inserts or updates at once; keys that later ones leave are not free before."""


class Check(NamedTuple):
    """What the rows of a table have to fit, beside NOT NULL.

    Attributes:
        holds: a kernel over all columns and a number of rows, false exactly where it is violated.
        why: the beginnings of the messages that rows violate it, by all columns and the rows'
            indexes.
    """

    holds: Callable[[Sequence[Column], int], Mask]
    why: Callable[[Sequence[Column], Indexes], Sequence[str]]


@dataclass(frozen=True)
class TableRules:
    """Everything that the fast path must know of one table.

    Attributes:
        table: canonical name.
        schema: its columns.
        key: positions of the primary key, empty for a keyless table.
        required: positions of NOT NULL columns, the key's included.
        defaults: position to a one-row column with the constant default.
        checks: CHECK constraints that kernels evaluate, and what else rows have to fit.
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

    # -- what is known of the table ---------------------------------------------------------------

    @property
    def index_key(self) -> tuple[int, ...]:
        """The positions that rows are looked up by: the key, or all columns if there is none."""
        return self.key or tuple(range(len(self.schema)))

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        """The primary key, and the columns of UNIQUE constraints."""
        key = (self.key,) if self.key else ()
        return key if self.further is None else (*key, *self.further.uniques)

    @property
    def is_plain(self) -> bool:
        """Returns whether it needs no transaction: see `within`."""
        return self.further is None and not self.evaluated

    def within(self, evaluate: Evaluate, lookup: Lookup) -> Self:
        """The same in a transaction, which evaluates defaults and finds rows by further keys."""
        return replace(self, evaluate=evaluate, lookup=lookup)

    def index_by(self, key: Positions, table: str | None = None) -> KeyIndex:
        """The arrangement of the table, or another one, by a key; see `Lookup`."""
        assert self.lookup is not None
        return self.lookup(table or self.table, key)

    def _key_types(self) -> list[ColumnType]:
        return [self.schema[i][1] for i in self.key]

    # -- rows -------------------------------------------------------------------------------------

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

    def change(
        self, added: ZSet | None, removed: ZSet | None, index: KeyIndex | None = None
    ) -> TableChange:
        columns = index.columns if index is not None else self.index_key
        old = self._none(columns) if removed is None else removed
        return TableChange(self.table, old, columns, self._none() if added is None else added)

    def nothing(self, index: KeyIndex) -> TableChange:
        """The change that changes nothing."""
        return self.change(None, None, index)

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

    def _row(self, rows: ZSet, at: int) -> str:
        return row_text(rows.slice(at, at + 1), self.schema)

    # -- constraints of rows ----------------------------------------------------------------------

    def check_rows(self, rows: ZSet) -> None:
        """Raises ConstraintError if a row violates NOT NULL or a CHECK."""
        for position, (why, *_), violated in self.violations(rows):
            row = self._row(rows, int(violated[0]))
            if position is not None:
                raise ConstraintError(f"{why}: row {row} has none; give a value")
            raise ConstraintError(f"{why} for row {row}; nothing was changed")

    def violations(self, rows: ZSet) -> Iterator[tuple[int | None, Sequence[str], Indexes]]:
        """Rows that violate NOT NULL or a check.

        Args:
            rows: with all columns of the table.

        Returns:
            The position of the column that is NULL or None for a check, and the beginnings of the
            messages and the indexes of the rows, for each violated constraint.
        """
        for position in self.required:
            valid = rows.columns[position].valid
            if valid is not None and not valid.all():
                violated = (~valid).nonzero()[0]
                yield position, [self.why_not_null(position)] * len(violated), violated
        for check in self.checks:
            mask = check.holds(rows.columns, len(rows))
            if not mask.all():
                violated = (~mask).nonzero()[0]
                yield None, check.why(rows.columns, violated), violated

    def why_not_null(self, position: int) -> str:
        """The beginning of the message that a NOT NULL column has no value."""
        return f"NOT NULL constraint failed: {self.table}.{self.schema[position][0]}"

    # -- keys -------------------------------------------------------------------------------------

    def demand_key(self, added: ZSet, removed: ZSet, index: KeyIndex) -> None:
        """Demands that rows which replace others, perhaps under other keys, take no stored key.

        Args:
            added: with all columns, none of the key NULL.
            removed: the stored rows, with the columns of the index.

        Raises:
            NotFastError: one does.
        """
        keys, types = [added.columns[i] for i in self.key], self._key_types()
        if len(added) > 1 and not all_distinct(keys, types):
            raise NotFastError(VIOLATES)
        known = present(index.find(keys), len(added))
        gone = [removed.columns[index.columns.index(i)] for i in self.key]
        if (known & ~among(keys, gone, types)).any():
            raise NotFastError(VIOLATES)

    def are_distinct(self, key: Positions, given: Mapping[int, Column]) -> bool:
        """Returns whether no key without a NULL is there twice; `given` has its columns."""
        return all_distinct(whole_keys([given[i] for i in key]), [self.schema[i][1] for i in key])

    def demand_at_once(self, sets: Collection[int], count: int) -> None:
        """Raises NotFastError if so many rows get in each other's way in DuckDB."""
        if count > AT_ONCE and not all(set(sets).isdisjoint(key) for key in self.keys):
            raise NotFastError(_TOO_MANY)

    def set_columns(self, sets: Collection[int], *, returning: bool) -> Collection[int]:
        """The columns that DuckDB writes where an update sets some: all, to return a row."""
        return range(len(self.schema)) if returning else sets

    def check_further(self, added: ZSet, removed: Removed | None) -> None:
        """Checks UNIQUE constraints and foreign keys; see `FurtherKeys.refuse`."""
        if self.further is not None:
            assert self.lookup is not None
            self.further.refuse(self.schema, added, removed, self.lookup)

    def demand_further(self) -> None:
        """Raises NotFastError if UNIQUE constraints or foreign keys cannot be checked here."""
        if self.further is not None:
            assert self.lookup is not None
            self.further.demand(self.lookup)

    def demand_addable(
        self, given: Mapping[int, Column], count: int, index: KeyIndex | None
    ) -> None:
        """Demands that rows fit, as far as it is known before sequences are drawn from.

        Args:
            given: column by position.
            count: rows.
            index: needed for a keyed table.

        Raises:
            NotFastError: they may not.
        """
        drawn = {i for i, one in self.evaluated.items() if one.draws and i not in given}
        known = {i: null_column(self.schema[i][1], count) for i in drawn}
        rows = ZSet(self.complete({**given, **known}, count), ones(count))
        if any(position not in drawn for position, *_ in self.violations(rows)):
            raise NotFastError(VIOLATES)
        if self.key and drawn.isdisjoint(self.key):
            assert index is not None
            keys = [rows.columns[i] for i in self.key]
            if not all_distinct(keys, self._key_types()) or len(index.find(keys).probe):
                raise NotFastError(VIOLATES)
        try:
            self.check_further(rows, None)
        except ConstraintError as error:
            raise NotFastError(VIOLATES) from error


def row_text(row: ZSet, schema: Schema) -> str:
    """One row with the names of its columns, for a message."""
    names, types = [name for name, _ in schema], [type for _, type in schema]
    return f"({named(names, row.columns, types)[0]})"
