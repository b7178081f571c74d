"""`executemany`: a change by the fast path is one batch; other statements run row by row.

Law: the tables are left as by executing the statement with each row in turn, all in one
transaction: rows with one key go in `rounds`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ivm.changes import inserts, keyed_changes
from ivm.changes.values.batches import Batch, Many, Rows, batch_of, each_row, rows_of
from ivm.changes.values.compared_values import compared_parameters, compared_values
from ivm.changes.values.conflicts import resolve
from ivm.changes.values.keyed_rows import condition_mask, new_rows
from ivm.changes.values.rounds import Keyed, rounds_by_rank, rounds_in_order
from ivm.changes.values.row_expressions import RowExpressions, repeated
from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.effect import Effect
from ivm.ingest.fast_path import FastPath
from ivm.ingest.further_keys import Positions
from ivm.ingest.literal_columns import columns_of
from ivm.ingest.not_fast import NotFastError, demanded
from ivm.ingest.parameters import parameters_of
from ivm.ingest.row_columns import RowColumns
from ivm.reads.returning import Returning
from ivm.session import dml
from ivm.session.results.result import Result
from ivm.session.session import RunStatement, Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.nodes.expressions import Expression
from ivm.sql.statements.nodes.values_list import LiteralRows, only
from ivm.sql.statements.text.placeholders import has_names
from ivm.storage.errors import ConstraintError, InputError
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column, Indexes
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo

_ONE_BY_ONE = "its rows of parameters are executed one by one"


def run_with_each(
    session: Session, statement: st.Statement, given: Many, run_statement: RunStatement
) -> Result:
    """Runs a statement with each row of parameters; see `Database.executemany`."""
    rows = rows_of(given)
    if isinstance(statement, st.TransactionControl):
        raise InputError("executemany is one transaction: BEGIN and end it by execute")
    converted = session.ahead(functools.partial(_converted, session, statement, rows))
    if session.transaction is not None:
        return _run(session, statement, rows, converted, run_statement)
    session.begin(tells_time=False)
    try:
        result = _run(session, statement, rows, converted, run_statement)
        session.release()
    except BaseException:
        if session.transaction is not None:
            session.rollback()
        raise
    session.commit()
    return result


def _run(
    session: Session,
    statement: st.Statement,
    rows: Rows,
    converted: Callable[[], _Converted | None],
    run_statement: RunStatement,
) -> Result:
    total = 0
    left: Sequence[int] | None = None
    if isinstance(statement, st.Insert | st.KeyedChange):
        found = converted()
        if found is not None:
            with session.buried.of(statement) as late:
                total, left = _in_batch(session, statement, found)
            total -= late.count
            if left is not None and statement.returning:
                left = [*left, found.batch.count]  # the last row's result is the result
    listed = [] if left == [] else each_row(rows, named=has_names(statement.text))
    result = Result.count(0)
    for row in listed if left is None else [listed[i] for i in left]:
        result = run_statement(session, statement, parameters_of(row))
        total += max(result.rowcount, 0)
    if result.kind == "count":
        return Result.count(total)
    if result.rowcount >= 0:
        result.rowcount = total
    return result


@dataclass(frozen=True)
class _Converted:
    """Rows of parameters as columns of a table's types.

    Attributes:
        info: the table.
        batch: the parameters.
        columns: by position: the rows of an INSERT, or what an UPDATE sets.
        plan: of an UPDATE or DELETE; its key's columns are `keys`.
    """

    info: TableInfo
    batch: Batch
    columns: dict[int, Column]
    plan: keyed_changes.ChangePlan | None = None
    keys: tuple[Column, ...] = ()


def _converted(session: Session, statement: st.Statement, rows: Rows) -> _Converted | None:
    """The rows of a statement that may take the fast path; None if they go one by one."""
    if not isinstance(statement, st.Insert | st.KeyedChange):
        return None
    info, batch = dml.table_of(session, statement), batch_of(rows, statement.parameters)
    if info is None or batch is None or session.engine.definitions.lacks_fast_path(info.name):
        return None
    if statement.returning:
        batch = batch.first(batch.count - 1)
    transaction = session.transaction
    cursor = session.cursor if transaction is None else transaction.idle_cursor
    if not batch.count or cursor is None:
        return None
    try:
        if isinstance(statement, st.Insert):
            return _inserted(info, batch, statement, cursor)
        return _searched(session, info, batch, statement, cursor)
    except (ConstraintError, NotFastError):
        return None  # errors are found, and worded, row by row


class _Call(NamedTuple):
    """A statement of the fast path with many rows of parameters, and where it is run."""

    session: Session
    transaction: Transaction
    path: FastPath
    given: _Converted
    returning: Returning | None

    @property
    def info(self) -> TableInfo:
        return self.given.info

    @property
    def batch(self) -> Batch:
        return self.given.batch

    def add(self, changes: Sequence[TableChange], rows: ZSet) -> int:
        """Adds changes; NotFastError, with nothing added, if what is returned needs DuckDB.

        Returns:
            The number of rows.
        """
        inserts.finished(self.transaction, changes, rows, self.returning)
        return len(rows)


def _in_batch(
    session: Session, statement: st.Insert | st.KeyedChange, given: _Converted
) -> tuple[int, list[int] | None]:
    """The number of rows changed, and those to execute row by row; None for all of them."""
    with session.writing() as transaction:
        try:
            path = demanded(transaction.fast_path(given.info.name), dml.NO_FAST_PATH)
            returning = inserts.returned(session, given.info, statement, statement.returned)
            call = _Call(session, transaction, path, given, returning)
            if isinstance(statement, st.KeyedChange):
                rounds: _Rounds = _Changes(call, statement)
            elif statement.insertion.conflict is not None:
                rounds = _Upserts(call, statement)
            else:
                return _insert(call), []
        except (ConstraintError, NotFastError):
            return 0, None  # nothing is changed yet: errors are found, and worded, row by row
        return _in_rounds(rounds)


class _Rounds(Protocol):
    """One statement with many rows of parameters, in rounds of different keys."""

    def rounds(self) -> list[Indexes]:
        """The rows of each."""

    def apply(self, rows: Indexes) -> int:
        """Executes the statement with some rows; NotFastError if these go one by one."""


def _in_rounds(rounds: _Rounds) -> tuple[int, list[int]]:
    total, left = 0, rounds.rounds()
    for number, rows in enumerate(left):
        try:
            total += rounds.apply(rows)
        except NotFastError:
            return total, np.sort(np.concatenate(left[number:])).tolist()
    return total, []


def _cells(
    info: TableInfo, batch: Batch, positions: Sequence[int], cells: LiteralRows, cursor: Cursor
) -> dict[int, Column]:
    """One row of literals and parameters as columns: of the batch's length, or of one literal."""
    pairs = list(zip(positions, cells.column_parameters, strict=True))
    literal = [i for i, (_, sources) in enumerate(pairs) if sources is None]
    types = [info.schema[positions[i]][1] for i in literal]
    found = columns_of(only(cells, literal), types, (), cursor)
    columns = dict(zip([positions[i] for i in literal], found, strict=True))
    given = {i: batch.columns[sources[0]] for i, sources in pairs if sources is not None}
    return columns | RowColumns(info.schema, info.name, cursor).convert(given)


def _inserted(info: TableInfo, batch: Batch, statement: st.Insert, cursor: Cursor) -> _Converted:
    """The columns of an INSERT of one row in VALUES, for each row of the batch."""
    positions = inserts.positions_of(info, statement.insertion.columns)
    if statement.rows.count != 1 or len(positions) != len(statement.rows.cells):
        raise NotFastError(_ONE_BY_ONE)
    found = _cells(info, batch, positions, statement.rows, cursor)
    return _Converted(info, batch, {i: repeated(c, batch.count) for i, c in found.items()})


def _searched(
    session: Session, info: TableInfo, batch: Batch, statement: st.KeyedChange, cursor: Cursor
) -> _Converted:
    """The keys by which an UPDATE or DELETE finds rows, and what it sets."""
    plan = keyed_changes.plan_of(session, info, statement)
    if not plan.sets.all.isdisjoint({*plan.key, *info.primary_key}):
        raise NotFastError(_ONE_BY_ONE)  # rows that change their key might be found by a later one
    types = [info.schema[i][1] for i in plan.key]
    keys = [_key(batch, one.values, type) for one, type in zip(plan.search.by, types, strict=True)]
    columns = _cells(info, batch, plan.sets.literal, statement.rows, cursor)
    whole = {i: repeated(column, batch.count) for i, column in columns.items()}
    return _Converted(info, batch, whole, plan, tuple(keys))


def _key(batch: Batch, values: LiteralRows, type: ColumnType) -> Column:
    sources = values.column_parameters[0]
    if sources is None:
        column = compared_values(values, type, ())
        if len(column) != 1:
            raise NotFastError(_ONE_BY_ONE)
    elif len(sources) == 1:
        column = compared_parameters(batch.values(sources[0]), type)
    else:
        raise NotFastError(_ONE_BY_ONE)
    return repeated(column, batch.count)


def _insert(call: _Call) -> int:
    path, count = call.path, call.batch.count
    index = call.transaction.index(path.table) if path.key else None
    if path.draws(call.given.columns):  # each row is to draw from sequences once
        path.demand_addable(call.given.columns, count, index)
    change = path.insert(call.given.columns, count, index)
    return call.add([change], change.added)


class _Upserts:
    """INSERT OR REPLACE, OR IGNORE and ON CONFLICT; see `_Rounds`."""

    def __init__(self, call: _Call, statement: st.Insert) -> None:
        self._call, self._statement = call, statement
        path, rule = call.path, inserts.rule_of(call.info, statement, statement.insertion)
        key = rule.target or path.keys[0]
        given = call.given.columns
        if path.draws(given):
            _demand_drawable(path, key, given)
        self._given = dict(path.evaluated_too(given, call.batch.count))
        if not set(key) <= self._given.keys():
            raise NotFastError(_ONE_BY_ONE)
        self._rule, self._index = rule, None
        if path.key:
            all_columns = bool(rule.updates)
            found = call.transaction.index_of_committed(path.table, all_columns)
            self._index = demanded(found, inserts.NO_INDEX_NOW)
        self._key = key

    def rounds(self) -> list[Indexes]:
        """See `_Rounds`."""
        path, given = self._call.path, self._given
        if path.further is None:
            return rounds_by_rank(self._keyed(self._key))
        keys = [self._key, *[key for key in path.keys if given.keys() >= {*key}]]
        return rounds_in_order([self._keyed(key) for key in keys])

    def _keyed(self, key: Positions) -> Keyed:
        types = [self._call.info.schema[i][1] for i in key]
        return Keyed([self._given[i] for i in key], types)

    def apply(self, rows: Indexes) -> int:
        """See `_Rounds`."""
        call = self._call
        expressions = inserts.expressions_of(
            call.session, call.transaction, call.info, self._statement, call.batch.values
        )
        given = {i: column.take(rows) for i, column in self._given.items()}
        shared = self._index, self._rule, expressions.at(rows)
        returns = call.returning is not None
        found = resolve(call.path, given, len(rows), *shared, returning=returns, in_turn=True)
        return call.add(found.changes, found.rows)


def _demand_drawable(path: FastPath, key: Positions, given: Mapping[int, Column]) -> None:
    """Raises if it is known before sequences are drawn from that rows go one by one."""
    path.demand_further()
    others = [one for one in path.keys if one != key and given.keys() >= {*one}]
    if not all(path.are_distinct(one, given) for one in others):
        raise NotFastError(_ONE_BY_ONE)


class _Changes:
    """UPDATE and DELETE by a key; see `_Rounds`."""

    def __init__(self, call: _Call, statement: st.KeyedChange) -> None:
        self._call, self._statement = call, statement
        info, plan = call.info, call.given.plan
        assert plan is not None
        self._sets, self._search = plan.sets, plan.search
        _demand_one_type(call.batch, [*plan.sets.computed.values(), *plan.search.conditions])
        self._key = Keyed(call.given.keys, [info.schema[i][1] for i in plan.key])
        self._by = None
        if info.keyed and plan.key != info.primary_key:
            by = call.transaction.index_by(info.name, plan.key)
            self._by = demanded(by, inserts.NO_INDEX_NOW)
        self._index = keyed_changes.index_of(call.transaction, info, statement, plan)

    def rounds(self) -> list[Indexes]:
        """See `_Rounds`."""
        if self._call.path.further is None:
            return rounds_by_rank(self._key)
        return rounds_in_order([self._key])

    def _stored(self, rows: Indexes) -> tuple[ZSet, Indexes]:
        """The stored rows that some rows of the batch find, and which of these each is found by."""
        keys = [key.take(rows) for key in self._key.columns]
        if self._by is not None:
            found = self._by.find(keys)
            rows = rows[found.probe]
            key = self._call.info.primary_key
            keys = [found.rows.columns[self._by.columns.index(i)] for i in key]
        matches = self._index.find(keys)
        return matches.rows.one_by_one(), rows[matches.probe.repeat(matches.rows.weights)]

    def apply(self, rows: Indexes) -> int:
        """See `_Rounds`."""
        call = self._call
        stored, probed = self._stored(rows)
        met = condition_mask(self._search, stored, self._expressions(probed))
        stored, probed = stored.filter(met), probed[met]
        effect = Effect(deleted=stored)
        if self._statement.kind == "update":
            given = {i: column.take(probed) for i, column in call.given.columns.items()}
            found = stored, self._index, self._expressions(probed), given
            new = new_rows(self._sets, call.info.schema, *found)
            effect = Effect(replaced=stored, updated=new, sets=self._sets.all)
        returns = self._statement.returning
        changes = call.path.check(effect, self._index, returning=returns, in_turn=True)
        return call.add(changes, stored if effect.updated is None else effect.updated)

    def _expressions(self, rows: Indexes) -> RowExpressions:
        call = self._call
        found = keyed_changes.expressions_of(
            call.session, call.transaction, call.info, self._statement, call.batch.values
        )
        return found.at(rows)


def _demand_one_type(batch: Batch, expressions: Sequence[Expression]) -> None:
    """Raises unless each parameter within an expression has one type in all rows.

    A row that finds none is not evaluated, but has to bind, too.
    """
    within = {name for one in expressions if not one.is_parameter for name in one.parameters}
    if any(len(set(map(type, batch.values(name)))) > 1 for name in within):
        raise NotFastError(_ONE_BY_ONE)
