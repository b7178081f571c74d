"""Watermarks of tables: WATERMARK FOR in CREATE TABLE, SET and DROP WATERMARK in ALTER TABLE.

Invariant: a table with a watermark has a row of `_ivm.watermarks`, and a plain view of one row in
the schema `_ivm` that gives it in the type of the table's times, for `watermark('table')`. Both go
with the table, and follow renames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import duckdb

from ivm.engine.tables.watermark_rows import Watermark, replacement
from ivm.engine.tables.watermarks import TIMED
from ivm.engine.transactions.transaction import Transaction
from ivm.engine.views.view_reads import views_and_macros, words_with_definitions
from ivm.ingest.parameters import Params
from ivm.session.dml import refuse_own
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.plan.nodes import Emit
from ivm.sql.statements import parse as st
from ivm.sql.statements.nodes.nodes import WatermarkClause
from ivm.sql.statements.own.watermark_calls import WATERMARKS, relation_of
from ivm.storage.errors import SqlError, UnsupportedError
from ivm.storage.identifiers import literal, path_of, quote, words_in
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import from_arrow
from ivm.storage.warehouse.duckdb.duck import rows, run, table
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
        old = session.engine.watermarks.after(transaction.changes).get(name)
        if statement.clause is None:
            _drop(session, transaction, name, old)
        else:
            _set(session, transaction, catalog.tables[name], statement.clause, old)
    return Result("done")


def advance_watermark(session: Session, statement: st.AdvanceWatermark, params: Params) -> Result:
    """Runs ALTER TABLE … ADVANCE WATERMARK TO …."""
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
        old = session.engine.watermarks.after(transaction.changes).get(found or "")
        if old is None:
            raise SqlError(f"table {'.'.join(name)!r} has no watermark")
        at = _micros(session, session.engine.catalog.tables[old.table], old.column, to, params)
        if old.at is None or at > old.at:
            new = old.moved(at=at, greatest=old.greatest, seen=old.seen, late_rows=old.late_rows)
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
    wanted, texts = words_in(relation_of(path_of(name))), views_and_macros(session.cursor)
    found = [
        view.name
        for view in views
        if (isinstance(view.plan, Emit) and name in view.plan.tables)
        or wanted <= words_with_definitions(view.query, texts)
    ]
    if found:
        raise UnsupportedError(
            f"cannot {what}: {', '.join(found)} read{'s' if len(found) == 1 else ''} its "
            f"watermark; drop {'it' if len(found) == 1 else 'them'} first"
        )


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
    _begin(session, transaction)
    greatest = _greatest(session, info, column)
    late = clause.late or ("apply" if old is None else old.late)
    new = Watermark(info.name, column, clause.delay, late, clause.idle_after)
    if old is not None:
        idle = old.idle_after if clause.idle_after is None else clause.idle_after
        new = replace(new, idle_after=idle, at=old.at, seen=old.seen, late_rows=old.late_rows)
    _replace(session, transaction, old, new.after(greatest, 0, session.engine.clock.time))


def _column(info: TableInfo, name: str) -> str:
    """The column that tells a row's time, as the table writes it.

    Raises:
        SqlError: there is no such column, or it tells no time.
    """
    at = info.position(name)
    if at is None:
        raise SqlError(f"table {info.name!r} has no column {name!r} for its watermark to follow")
    column, type = info.schema[at]
    if type.sql not in TIMED:
        raise SqlError(
            f"{column!r} is of type {type}: a watermark follows a column of "
            f"{', '.join(TIMED[:-1])} or {TIMED[-1]}"
        )
    return column


def _greatest(session: Session, info: TableInfo, column: str) -> int | None:
    """The greatest finite time of the rows that the transaction sees, in microseconds."""
    quoted = quote(column)
    sql = (
        f"SELECT system.main.epoch_us(system.main.max({quoted})) FROM {info.qualified}"
        f" WHERE system.main.isfinite({quoted})"
    )
    found = rows(session.cursor, sql)[0][0]
    return None if found is None else int(found)


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
    known = session.engine.watermarks.after(transaction.changes)
    if tables == before or not known:
        return
    now = {info.oid: info for info in tables.values()}
    for name, mark in known.items():
        old = before.get(name)
        info = None if old is None else now.get(old.oid)
        if old is None or info is None:
            _refuse_readers(session, name, f"drop {name!r}")
            _replace(session, transaction, mark, None)
        elif info != old:
            if info.name != name:
                _refuse_readers(session, name, f"rename {name!r}")
            at = old.position(mark.column)
            same = at is not None and len(info.schema) == len(old.schema)
            gone = info.position(mark.column) is None
            column = info.schema[at][0] if gone and same and at is not None else mark.column
            new = replace(mark, table=info.name, column=_column(info, column))
            _replace(session, transaction, mark, new)


def restore_watermarks(session: Session, found: Sequence[tuple[str, ...]]) -> None:
    """Gives imported tables their watermarks, as far as they had come."""
    for row in found:
        with session.writing() as transaction:
            mark = Watermark(*row)  # type: ignore[arg-type]
            if mark.table in session.engine.catalog.tables:
                _begin(session, transaction)
                old = session.engine.watermarks.after(transaction.changes).get(mark.table)
                _replace(session, transaction, old, mark)


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
    session: Session, transaction: Transaction, old: Watermark | None, new: Watermark | None
) -> None:
    """Puts a watermark in the place of another, and so for the plain views that give them."""
    _begin(session, transaction)
    transaction.add(replacement(old, new))
    if old is not None:
        run(session.cursor, f"DROP VIEW IF EXISTS {relation_of(path_of(old.table))}")
    if new is not None:
        info = session.engine.catalog.tables[new.table]
        type = info.schema[info.position(new.column) or 0][1].sql
        value = "watermark"
        if type == "TIMESTAMP WITH TIME ZONE":
            value = "make_timestamptz(epoch_us(watermark)) AS watermark"
        run(
            session.cursor,
            f"CREATE VIEW {relation_of(path_of(new.table))} AS SELECT {value} FROM {WATERMARKS}"
            f' WHERE "table" = {literal(new.table)}',
        )
