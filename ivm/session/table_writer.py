"""Table writers: changes of one table's rows within a transaction, by the fast path or by DuckDB.

Contract: a call has the same meaning on every table. The fast path is for tables whose constraints
it can check; any other table (with generated columns, collations, triggers) is changed by the
equivalent SQL, see `ivm.session.duck_writer`.
"""

from __future__ import annotations

from typing import Protocol

from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.storage.values.column import Column
from ivm.storage.values.zset import Weights


class TableWriter(Protocol):
    """Writes columns of the table's types, by position, of a number of rows.

    Every method raises InputError if columns are missing or too many, and ConstraintError if a row
    violates a constraint, or is to be deleted and not stored.
    """

    def insert(self, given: dict[int, Column], count: int) -> None:
        """Adds rows; missing columns get their default."""

    def upsert(self, given: dict[int, Column], count: int) -> None:
        """Adds rows, or updates stored ones; the last of several rows with one key wins."""

    def delete(self, given: dict[int, Column], count: int) -> None:
        """Removes one stored row for each row: by its key, or by all columns without a key."""

    def apply(self, given: dict[int, Column], weights: Weights) -> None:
        """Removes the rows with negative weights, then adds those with positive ones."""


class FastWriter:
    """The fast path: constraints are checked here, and DuckDB gets the change at the next flush.

    Args:
        transaction: gets the changes.
        path: the table's fast path.
    """

    __slots__ = ("_path", "_transaction")

    def __init__(self, transaction: Transaction, path: FastPath) -> None:
        self._transaction = transaction
        self._path = path

    def insert(self, given: dict[int, Column], count: int) -> None:
        """See `TableWriter`."""
        transaction, path = self._transaction, self._path
        index = transaction.index(path.table) if path.key else None
        transaction.add(path.insert(given, count, index))

    def upsert(self, given: dict[int, Column], count: int) -> None:
        """See `TableWriter`."""
        transaction, path = self._transaction, self._path
        index = transaction.index(path.table, all_columns=len(given) < len(path.schema))
        transaction.add(path.upsert(given, count, index))

    def delete(self, given: dict[int, Column], count: int) -> None:
        """See `TableWriter`."""
        self._transaction.add(self._path.delete(given, count, self._index()))

    def apply(self, given: dict[int, Column], weights: Weights) -> None:
        """See `TableWriter`."""
        self._transaction.add(self._path.apply(given, weights, self._index()))

    def _index(self) -> KeyIndex:
        path = self._path
        return path.no_index() if path.takes_only else self._transaction.index(path.table)
