"""`executemany`: a change by the fast path is one batch; other statements run row by row.

Law: the tables are left as by executing the statement with each row in turn, all in one
transaction. Rows with one key go in rounds, the first of each key, the second, and so on; rows with
different keys do not concern each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ivm.engine.transaction import Transaction
from ivm.ingest.batches import Batch, Many, Rows, batch_of, each_row, rows_of
from ivm.ingest.compared_values import compared_parameters, compared_values
from ivm.ingest.conflicts import resolve
from ivm.ingest.fast_path import FastPath
from ivm.ingest.further_keys import NeedsDuckDBError, Removed
from ivm.ingest.key_index import KeyIndex
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
from ivm.storage.values.zset import ZSet
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
    session.begin(tells_time=False)
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


class _Call(NamedTuple):
    """A statement of the fast path with many rows of parameters, and where it is run."""

    session: Session
    transaction: Transaction
    path: FastPath
    info: TableInfo
    batch: Batch


def _in_batch(
    session: Session, statement: st.Insert | st.KeyedChange, batch: Batch
) -> tuple[int, list[int] | None]:
    """The number of rows changed, and those to execute row by row; None for all of them."""
    with session.writing() as transaction:
        info = dml.table_of(session, statement)
        path = None if info is None else transaction.fast_path(info.name)
        if info is None or path is None:
            return 0, None
        call = _Call(session, transaction, path, info, batch)
        try:
            if isinstance(statement, st.KeyedChange):
                rounds: _Rounds = _Changes(call, statement)
            elif statement.conflict is not None:
                rounds = _Upserts(call, statement)
            else:
                return _insert(call, statement)
        except (ConstraintError, NeedsDuckDBError, _NoBatchError):
            return 0, None  # nothing is changed yet: errors are found, and worded, row by row
        return _in_rounds(rounds)


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


def _in_rounds(rounds: _Rounds) -> tuple[int, list[int]]:
    total, ranks = 0, _ranks(rounds.keys, rounds.types)
    order = np.argsort(ranks, kind="stable")
    begins = ranks[order].searchsorted(np.arange(int(ranks.max()) + 2)).tolist()
    for begin, end in itertools.pairwise(begins):
        changed = rounds.apply(order[begin:end])
        if changed is None:
            return total, np.sort(order[begin:]).tolist()
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


def _converted(call: _Call, positions: Sequence[int], cells: LiteralRows) -> dict[int, Column]:
    """One row of literals and parameters as columns: of the batch's length, or of one literal."""
    info, cursor = call.info, call.transaction.idle_cursor
    pairs = list(zip(positions, cells.column_parameters, strict=True))
    literal = [i for i, (_, sources) in enumerate(pairs) if sources is None]
    types = [info.schema[positions[i]][1] for i in literal]
    found = columns_of(only(cells, literal), types, (), cursor)
    if found is None or cursor is None:
        raise _NoBatchError
    columns = dict(zip([positions[i] for i in literal], found, strict=True))
    given = {i: call.batch.columns[sources[0]] for i, sources in pairs if sources is not None}
    return columns | RowColumns(info.schema, info.name, cursor).convert(given)


def _insert(call: _Call, statement: st.Insert) -> tuple[int, list[int]]:
    given, path, count = _rows_of(call, statement), call.path, call.batch.count
    index = call.transaction.index(path.table) if path.key else None
    call.transaction.add(path.insert(given, count, index))
    return count, []


def _rows_of(call: _Call, statement: st.Insert) -> dict[int, Column]:
    """The columns of an INSERT of one row in VALUES, for each row of the batch."""
    positions = inserts.positions_of(call.info, statement.columns)
    if statement.rows.count != 1 or len(positions) != len(statement.rows.cells):
        raise _NoBatchError
    found = _converted(call, positions, statement.rows)
    columns = {i: repeated(column, call.batch.count) for i, column in found.items()}
    return dict(call.path.evaluated_too(columns, call.batch.count))


class _Upserts:
    """INSERT OR REPLACE, OR IGNORE and ON CONFLICT; see `_Rounds`."""

    def __init__(self, call: _Call, statement: st.Insert) -> None:
        self._call, self._statement = call, statement
        self._given = _rows_of(call, statement)
        path, rule = call.path, inserts.rule_of(call.info, statement)
        key = None if rule is None else rule.target or path.keys[0]
        if rule is None or key is None or not set(key) <= self._given.keys():
            raise _NoBatchError
        self._rule, self._index = rule, None
        if path.key:
            all_columns = bool(rule.updates)
            self._index = _demand(call.transaction.index_of_committed(path.table, all_columns))
        self.keys = [self._given[i] for i in key]
        self.types = [call.info.schema[i][1] for i in key]

    def apply(self, rows: Indexes) -> int | None:
        """See `_Rounds`."""
        call = self._call
        expressions = inserts.expressions_of(
            call.session, call.info, self._statement, call.batch.values
        )
        given = {i: column.take(rows) for i, column in self._given.items()}
        shared = self._index, self._rule, expressions.at(rows)
        found = resolve(call.path, given, len(rows), *shared)
        if found is None:
            return None
        call.transaction.add(found.change)
        return len(found.rows)


class _Changes:
    """UPDATE and DELETE by key; see `_Rounds`."""

    def __init__(self, call: _Call, statement: st.KeyedChange) -> None:
        self._call, self._statement = call, statement
        info, key = call.info, call.path.key
        sets, search = assignments_of(statement, info), search_of(statement, info, key)
        if sets is None or search is None:
            raise _NoBatchError
        self._sets, self._search = sets, search
        self.types = [info.schema[i][1] for i in key]
        self.keys = [
            self._key(one.values, type) for one, type in zip(search.by, self.types, strict=True)
        ]
        self._literal = _converted(call, sets.literal, statement.rows)
        needed = keyed_dml.needs_all(info, statement, search, sets)
        self._index = _demand(call.transaction.index_of_committed(info.name, needed))

    def _key(self, values: LiteralRows, type: ColumnType) -> Column:
        batch, sources = self._call.batch, values.column_parameters[0]
        if sources is None:
            column = compared_values(values, type, ())
        elif len(sources) == 1:
            column = compared_parameters(batch.values(sources[0]), type)
        else:
            column = None
        if column is None or (sources is None and len(column) != 1):
            raise _NoBatchError
        return repeated(column, batch.count)

    def apply(self, rows: Indexes) -> int | None:
        """See `_Rounds`."""
        call = self._call
        matches = self._index.find([key.take(rows) for key in self.keys])
        stored, probed = matches.rows, rows[matches.probe]
        met = condition_mask(self._search, stored, self._expressions(probed))
        if met is None:
            return None
        stored, probed = stored.filter(met), probed[met]
        new = None
        if self._statement.kind == "update":
            whole = {i: repeated(c, call.batch.count) for i, c in self._literal.items()}
            given = {i: column.take(probed) for i, column in whole.items()}
            found = stored, self._index, self._expressions(probed), given
            new = new_rows(self._sets, call.info.schema, *found)
            if new is None or next(call.path.violations(new), None) is not None:
                return None
        if not self._fits(stored, new):
            return None
        call.transaction.add(call.path.change(new, stored, self._index))
        return len(stored)

    def _fits(self, stored: ZSet, new: ZSet | None) -> bool:
        """Returns whether each row fits by itself: one after the other none takes another's key."""
        path, columns = self._call.path, self._index.columns
        if new is None:
            return path.fits_further(stored.slice(0, 0), Removed(stored, columns, None))
        sets = self._sets.all
        if not any(sets.intersection(key) for key in path.keys):
            return path.fits_further(new, Removed(stored, columns, sets))
        nothing = Removed(stored.slice(0, 0), columns, sets)
        return path.fits_further(new, nothing) and path.fits_further(
            new, Removed(stored, columns, sets)
        )

    def _expressions(self, rows: Indexes) -> RowExpressions:
        call = self._call
        found = keyed_dml.expressions_of(
            call.session, call.info, self._statement, call.batch.values
        )
        return found.at(rows)


def _demand(index: KeyIndex | None) -> KeyIndex:
    if index is None:
        raise _NoBatchError
    return index
