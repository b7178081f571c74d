"""INSERT of literals and parameters by the fast path, with ON CONFLICT and RETURNING.

Contract: rows, count, errors and what RETURNING gives are those of DuckDB's own run; a statement
that is not certain to have them runs in DuckDB. Values are converted before the writer lock is
acquired, and again if the catalog has changed until then.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ivm.changes.fast_table import FastTable
from ivm.changes.row_expressions import row_expressions
from ivm.changes.values.conflicts import Rule, resolve
from ivm.changes.values.row_expressions import Lookup, RowExpressions, lookup_in
from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.fast_path import FastPath
from ivm.ingest.literal_columns import are_given, columns_of
from ivm.ingest.not_fast import NotFastError, demanded
from ivm.ingest.parameters import Params
from ivm.reads.returning import Returning, returning_of
from ivm.session import dml
from ivm.session.results.result import Result
from ivm.session.results.state_result import StateResult
from ivm.session.session import Session
from ivm.sql.resolve.clock import may_tell_time
from ivm.sql.statements import parse as st
from ivm.sql.statements.nodes.nodes import Conflict, Insertion
from ivm.storage.errors import InputError
from ivm.storage.identifiers import fold
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo


def insert(session: Session, statement: st.Insert, params: Params) -> Result:
    """Runs an INSERT … VALUES of literals or parameters, by the fast path if the table has one."""
    if statement.insertion.conflict is not None:
        _demand_no_more(statement, params or ())
    columns = session.ahead(functools.partial(_columns, session, statement, params))
    with session.writing() as transaction:
        info, given = columns()
        path = None if info is None or given is None else transaction.fast_path(info.name)
        if info is not None and path is not None and given is not None:
            table = FastTable(session, transaction, path, info)
            try:
                plan = plan_of(session, info, statement, statement.insertion)
                return insert_rows(table, statement, plan, given, statement.rows.count, params)
            except NotFastError:
                pass  # nothing is changed yet
        return dml.run_in_duckdb(session, transaction, statement, info, params)


def _demand_no_more(statement: st.Insert, params: Sequence[Any] | Mapping[str, Any]) -> None:
    """Raises InputError if there are more values than parameters; the capture would not notice."""
    if isinstance(params, Mapping):
        surplus = [name for name in params if name not in statement.parameters]
    else:
        indexes = [index for index in statement.parameters if isinstance(index, int)]
        surplus = list(map(str, range(max(indexes, default=-1) + 2, len(params) + 1)))
    if surplus:
        raise InputError(
            f"there are no parameters for the values {', '.join(surplus)}: give each one value"
        )


def _columns(
    session: Session, statement: st.Insert, params: Params
) -> tuple[TableInfo | None, dict[int, Column] | None]:
    """The base table, if it is one, and the rows as its columns; None for these if DuckDB must run
    the statement."""
    info, transaction = dml.table_of(session, statement), session.transaction
    if info is None or session.engine.definitions.lacks_fast_path(info.name):
        return info, None
    cursor: Cursor | None = session.cursor
    if transaction is not None:
        if transaction.fast_path(info.name) is None:
            return info, None
        cursor = transaction.idle_cursor
    if not are_given(statement.parameters, params or ()):
        return info, None
    positions = positions_of(info, statement.insertion.columns)
    types = [info.schema[i][1] for i in positions]
    try:
        columns = columns_of(statement.rows, types, params or (), cursor)
    except NotFastError:
        return info, None
    return info, dict(zip(positions, columns, strict=True))


def positions_of(info: TableInfo, names: tuple[str, ...] | None) -> list[int]:
    """The positions of the columns that an INSERT names; [] if one is unknown or named twice."""
    if names is None:
        return list(range(len(info.schema)))
    found = [info.position(name) for name in names]
    known = [i for i in found if i is not None]
    return known if len(set(known)) == len(names) else []


def insert_rows(
    table: FastTable,
    statement: st.Dml,
    plan: InsertPlan,
    given: dict[int, Column],
    count: int,
    params: Params,
) -> Result:
    """Inserts by the fast path.

    Args:
        table: gets the rows.
        statement: that gives them.
        plan: what is done with them.
        given: their columns by position.
        count: their number.
        params: for the expressions of ON CONFLICT.

    Raises:
        NotFastError: DuckDB must run the statement.
        ConstraintError: a row without a rule for conflicts violates a constraint.
    """
    session, transaction, path, info = table
    rule, returning = plan
    if rule is None:
        index = transaction.index(path.table) if path.key else None
        change = path.insert(given, count, index)
        return finished(transaction, [change], change.added, returning)
    index = None
    if path.key:
        found = transaction.index_of_committed(path.table, all_columns=bool(rule.updates))
        index = demanded(found, NO_INDEX_NOW)
    twice = bool(rule.updates) and _tells_time_twice(path, given, statement)
    if twice and not transaction.time.tell(often=True):
        raise NotFastError("it tells the time again, which has passed")
    expressions = expressions_of(session, transaction, info, statement, lookup_in(params or ()))
    returns = statement.returning
    resolved = resolve(path, given, count, index, rule, expressions, returning=returns)
    return finished(transaction, *resolved, returning)


def _tells_time_twice(path: FastPath, given: Mapping[int, Column], statement: st.Dml) -> bool:
    """Returns whether the time may be told by a default and by what is set."""
    defaults = [default for i, default in path.evaluated.items() if i not in given]
    return any(default.tells for default in defaults) and may_tell_time(statement.text)


class InsertPlan(NamedTuple):
    """How an INSERT is done: `rule` is of the conflicts, if it has any clause about them."""

    rule: Rule | None
    returning: Returning | None


def plan_of(
    session: Session, info: TableInfo, statement: st.Dml, insertion: Insertion
) -> InsertPlan:
    """The plan of the fast path; NotFastError if DuckDB must run the statement."""
    returning = returned(session, info, statement, insertion.returned)
    rule = None if insertion.conflict is None else rule_of(info, statement, insertion)
    return InsertPlan(rule, returning)


_NO_RULE = "the rule for conflicts is not one by a key that sets other columns"
NO_INDEX_NOW = "the table's key index cannot be built in this transaction"
NO_RETURNING = "its RETURNING list is not certain to have kernels that equal DuckDB"


def finished(
    transaction: Transaction,
    changes: Sequence[TableChange],
    rows: ZSet,
    returning: Returning | None,
) -> Result:
    """Adds changes; the result is the count of rows or what RETURNING gives of them.

    Raises:
        NotFastError: DuckDB must compute that; nothing is added.
    """
    answer = None if returning is None else demanded(returning.of(rows), NO_RETURNING)
    for change in changes:
        transaction.add(change)
    return Result.count(len(rows)) if answer is None else StateResult(answer, len(rows))


def returned(session: Session, info: TableInfo, statement: st.Dml, listed: str) -> Returning | None:
    """The compiled RETURNING list, None if there is none; NotFastError if DuckDB computes it."""
    if not statement.returning or statement.table is None:
        return None
    upserts = statement.on_conflict or bool(statement.or_action)
    kind, named = "update" if upserts else statement.kind, (statement.table[-1], statement.alias)
    found = returning_of(listed, kind, info.schema, *named, session.macros)
    return demanded(found, NO_RETURNING)


def rule_of(info: TableInfo, statement: st.Dml, insertion: Insertion) -> Rule:
    """What is to be done with rows whose key is stored; NotFastError if DuckDB must find out."""
    conflict, keys = insertion.conflict, _keys(info)
    if conflict is None or not keys or _hides_excluded(statement):
        raise NotFastError(_NO_RULE)
    target = None
    if conflict.target is not None:
        named = [info.position(name) for name in conflict.target]
        found = next((k for k in keys if len(named) == len(k) and {*named} == {*k}), None)
        target = demanded(found, _NO_RULE)
    elif len(keys) == 1:
        target = keys[0]
    updates = conflict.replaces or conflict.sets
    if updates and (target is None or not info.primary_key):
        raise NotFastError(_NO_RULE)
    if conflict.replaces and target is not None:
        given = positions_of(info, insertion.columns)
        rest = {position: None for position in given if position not in target}
        if not rest:  # DuckDB counts such rows its own way
            raise NotFastError(_NO_RULE)
        return Rule(rest, target=target)
    return _rule(info, conflict, target)


def _keys(info: TableInfo) -> list[tuple[int, ...]]:
    """The columns of the primary key, and of UNIQUE constraints and indexes."""
    keys = [key for key in (info.primary_key, *info.uniques) if key]
    return list({tuple(sorted(key)): key for key in reversed(keys)}.values())


def _hides_excluded(statement: st.Dml) -> bool:
    assert statement.table is not None
    return fold(statement.alias or statement.table[-1]) == "excluded"


def _rule(info: TableInfo, conflict: Conflict, target: tuple[int, ...] | None) -> Rule:
    found = [(info.position(name), expression) for name, expression in conflict.sets]
    updates = {position: value for position, value in found if position is not None}
    if len(updates) < len(found) or updates.keys() & {*info.primary_key, *(target or ())}:
        raise NotFastError(_NO_RULE)  # unknown, set twice, or in the key
    return Rule(updates, conflict.where, target)


def expressions_of(
    session: Session,
    transaction: Transaction,
    info: TableInfo,
    statement: st.Dml,
    lookup: Lookup,
) -> RowExpressions:
    """Evaluates DO UPDATE over the columns of the stored row and of `excluded`."""
    assert statement.table is not None
    stored = "", statement.alias or statement.table[-1]
    parts = (info.schema, stored), (info.schema, ("excluded",))
    return row_expressions(session, transaction, statement, parts, lookup)
