"""Rows into one table, within a transaction: by the fast path, or through DuckDB.

Law: the same call means the same on every table, whichever way its rows take. The fast path serves
the tables whose constraints it can check; any other table (with foreign keys, generated columns,
several keys) is changed by the SQL that says the same, see `ivm.session.duck_writer`.
"""

from __future__ import annotations

from typing import Protocol

from ivm.engine.transaction import Transaction
from ivm.ingest.fast_path import FastPath
from ivm.storage.values.column import Column
from ivm.storage.values.zset import Weights


class TableWriter(Protocol):
    """Takes columns of the table's types, by their position in the table, and the count of rows.

    Every method raises InputError where columns are missing or are too many, and ConstraintError
    where a row violates a constraint, or is to be deleted and not stored.
    """

    def insert(self, given: dict[int, Column], count: int) -> None:
        """Add rows; columns not given take their default."""

    def upsert(self, given: dict[int, Column], count: int) -> None:
        """Add rows, or new values of stored ones; the last of several rows with one key wins."""

    def delete(self, given: dict[int, Column], count: int) -> None:
        """Remove rows by key, or whole rows of a table without one: each row takes out one."""

    def apply(self, given: dict[int, Column], weights: Weights) -> None:
        """Remove the rows with negative weights, then add those with positive ones."""


class FastWriter:
    """The fast path: the constraints are checked here, and DuckDB learns of it at the next flush.

    Args:
        transaction: takes the changes.
        path: the table's.
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
        transaction, path = self._transaction, self._path
        transaction.add(path.delete(given, count, transaction.index(path.table)))

    def apply(self, given: dict[int, Column], weights: Weights) -> None:
        """See `TableWriter`."""
        transaction, path = self._transaction, self._path
        transaction.add(path.apply(given, weights, transaction.index(path.table)))
