"""INSERT … SELECT and COPY … FROM: rows that memory or DuckDB gives, added by the fast path.

Contract: as of `ivm.changes.queried_changes`.
"""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from typing import NamedTuple

import duckdb

from ivm.capture.upsert import definition
from ivm.changes import inserts
from ivm.changes.fast_table import FastTable
from ivm.changes.inserts import InsertPlan
from ivm.changes.read.change_text import ChangeText
from ivm.changes.read.insert_clauses import CopyClauses, is_query, read_copy
from ivm.changes.rows.evaluation import are_carried, copied
from ivm.changes.rows.few_rows import cast_rows
from ivm.changes.rows.small_files import small_rows
from ivm.changes.source_rows import SourceRows
from ivm.changes.values.upserted_types import may_cast
from ivm.ingest.fast_path import FastPath
from ivm.ingest.not_fast import VIOLATES, NotFastError, demanded
from ivm.ingest.parameters import Params
from ivm.session.insert_templates import KnownInsert
from ivm.session.readable import demand_ahead
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.changes.inserts import conflict_of
from ivm.sql.statements.nodes.expressions import Marks
from ivm.sql.statements.nodes.nodes import Conflict, Insertion
from ivm.storage.errors import ConstraintError
from ivm.storage.values.consolidate import all_distinct
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duck import lenient
from ivm.storage.warehouse.duckdb.duck import rows as fetched
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
    insertion = Insertion(columns, conflict, written.piece(clauses.returning.rest))
    plan = inserts.plan_of(session, info, statement, insertion)
    return Source(written, columns, plan, source)


def _named(session: Session, written: ChangeText, query: str) -> tuple[str, ...]:
    """The names of a query's columns; NotFastError if it does not bind."""
    session.release()
    with lenient(session.cursor):
        try:
            found = fetched(session.cursor, f"DESCRIBE {query}", written.params(query))
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


def insert(table: FastTable, statement: st.Dml, params: Params) -> Result:
    """Inserts the rows that memory or DuckDB gives; NotFastError if DuckDB must insert them."""
    session = table.session
    known = None if params else session.insert_templates.find(statement.text)
    if known is not None:
        try:
            return _as_known(table, known)
        except NotFastError:
            session.insert_templates.forget(known)
    return _as_read(table, statement, params)


def _as_read(table: FastTable, statement: st.Dml, params: Params) -> Result:
    """Inserts the rows of a statement that is not known."""
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
    session, info = table.session, table.info
    schema, given = _schema(info, positions), SourceRows(table, statement, source.written)
    if source.copy is not None:
        return _rows_of_file(given, info, source.copy, schema)
    # As few conversions as the rule for conflicts allows: in the query's own types where they are
    # compared, else DuckDB casts to the table's.
    held = given.held(source.text)
    if held is not None:
        _demand_casts(held[0], info, source, positions)
        inserted = cast_rows(held[1], held[0], schema)
        if inserted is not None:
            _learn(session, statement, info, source, positions)
            return inserted
    if _has_own_types(source):
        own, rows = given.described(source.text)
        _demand_casts(own, info, source, positions)
        return demanded(cast_rows(rows, own, schema), _NO_CAST)
    written = source.written
    return given.cast(written.piece(written.clauses.source), schema, written.prefix)


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


def _rows_of_file(given: SourceRows, info: TableInfo, copy: CopyClauses, schema: Schema) -> ZSet:
    session, cursor = given.table.session, given.table.session.cursor
    if not copy.query:
        params = given.written.params(copy.text)
        return copied(cursor, definition(info), copy.text, params, schema)
    is_free = session.engine.warehouse.file_access.is_free(cursor)
    small = small_rows(copy.file, schema) if is_free else None
    return given.cast(copy.query, schema) if small is None else small


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
