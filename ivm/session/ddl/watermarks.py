"""Watermarks of tables: WATERMARK FOR in CREATE TABLE, SET and DROP WATERMARK in ALTER TABLE.

Law: a watermark keeps its place under other options, and follows one column until it is dropped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import duckdb

from ivm.engine.tables.watermark_parts import Parts
from ivm.engine.tables.watermark_rows import Watermark, replacement
from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.parameters import Params
from ivm.session.ddl.own_clauses import altered
from ivm.session.ddl.retention import refuse_behind
from ivm.session.ddl.stored_watermarks import (
    part_column,
    refuse_readers,
    replace_watermark,
    time_column,
)
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.nodes.nodes import WatermarkClause
from ivm.storage.errors import SqlError, UnsupportedError
from ivm.storage.identifiers import fold
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import from_arrow
from ivm.storage.warehouse.duckdb.duck import table
from ivm.storage.warehouse.duckdb.duckdb_errors import of_our_sql
from ivm.storage.warehouse.tables.table_info import TableInfo


def set_watermark(session: Session, statement: st.SetWatermark, params: Params) -> Result:
    """Runs ALTER TABLE … SET WATERMARK FOR … and DROP WATERMARK."""
    with session.writing() as transaction:
        info = altered(session, statement)
        if info is None:
            return Result("done")
        if statement.clause is None:
            _drop(session, transaction, info, statement)
        else:
            set_clause(session, transaction, info, statement.clause)
    return Result("done")


def advance_watermark(session: Session, statement: st.AdvanceWatermark, params: Params) -> Result:
    """Runs ALTER TABLE … ADVANCE WATERMARK TO …."""
    with session.writing() as transaction:
        info = altered(session, statement)
        if info is not None:
            transaction.show(session.reads(statement, f"SELECT {statement.to}"))
            _advance(session, transaction, info, statement.to, params)
    return Result("done")


def advance(session: Session, path: st.Name, to: object) -> None:
    """See `Database.advance`."""
    advance_watermark(session, st.AdvanceWatermark("", 0, path, "$1", if_exists=False), [to])


def _advance(
    session: Session, transaction: Transaction, info: TableInfo, to: str, params: Params
) -> None:
    """Moves a watermark by hand: nothing before that time will come, or it will be late.

    Args:
        session: of the transaction.
        transaction: takes the change.
        info: the table.
        to: the time, as SQL; one that the watermark has passed changes nothing.
        params: of that.

    Raises:
        SqlError: the table has no watermark, or `to` is no time.
    """
    old = transaction.watermark_moves.marks.get(info.name)
    if old is None:
        raise SqlError(f"table {info.name!r} has no watermark")
    at = _micros(session, info, old.column, to, params)
    if old.at is None or at > old.at:
        transaction.add(replacement(old, replace(old, at=at)))


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


def _drop(
    session: Session, transaction: Transaction, info: TableInfo, statement: st.SetWatermark
) -> None:
    old = transaction.watermark_moves.marks.get(info.name)
    _refuse_column(info, statement, old)
    if old is None:
        raise SqlError(f"table {info.name!r} has no watermark", statement.offset)
    refuse_readers(session, info.name, f"drop the watermark of {info.name!r}")
    refuse_behind(session, info)
    replace_watermark(session, transaction, old, None)


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


def set_clause(
    session: Session, transaction: Transaction, info: TableInfo, clause: WatermarkClause
) -> None:
    """Gives a table a watermark, or other options to the one it has.

    Raises:
        SqlError: a column is not there, or of another type.
        UnsupportedError: it follows another column, or final views do not wait for it.
    """
    old = transaction.watermark_moves.marks.get(info.name)
    column = time_column(info, clause.column)
    by = None if clause.by is None else part_column(info, clause.by)
    if old is None:
        _refuse_final_readers(session, info.name)
        new = Watermark(info.name, column, clause.delay, "apply")
    else:
        _refuse_other(old, column)
        new = replace(old, delay=clause.delay)
    new = replace(new, **_given(clause, by))
    parts: Parts = {}
    if old is None or old.by != new.by:
        transaction.watermark_moves.begin(info.name)
    else:
        engine = session.engine
        parts = engine.watermarks.parts_after(info.name, transaction.changes)
        new = new.after(old.greatest, 0, engine.clock.time, engine.watermarks.slowest(new, parts))
    replace_watermark(session, transaction, old, new, parts)


def _given(clause: WatermarkClause, by: str | None) -> dict[str, Any]:
    """The options that a clause names: those it does not stay as they are."""
    options = {"late": clause.late, "idle_after": clause.idle_after, "by": by}
    return {name: value for name, value in options.items() if value is not None}


def _refuse_other(old: Watermark, column: str) -> None:
    """Refuses another column for a watermark to follow.

    Raises:
        UnsupportedError: it is another.
    """
    if column != old.column:
        raise UnsupportedError(
            f"the watermark of {old.table!r} follows {old.column!r}, and cannot fall: ALTER TABLE "
            f"{old.table} DROP WATERMARK first"
        )


def _refuse_final_readers(session: Session, name: str) -> None:
    """Refuses a watermark that final views would have to wait for, too.

    Raises:
        UnsupportedError: there are some.
    """
    views = session.engine.catalog.views.values()
    found = [view.name for view in views if view.emits == "final" and name in view.bases]
    if found:
        raise UnsupportedError(
            f"{name!r} is read by the final view {', '.join(found)}, whose rows would wait for its "
            "watermark too: drop that first, and make it again"
        )
