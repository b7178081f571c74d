"""Watermarks of tables: WATERMARK FOR in CREATE TABLE, SET and DROP WATERMARK in ALTER TABLE.

Invariant: a table with a watermark has a row of `_ivm.watermarks`, and a plain view of one row in
the schema `_ivm` that gives it in the type of the table's times, for `watermark('table')`. Both go
with the table, and follow renames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import duckdb

from ivm.engine.tables.row_times import TIMED
from ivm.engine.tables.watermark_parts import Part, Parts, can_part, replaced
from ivm.engine.tables.watermark_rows import Watermark, replacement
from ivm.engine.transactions.transaction import Transaction
from ivm.engine.views.view_reads import NamedText, definitions_named, views_and_macros
from ivm.ingest.parameters import Params
from ivm.session.dml import refuse_own
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.plan.nodes import Emit
from ivm.sql.statements import parse as st
from ivm.sql.statements.nodes.nodes import WatermarkClause
from ivm.sql.statements.own.watermark_calls import PREFIX, WATERMARKS, relation_of
from ivm.storage.errors import SqlError, UnsupportedError
from ivm.storage.identifiers import fold, literal, path_of
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import from_arrow
from ivm.storage.warehouse.duckdb.duck import run, table
from ivm.storage.warehouse.duckdb.duckdb_errors import of_our_sql
from ivm.storage.warehouse.tables.system_tables import WATERMARK_TABLES
from ivm.storage.warehouse.tables.table_info import TableInfo


def set_watermark(session: Session, statement: st.SetWatermark, params: Params) -> Result:
    """Runs ALTER TABLE … SET WATERMARK FOR … and DROP WATERMARK."""
    refuse_own(statement.name)
    with session.writing() as transaction:
        catalog = session.engine.catalog
        name = session.names.resolve(statement.name)
        if name is None and statement.if_exists:
            return Result("done")
        if name is None or name not in catalog.tables:
            raise SqlError(
                f"{'.'.join(statement.name)!r} is no base table of this database", statement.offset
            )
        old = transaction.watermark_moves.marks.get(name)
        if statement.clause is None:
            _refuse_column(catalog.tables[name], statement, old)
            _drop(session, transaction, name, old)
        else:
            _set(session, transaction, catalog.tables[name], statement.clause, old)
    return Result("done")


def advance_watermark(session: Session, statement: st.AdvanceWatermark, params: Params) -> Result:
    """Runs ALTER TABLE … ADVANCE WATERMARK TO …."""
    if statement.if_exists and session.names.resolve(statement.name) is None:
        return Result("done")
    advance(session, statement.name, statement.to, params)
    return Result("done")


def advance(session: Session, name: st.Name, to: str, params: Params) -> None:
    """Moves a watermark by hand: nothing before that time will come, or it will be late.

    Args:
        name: of the table.
        to: the time, as SQL; one that the watermark has passed changes nothing.
        params: of that.

    Raises:
        SqlError: the table has no watermark, or `to` is no time.
    """
    with session.writing() as transaction:
        found = session.names.resolve(name)
        old = transaction.watermark_moves.marks.get(found or "")
        if old is None:
            raise SqlError(f"table {'.'.join(name)!r} has no watermark")
        at = _micros(session, session.engine.catalog.tables[old.table], old.column, to, params)
        if old.at is None or at > old.at:
            new = replace(old, at=at)
            transaction.add(replacement(old, new))


def _micros(session: Session, info: TableInfo, column: str, to: str, params: Params) -> int:
    """A time in microseconds since 1970; that of a DATE is its midnight."""
    type = info.schema[info.position(column) or 0][1].sql
    type = "TIMESTAMP" if type == "DATE" else type
    try:
        found = table(session.cursor, f"SELECT CAST(({to}) AS {type}) AS t", params)
    except duckdb.Error as error:
        raise SqlError(f"expected a time: {of_our_sql(error)}") from error
    (value,) = from_arrow(found, (("t", type_of(type)),)).columns
    if value.cell(0) is None:
        raise SqlError("expected a time, not NULL")
    return int(value.cell(0))


def _refuse_column(info: TableInfo, statement: st.SetWatermark, old: Watermark | None) -> None:
    """Refuses DROP WATERMARK where that may mean a column of the name, as DuckDB reads it.

    Raises:
        SqlError: it may.
    """
    if statement.dropped is None and info.position("watermark") is not None:
        told = "" if old is None else f", and DROP WATERMARK FOR {old.column} the watermark"
        raise SqlError(
            f"table {info.name!r} has a column 'watermark': DROP COLUMN watermark drops that{told}",
            statement.offset,
        )
    if old is not None and fold(statement.dropped or old.column) != fold(old.column):
        raise SqlError(f"the watermark of {info.name!r} follows {old.column!r}", statement.offset)


def _drop(session: Session, transaction: Transaction, name: str, old: Watermark | None) -> None:
    if old is None:
        raise SqlError(f"table {name!r} has no watermark")
    _refuse_readers(session, name, f"drop the watermark of {name!r}")
    _replace(session, transaction, old, None)


def _refuse_readers(session: Session, name: str, what: str) -> None:
    """Refuses what would take a table's watermark away from views.

    Raises:
        UnsupportedError: views read it.
    """
    views = [v for v in session.engine.catalog.views.values() if WATERMARKS in v.reads]
    wanted, texts = fold(relation_of(path_of(name))), views_and_macros(session.cursor)
    found = [
        view.name
        for view in views
        if (isinstance(view.plan, Emit) and name in view.plan.tables)
        or any(wanted in fold(text) for text in _texts(view.query, texts))
    ]
    if found:
        raise UnsupportedError(
            f"cannot {what}: {', '.join(found)} read{'s' if len(found) == 1 else ''} its "
            f"watermark; drop {'it' if len(found) == 1 else 'them'} first"
        )


def _texts(query: str, definitions: list[NamedText]) -> list[str]:
    """A query and the texts of the plain views and macros that it goes through."""
    others = [each for each in definitions if not fold(each[0]).startswith(PREFIX)]
    return [query, *[text for _, text in definitions_named(query, others)]]


def _set(
    session: Session,
    transaction: Transaction,
    info: TableInfo,
    clause: WatermarkClause,
    old: Watermark | None,
) -> None:
    """Gives a table a watermark, or another delay or policy to the one it has."""
    column = _column(info, clause.column)
    if old is not None and old.column != column:
        raise UnsupportedError(
            f"the watermark of {info.name!r} follows {old.column!r}, and cannot fall: ALTER TABLE "
            f"{info.name} DROP WATERMARK first"
        )
    if old is None:
        _refuse_final_readers(session, info.name)
    late = clause.late or ("apply" if old is None else old.late)
    by = None if clause.by is None else _part_column(info, clause.by)
    new = Watermark(info.name, column, clause.delay, late, clause.idle_after, by=by)
    parts: Parts = {}
    if old is not None:
        idle = old.idle_after if clause.idle_after is None else clause.idle_after
        new = replace(new, idle_after=idle, by=by or old.by, late_rows=old.late_rows)
        new = replace(new, at=old.at, greatest=old.greatest, seen=old.seen)
    if old is None or old.by != new.by:
        transaction.watermark_moves.begin(info.name)
    else:
        engine = session.engine
        parts = engine.watermarks.parts_after(info.name, transaction.changes)
        new = new.after(old.greatest, 0, engine.clock.time, engine.watermarks.slowest(new, parts))
    _replace(session, transaction, old, new, parts)


def _refuse_final_readers(session: Session, name: str) -> None:
    """Refuses a watermark that final views would have to wait for, too.

    Raises:
        UnsupportedError: there are some.
    """
    views = session.engine.catalog.views.values()
    found = [view.name for view in views if view.final and name in view.bases]
    if found:
        raise UnsupportedError(
            f"{name!r} is read by the final view {', '.join(found)}, whose rows would wait for its "
            "watermark too: drop that first, and make it again"
        )


def _part_column(info: TableInfo, name: str) -> str:
    """The column that tells parts apart, as the table writes it.

    Raises:
        SqlError: there is no such column, or its values cannot tell any.
    """
    at = info.position(name)
    if at is None:
        raise SqlError(
            f"table {info.name!r} has no column {name!r} to tell parts apart of its watermark"
        )
    column, type = info.schema[at]
    if not can_part(type):
        raise SqlError(f"{column!r} is of type {type}: watermark_by names integers or texts")
    return column


def _column(info: TableInfo, name: str) -> str:
    """The column that tells a row's time, as the table writes it.

    Raises:
        SqlError: there is no such column, or it tells no time.
    """
    at = info.position(name)
    if at is None:
        raise SqlError(
            f"table {info.name!r} has no column {name!r} for its watermark to follow; ALTER TABLE "
            f"{info.name} DROP WATERMARK drops that"
        )
    column, type = info.schema[at]
    if type.sql not in TIMED:
        raise SqlError(
            f"{column!r} is of type {type}: a watermark follows a column of "
            f"{', '.join(TIMED[:-1])} or {TIMED[-1]}"
        )
    return column


def refuse_watermark(statement: st.Ddl) -> None:
    """Refuses a watermark of what is no table of the database, or a temporary one.

    Raises:
        UnsupportedError: it is such.
    """
    if statement.watermark and (statement.target != "table" or statement.temporary):
        raise UnsupportedError(
            "only a table of this database, which is not temporary, can have a watermark",
            statement.offset,
        )


def mark_created(
    session: Session,
    transaction: Transaction,
    statement: st.Ddl,
    before: Mapping[str, TableInfo],
) -> None:
    """Gives a table that has just been created its watermark, unless it was there before.

    Args:
        before: the tables before.
    """
    clause, catalog = statement.watermark, session.engine.catalog
    name = None if statement.name is None else session.names.resolve(statement.name)
    if clause is None:
        return
    if name is None or name not in catalog.tables:
        raise UnsupportedError("only a table of this database can have one", statement.offset)
    if name not in before or statement.replace:
        _set(session, transaction, catalog.tables[name], clause, None)


def move_watermarks(
    session: Session, transaction: Transaction, before: Mapping[str, TableInfo]
) -> None:
    """Lets the watermarks follow a change of the catalog.

    Args:
        before: the tables before.

    Raises:
        SqlError: a table has lost the column that its watermark follows.
    """
    tables = session.engine.catalog.tables
    known = transaction.watermark_moves.marks
    if tables == before or not known:
        return
    now = {info.oid: info for info in tables.values()}
    for name, mark in known.items():
        old = before.get(name)
        info = None if old is None else now.get(old.oid)
        if old is None or info is None:
            _refuse_readers(session, name, f"drop {name!r}")
            _replace(session, transaction, mark, None)
        elif info != old and mark.position(old) is not None:
            if info.name != name:
                _refuse_readers(session, name, f"rename {name!r}")
            column = _renamed(old, info, mark.column)
            _refuse_type(old, info, mark.column, column)
            by = None if mark.by is None else _part_column(info, _renamed(old, info, mark.by))
            if by is not None and mark.by is not None:
                _refuse_type(old, info, mark.by, by)
            new = replace(mark, table=info.name, column=_column(info, column), by=by)
            if new == mark:
                continue
            parts = session.engine.watermarks.parts_after(name, transaction.changes)
            _replace(session, transaction, mark, new, parts)


def _refuse_type(old: TableInfo, now: TableInfo, before: str, column: str) -> None:
    """Refuses another type of the column that a watermark follows, which would be another time."""
    was, at = old.position(before), now.position(column)
    if was is not None and at is not None and old.schema[was][1] != now.schema[at][1]:
        raise UnsupportedError(
            f"the watermark of {now.name!r} follows {column!r}, which would have another type: "
            f"ALTER TABLE {now.name} DROP WATERMARK first"
        )


def _renamed(old: TableInfo, now: TableInfo, name: str) -> str:
    """The name that a column has now."""
    at = old.position(name)
    same = at is not None and len(now.schema) == len(old.schema)
    return now.schema[at][0] if now.position(name) is None and same and at is not None else name


def restore_watermarks(
    session: Session, found: Sequence[tuple[Any, ...]], parts: Sequence[tuple[Any, ...]]
) -> None:
    """Gives imported tables their watermarks, as far as they had come.

    Args:
        found: rows of `_ivm.watermarks`.
        parts: rows of `_ivm.watermark_parts`.
    """
    for row in found:
        with session.writing() as transaction:
            mark = Watermark(*row)
            own = {name: Part(*told) for of, name, *told in parts if of == mark.table}
            if mark.table in session.engine.catalog.tables:
                _begin(session, transaction)
                old = transaction.watermark_moves.marks.get(mark.table)
                _replace(session, transaction, old, mark, own)


def _begin(session: Session, transaction: Transaction) -> None:
    """Makes `_ivm.watermarks` in the transaction, if there is none."""
    transaction.begin_in_duckdb()
    transaction.change_catalog()
    if WATERMARKS not in session.engine.catalog.tables:
        transaction.change_tables()
        for name, columns in WATERMARK_TABLES.items():
            run(session.cursor, f"CREATE TABLE _ivm.{name} {columns}")
        session.engine.reload_tables(session.cursor)


def _replace(
    session: Session,
    transaction: Transaction,
    old: Watermark | None,
    new: Watermark | None,
    parts: Parts = MappingProxyType({}),
) -> None:
    """Puts a watermark in the place of another, and so for its parts and the plain view."""
    _begin(session, transaction)
    if old is not None:
        known = session.engine.watermarks.parts_after(old.table, transaction.changes)
        for change in replaced(old.table, known, {}):
            transaction.add(change)
    transaction.add(replacement(old, new))
    for change in replaced(new.table, {}, parts) if new is not None else ():
        transaction.add(change)
    if new is None and old is not None:
        transaction.watermark_moves.end(old.table)
    if old is not None and (new is None or new.table != old.table):
        run(session.cursor, f"DROP VIEW IF EXISTS {relation_of(path_of(old.table))}")
    if new is not None and (old is None or new.table != old.table):
        run(session.cursor, _plain_view(session.engine.catalog.tables[new.table], new))


def _plain_view(info: TableInfo, mark: Watermark) -> str:
    """The statement that makes the plain view which gives a watermark."""
    at, value = mark.position(info), "watermark"
    if at is not None and info.schema[at][1].sql == "TIMESTAMP WITH TIME ZONE":
        value = "make_timestamptz(epoch_us(watermark)) AS watermark"
    return (
        f"CREATE OR REPLACE VIEW {relation_of(path_of(info.name))} AS SELECT {value} FROM "
        f'{WATERMARKS} WHERE "table" = {literal(info.name)}'
    )
