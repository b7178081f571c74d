"""INSERT … SELECT and COPY … FROM: rows that memory or DuckDB gives, added by the fast path.

Contract: rows, count, errors and what RETURNING gives are those of DuckDB's own run. A query that
memory answers (`ivm.reads`) sees the open transaction. Any other is DuckDB's, which reads in a
transaction of its own, so the statement is left to it where it might see something else: what
the open transaction has changed, or the time at which that began. Every other doubt, every error
and very many rows are left to it too; until the rows are added nothing has been changed.
"""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from typing import NamedTuple

import duckdb

from ivm.capture.upsert import definition
from ivm.changes import inserts, joined_changes
from ivm.changes.fast_table import FastTable
from ivm.changes.inserts import InsertPlan
from ivm.changes.read.change_text import ChangeText
from ivm.changes.read.insert_clauses import CopyClauses, is_query, read_copy
from ivm.changes.rows.evaluation import are_carried, copied, described, evaluated
from ivm.changes.rows.few_rows import cast_rows
from ivm.changes.rows.small_files import small_rows
from ivm.changes.values.upserted_types import may_cast
from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.fast_path import FastPath
from ivm.ingest.not_fast import VIOLATES, NotFastError, demanded
from ivm.ingest.parameters import Params
from ivm.session import dml
from ivm.session.bulk import can_load, load
from ivm.session.insert_templates import KnownInsert
from ivm.session.is_read_only import is_read_only
from ivm.session.readable import READS_CHANGES, demand_ahead, demand_readable
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.changes.inserts import conflict_of
from ivm.sql.statements.nodes.expressions import Marks
from ivm.sql.statements.nodes.nodes import Conflict, InsertRules
from ivm.storage.errors import ConstraintError
from ivm.storage.values.consolidate import all_distinct
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duck import lenient, rows
from ivm.storage.warehouse.duckdb.duckdb_errors import is_cut_short
from ivm.storage.warehouse.tables.table_info import TableInfo

_NO_CAST = "its rows are cast to the table's types by DuckDB alone"
_LARGE = 1 << 24
"""Bytes of a file from which DuckDB loads it itself."""


class Source(NamedTuple):
    """The rows that a statement adds.

    Attributes:
        written: the statement.
        columns: those that it names, or None for all.
        plan: how they are added.
        text: the query that gives them; "" for a COPY.
        copy: the pieces of a COPY.
    """

    written: ChangeText
    columns: tuple[str, ...] | None
    plan: InsertPlan
    text: str
    copy: CopyClauses | None = None


def change(session: Session, statement: st.Dml, params: Params) -> Result:
    """Runs a change that no key finds the rows of: by the fast path, or in DuckDB and captured."""
    with session.writing() as transaction:
        info = dml.table_of(session, statement)
        if statement.table is None:
            dml.refuse_hidden(session, statement.text)
        if info is not None:
            try:
                return fast(session, transaction, statement, info, params)
            except NotFastError:
                pass  # nothing is changed yet
        if info is not None and can_load(session, transaction, statement, info):
            return load(session, transaction, statement, info, params)
        return dml.run_in_duckdb(session, transaction, statement, info, params)


def source_of(
    session: Session, info: TableInfo, statement: st.Dml, params: Params = None
) -> Source:
    """The rows that a statement adds; NotFastError if DuckDB must run it."""
    if statement.kind not in ("insert", "copy"):
        raise NotFastError(f"{statement.kind.upper()} has no other way")
    if not are_carried([type for _, type in info.schema]):
        raise NotFastError("a column has a type of which not all values can be read")
    written = ChangeText(statement.text, params)
    demand_ahead(session, statement.text)
    read = _copy if statement.kind == "copy" else _insert
    source = read(session, info, statement, written)
    path = session.engine.definitions.fast_path(info.name)
    if path is not None:
        given = inserts.positions_of(info, source.columns)
        missing = [info.schema[i][0] for i in path.evaluated if i not in given]
        if missing:  # they draw from a sequence, or tell the time of DuckDB's transaction
            raise NotFastError(f"the defaults of {', '.join(missing)} are evaluated with its rows")
    return source


def _insert(session: Session, info: TableInfo, statement: st.Dml, written: ChangeText) -> Source:
    clauses, text, conflict = written.clauses, written.text, None
    if not is_query(written):
        raise NotFastError("its rows are VALUES, of more than literals and parameters")
    source = f"{written.prefix} {written.piece(clauses.source)}".lstrip()
    by_name = clauses.naming == "NAME"
    columns = _named(session, written, source) if by_name else clauses.columns
    if statement.or_action:
        conflict = Conflict(replaces=statement.or_action == "replace")
    elif statement.on_conflict:
        found = conflict_of(text, written.within(clauses.conflict), Marks(named=True))
        conflict = demanded(found, "its ON CONFLICT clause is read by DuckDB alone")
    rules = InsertRules(columns, conflict, written.piece(clauses.returning.rest))
    plan = inserts.plan_of(session, info, statement, rules)
    return Source(written, columns, plan, source)


def _named(session: Session, written: ChangeText, query: str) -> tuple[str, ...]:
    """The names of a query's columns; NotFastError if it does not bind."""
    session.release()
    with lenient(session.cursor):
        try:
            found = rows(session.cursor, f"DESCRIBE {query}", written.params(query))
        except duckdb.Error as error:
            if is_cut_short(error):
                raise
            raise NotFastError("the names of its columns are not known") from error
    return tuple([name for name, *_ in found])


def _copy(session: Session, info: TableInfo, statement: st.Dml, written: ChangeText) -> Source:
    read = demanded(read_copy(written), "it does not read one file that is here")
    if os.path.getsize(read.file) > _LARGE:
        raise NotFastError("the file is large")
    columns = written.clauses.columns if read.query else None  # others get DuckDB's default
    return Source(written, columns, InsertPlan(None, None), "", read)


def fast(
    session: Session, transaction: Transaction, statement: st.Dml, info: TableInfo, params: Params
) -> Result:
    """Makes a change by the fast path; NotFastError if DuckDB must run the statement."""
    if info.history is not None:
        raise NotFastError("the table is not stored")
    demanded(transaction.idle_cursor, READS_CHANGES)
    path = demanded(transaction.fast_path(info.name), dml.NO_FAST_PATH)
    table = FastTable(session, transaction, path, info)
    if statement.kind in joined_changes.KINDS:
        return joined_changes.change_of_met_rows(table, statement, params)
    known = None if params else session.insert_templates.find(statement.text)
    if known is not None:
        try:
            return _as_known(table, known)
        except NotFastError:
            session.insert_templates.forget(known)
    return _as_read(table, statement, params)


def _as_read(table: FastTable, statement: st.Dml, params: Params) -> Result:
    """Inserts the rows that memory or DuckDB gives; NotFastError if DuckDB must insert them."""
    session, transaction, path, info = table
    source = source_of(session, info, statement, params)
    source.written.demand_fit()
    rule = source.plan.rule
    changes = rule is not None and bool(rule.updates)
    if path.key:
        demanded(transaction.index_of_committed(info.name, changes), inserts.NO_INDEX_NOW)
    positions = inserts.positions_of(info, source.columns)
    if not positions:
        raise NotFastError("it names an unknown column, or one twice")
    found = _rows(table, statement, source, positions)
    if changes:
        _demand_distinct(path, positions, found)
    return _add(table, statement, source.plan, positions, found, params)


def _as_known(table: FastTable, known: KnownInsert) -> Result:
    """Inserts the rows that memory gives; NotFastError if it does not, or DuckDB must do it."""
    session, transaction, path, info = table
    insert, positions = known.template.insert, known.template.positions
    if known.template.info is not info or not path.evaluated.keys() <= set(positions):
        raise NotFastError("the table is another one")
    if path.key:
        demanded(transaction.index_of_committed(info.name, False), inserts.NO_INDEX_NOW)
    held = session.source_of_shape(transaction, known.template.query, known.literals)
    found = None if held is None else cast_rows(held[1], held[0], _schema(info, positions))
    plan = InsertPlan(None, None)
    return _add(table, insert, plan, positions, demanded(found, _NO_CAST))


def _add(
    table: FastTable,
    statement: st.Dml,
    plan: InsertPlan,
    positions: Sequence[int],
    rows: ZSet,
    params: Params = None,
) -> Result:
    """Inserts rows by the fast path; NotFastError if DuckDB must do it."""
    given = dict(zip(positions, rows.columns, strict=True))
    try:
        return inserts.insert_rows(table, statement, plan, given, len(rows), params)
    except ConstraintError as error:
        raise NotFastError(VIOLATES) from error


def _schema(info: TableInfo, positions: Sequence[int]) -> Schema:
    return tuple([info.schema[i] for i in positions])


def _rows(table: FastTable, statement: st.Dml, source: Source, positions: Sequence[int]) -> ZSet:
    """The values of the columns at these positions."""
    session, transaction, _, info = table
    schema = _schema(info, positions)
    # Memory first, which costs no statement and sees the open transaction. What DuckDB reads it
    # reads elsewhere (`demand_readable`), as few conversions as the rule for conflicts allows: in
    # the query's own types where they are compared, else in the table's.
    held = _held(session, transaction, source)
    if held is not None:
        _demand_casts(held[0], info, source, positions)
        inserted = cast_rows(held[1], held[0], schema)
        if inserted is not None:
            _learn(session, statement, info, source, positions)
            return inserted
    demand_readable(session, transaction, statement, source.text)
    if _has_own_types(source):
        own, found = _described(session, source)
        _demand_casts(own, info, source, positions)
        return demanded(cast_rows(found, own, schema), _NO_CAST)
    if source.copy is not None:
        return _rows_of_file(session, info, source.copy, source.written, schema)
    query = source.written.piece(source.written.clauses.source)
    return _queried(session, query, source.written, schema)


def _learn(
    session: Session,
    statement: st.Dml,
    info: TableInfo,
    source: Source,
    positions: Sequence[int],
) -> None:
    """Lets a statement be known whose rows memory has given."""
    written, plan = source.written, source.plan
    named = written.prefix or written.clauses.naming == "NAME"
    if not (named or written.values()) and (plan.rule, plan.returning) == (None, None):
        session.insert_templates.learn(statement, source.text, info, positions)


def _rows_of_file(
    session: Session, info: TableInfo, read: CopyClauses, written: ChangeText, schema: Schema
) -> ZSet:
    cursor = session.cursor
    if not read.query:
        return copied(cursor, definition(info), read.text, written.params(read.text), schema)
    is_free = session.engine.warehouse.file_access.is_free(cursor)
    small = small_rows(read.file, schema) if is_free else None
    return _queried(session, read.query, written, schema) if small is None else small


def _queried(session: Session, query: str, written: ChangeText, schema: Schema) -> ZSet:
    """The rows that DuckDB gives."""
    prefix = written.prefix
    sql = f"{prefix} {query}"
    given, alone = written.params(sql), is_read_only(session, sql)
    return evaluated(session.cursor, query, given, schema, session.few, prefix=prefix, alone=alone)


def _held(session: Session, transaction: Transaction, source: Source) -> tuple[Schema, ZSet] | None:
    """The rows if they are in memory."""
    if not source.text:
        return None
    given = source.written.params(source.text)
    return session.source_from_state(transaction, source.text, given)


def _described(session: Session, source: Source) -> tuple[Schema, ZSet]:
    """The rows that DuckDB gives, in the types of the query."""
    given, alone = source.written.params(source.text), is_read_only(session, source.text)
    return described(session.cursor, source.text, given, session.few, alone=alone)


def _has_own_types(source: Source) -> bool:
    """Returns whether rows are compared with stored ones in the types of the query."""
    if source.plan.rule is None:
        return False
    return source.written.words(source.written.clauses.source)[0] != "VALUES"


def _demand_casts(given: Schema, info: TableInfo, source: Source, positions: Sequence[int]) -> None:
    """Raises NotFastError unless rows may be cast to the table's types before they are compared."""
    rule = source.plan.rule
    if rule is None or not _has_own_types(source):
        return
    key = {i for key in (info.primary_key, *info.uniques) for i in key}
    types = [type for _, type in given]
    if len(types) != len(positions) or not may_cast(types, positions, info.schema, rule, key):
        raise NotFastError("its rows are compared with stored ones in the types of the query")


def _demand_distinct(path: FastPath, positions: Sequence[int], found: ZSet) -> None:
    """Demands that no key is there twice: DuckDB updates by one of several rows."""
    for key in path.keys:
        if not set(key) <= set(positions):
            raise NotFastError("it gives not all columns of a key")
        columns = [found.columns[positions.index(i)] for i in key]
        if not all_distinct(columns, [path.schema[i][1] for i in key]):
            raise NotFastError("DuckDB decides which of several rows under one key count")
