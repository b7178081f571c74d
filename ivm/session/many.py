"""`executemany`: a change by the fast path is one batch; other statements run row by row.

Law: the tables are left as by executing the statement with each row in turn, all in one
transaction. Rows with one key go in rounds, the first of each key, the second, and so on; rows with
different keys do not concern each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ivm.engine.transaction import Transaction
from ivm.ingest.batches import Batch, Many, Rows, batch_of, each_row, rows_of
from ivm.ingest.compared_values import compared_parameters, compared_values
from ivm.ingest.conflicts import resolve
from ivm.ingest.fast_path import FastPath
from ivm.ingest.keyed_rows import (
    assignments_of,
    condition_mask,
    new_rows,
    search_of,
)
from ivm.ingest.literal_columns import columns_of
from ivm.ingest.row_columns import RowColumns
from ivm.ingest.row_expressions import RowExpressions, repeated
from ivm.session import dml, inserts, keyed_dml
from ivm.session.result import Result
from ivm.session.session import RunStatement, Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.values_list import LiteralRows, only
from ivm.storage.errors import ConstraintError, InputError
from ivm.storage.values.column import Column, Indexes
from ivm.storage.values.consolidate import all_distinct, group
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.table_info import TableInfo


def executemany(session: Session, sql: str, given: Many, run_statement: RunStatement) -> Result:
    """See `Database.executemany`."""
    statements = st.parse(sql)
    if len(statements) != 1:
        raise InputError(f"executemany takes one statement, not {len(statements)}")
    (statement,), rows = statements, rows_of(given)
    if isinstance(statement, st.TransactionControl):
        raise InputError("executemany is one transaction: BEGIN and end it by execute")
    if session.transaction is not None:
        return _run(session, statement, rows, run_statement)
    session.begin()
    try:
        result = _run(session, statement, rows, run_statement)
        session.release()
    except BaseException:
        if session.transaction is not None:
            session.rollback()
        raise
    session.commit()
    return result


def _run(
    session: Session, statement: st.Statement, rows: Rows, run_statement: RunStatement
) -> Result:
    fast, named, total = isinstance(statement, st.Insert | st.KeyedChange), False, 0
    left: Sequence[int] | None = None
    if isinstance(statement, st.Insert | st.KeyedChange):
        named = any(isinstance(parameter, str) for parameter in statement.parameters)
        batch = None if statement.returning else batch_of(rows, statement.parameters)
        if batch is not None and batch.count:
            total, left = _in_batch(session, statement, batch)
    listed = [] if left == [] else each_row(rows, named=named)
    result = Result.count(0)
    for row in listed if left is None else [listed[i] for i in left]:
        result = run_statement(session, statement, row)
        total += max(result.rowcount, 0)
    return Result.count(total) if fast and result.kind == "count" else result


def _in_batch(
    session: Session, statement: st.Insert | st.KeyedChange, batch: Batch
) -> tuple[int, list[int] | None]:
    """The number of rows changed, and those to execute row by row; None for all of them."""
    with session.writing() as transaction:
        info = dml.table_of(session, statement)
        path = None if info is None else transaction.fast_path(info.name)
        if info is None or path is None:
            return 0, None
        try:
            if isinstance(statement, st.KeyedChange):
                rounds = _Changes(session, transaction, path, info, statement, batch)
                return _in_rounds(rounds, batch.count)
            if statement.conflict is not None:
                upserts = _Upserts(session, transaction, path, info, statement, batch)
                return _in_rounds(upserts, batch.count)
            return _insert(transaction, path, info, statement, batch)
        except (ConstraintError, _NoBatchError):
            return 0, None  # errors are found, and worded, row by row


class _NoBatchError(Exception):
    """The rows are to be executed one by one."""


class _Rounds(Protocol):
    """One statement with many rows of parameters, in rounds of different keys.

    Attributes:
        keys: of all rows.
        types: of the key's columns.
    """

    keys: list[Column]
    types: list[ColumnType]

    def apply(self, rows: Indexes) -> int | None:
        """Executes the statement with some rows; None if nothing was changed, see `_in_batch`."""


def _in_rounds(rounds: _Rounds, count: int) -> tuple[int, list[int] | None]:
    total, ranks = 0, _ranks(rounds.keys, rounds.types)
    for rank in range(int(ranks.max()) + 1):
        changed = rounds.apply((ranks == rank).nonzero()[0])
        if changed is None:
            return total, (ranks >= rank).nonzero()[0].tolist()
        total += changed
    return total, []


def _ranks(keys: Sequence[Column], types: Sequence[ColumnType]) -> Indexes:
    """How many rows with its key precede each row."""
    count = len(keys[0])
    if all_distinct(keys, types):
        return np.zeros(count, np.int64)
    numbers = group(keys, types).inverse
    order = np.argsort(numbers, kind="stable")
    begins = np.concatenate(([True], numbers[order][1:] != numbers[order][:-1]))
    places = np.arange(count)
    ranks = np.empty(count, np.int64)
    ranks[order] = places - np.maximum.accumulate(np.where(begins, places, 0))
    return ranks


def _converted(
    info: TableInfo,
    positions: Sequence[int],
    cells: LiteralRows,
    batch: Batch,
    transaction: Transaction,
) -> dict[int, Column]:
    """One row of literals and parameters as columns: of the batch's length, or of one literal."""
    cursor = transaction.idle_cursor
    pairs = list(zip(positions, cells.column_parameters, strict=True))
    literal = [i for i, (_, sources) in enumerate(pairs) if sources is None]
    types = [info.schema[positions[i]][1] for i in literal]
    found = columns_of(only(cells, literal), types, (), cursor)
    if found is None or cursor is None:
        raise _NoBatchError
    columns = dict(zip([positions[i] for i in literal], found, strict=True))
    given = {i: batch.columns[sources[0]] for i, sources in pairs if sources is not None}
    return columns | RowColumns(info.schema, info.name, cursor).convert(given)


def _insert(
    transaction: Transaction,
    path: FastPath,
    info: TableInfo,
    statement: st.Insert,
    batch: Batch,
) -> tuple[int, list[int]]:
    given = _rows_of(info, statement, batch, transaction)
    index = transaction.index(path.table) if path.key else None
    transaction.add(path.insert(given, batch.count, index))
    return batch.count, []


def _rows_of(
    info: TableInfo, statement: st.Insert, batch: Batch, transaction: Transaction
) -> dict[int, Column]:
    """The columns of an INSERT of one row in VALUES, for each row of the batch."""
    positions = inserts.positions_of(info, statement.columns)
    if statement.rows.count != 1 or len(positions) != len(statement.rows.cells):
        raise _NoBatchError
    found = _converted(info, positions, statement.rows, batch, transaction)
    return {i: repeated(column, batch.count) for i, column in found.items()}


class _Upserts:
    """INSERT OR REPLACE, OR IGNORE and ON CONFLICT; see `_Rounds`."""

    def __init__(
        self,
        session: Session,
        transaction: Transaction,
        path: FastPath,
        info: TableInfo,
        statement: st.Insert,
        batch: Batch,
    ) -> None:
        self._given = _rows_of(info, statement, batch, transaction)
        rule = inserts.rule_of(info, statement)
        if rule is None or not set(path.key) <= self._given.keys():
            raise _NoBatchError
        self._rule = rule
        self._session, self._transaction, self._path = session, transaction, path
        self._info, self._statement, self._batch = info, statement, batch
        index = transaction.index_of_committed(path.table, all_columns=bool(rule.updates))
        if index is None:
            raise _NoBatchError
        self._index = index
        self.keys = [self._given[i] for i in path.key]
        self.types = [info.schema[i][1] for i in path.key]

    def apply(self, rows: Indexes) -> int | None:
        """See `_Rounds`."""
        lookup = self._batch.values
        expressions = inserts.expressions_of(self._session, self._info, self._statement, lookup)
        given = {i: column.take(rows) for i, column in self._given.items()}
        shared = self._index, self._rule, expressions.at(rows)
        found = resolve(self._path, given, len(rows), *shared)
        if found is None:
            return None
        self._transaction.add(found.change)
        return len(found.rows)


class _Changes:
    """UPDATE and DELETE by key; see `_Rounds`."""

    def __init__(
        self,
        session: Session,
        transaction: Transaction,
        path: FastPath,
        info: TableInfo,
        statement: st.KeyedChange,
        batch: Batch,
    ) -> None:
        sets, search = assignments_of(statement, info), search_of(statement, info, path.key)
        if sets is None or search is None:
            raise _NoBatchError
        self._sets, self._search = sets, search
        self._session, self._transaction, self._path = session, transaction, path
        self._info, self._statement, self._batch = info, statement, batch
        self.types = [info.schema[i][1] for i in path.key]
        self.keys = [
            self._key(one.values, type) for one, type in zip(search.by, self.types, strict=True)
        ]
        self._literal = _converted(info, sets.literal, statement.rows, batch, transaction)
        needed = keyed_dml.needs_all(info, statement, search, sets)
        index = transaction.index_of_committed(info.name, needed)
        if index is None:
            raise _NoBatchError
        self._index = index

    def _key(self, values: LiteralRows, type: ColumnType) -> Column:
        sources = values.column_parameters[0]
        if sources is None:
            column = compared_values(values, type, ())
        elif len(sources) == 1:
            column = compared_parameters(self._batch.values(sources[0]), type)
        else:
            column = None
        if column is None or (sources is None and len(column) != 1):
            raise _NoBatchError
        return repeated(column, self._batch.count)

    def apply(self, rows: Indexes) -> int | None:
        """See `_Rounds`."""
        matches = self._index.find([key.take(rows) for key in self.keys])
        stored, probed = matches.rows, rows[matches.probe]
        met = condition_mask(self._search, stored, self._expressions(probed))
        if met is None:
            return None
        stored, probed = stored.filter(met), probed[met]
        new = None
        if self._statement.kind == "update":
            whole = {i: repeated(c, self._batch.count) for i, c in self._literal.items()}
            given = {i: column.take(probed) for i, column in whole.items()}
            found = stored, self._index, self._expressions(probed), given
            new = new_rows(self._sets, self._info.schema, *found)
            if new is None or next(self._path.violations(new), None) is not None:
                return None
        self._transaction.add(self._path.change(new, stored, self._index))
        return len(stored)

    def _expressions(self, rows: Indexes) -> RowExpressions:
        lookup = self._batch.values
        found = keyed_dml.expressions_of(self._session, self._info, self._statement, lookup)
        return found.at(rows)
