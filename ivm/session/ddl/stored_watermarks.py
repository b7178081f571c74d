"""Watermarks as they are stored: rows of `_ivm.watermarks`, and a plain view of each.

Invariant: the plain view of a watermark, in the schema `_ivm`, has one row and gives it in the type
of the table's times, for `watermark('table')`. The row and the view go with the table, and follow
renames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ivm.engine.tables.watermark_parts import Part, Parts, can_part, replaced
from ivm.engine.tables.watermark_rows import Watermark, replacement
from ivm.engine.transactions.late_letters import LETTERS
from ivm.engine.transactions.transaction import Transaction
from ivm.engine.views.view_reads import NamedText, definitions_named, views_and_macros
from ivm.session.ddl.own_clauses import column_now, column_used, named_column, timed_column
from ivm.session.session import Session
from ivm.sql.plan.nodes import Emit
from ivm.sql.statements import parse as st
from ivm.sql.statements.own.watermark_calls import PREFIX, WATERMARKS, relation_of
from ivm.sql.statements.own.watermarks import DEAD_LETTERS
from ivm.storage.errors import SqlError, UnsupportedError
from ivm.storage.identifiers import fold, literal, path_of
from ivm.storage.warehouse.duckdb.duck import run
from ivm.storage.warehouse.tables.system_tables import STREAM_TABLES, WATERMARK_TABLES
from ivm.storage.warehouse.tables.table_info import TableInfo


def replace_watermark(
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
    if new is not None and new.late == DEAD_LETTERS:
        _have_letters(session, transaction)
    transaction.add(replacement(old, new))
    for change in replaced(new.table, {}, parts) if new is not None else ():
        transaction.add(change)
    if new is None and old is not None:
        transaction.watermark_moves.end(old.table)
    if old is not None and (new is None or new.table != old.table):
        run(session.cursor, f"DROP VIEW IF EXISTS {relation_of(path_of(old.table))}")
    if new is not None and (old is None or new.table != old.table):
        run(session.cursor, _plain_view(session.engine.catalog.tables[new.table], new))


def _begin(session: Session, transaction: Transaction) -> None:
    """Makes `_ivm.watermarks` in the transaction, if there is none."""
    transaction.begin_in_duckdb()
    transaction.change_catalog()
    if WATERMARKS not in session.engine.catalog.tables:
        transaction.change_tables()
        for name, columns in WATERMARK_TABLES.items():
            run(session.cursor, f"CREATE TABLE _ivm.{name} {columns}")
        session.engine.reload_tables(session.cursor)


def _have_letters(session: Session, transaction: Transaction) -> None:
    """Makes the tables of dead letters in the transaction, where they are lacking."""
    tables = session.engine.catalog.tables
    missing = [name for name in STREAM_TABLES if f"_ivm.{name}" not in tables]
    if LETTERS in tables and "stream" not in dict(tables[LETTERS].schema):
        raise UnsupportedError(
            "an older version has made the tables of dead letters: send the first events of a "
            "source, or of db.ingest, which make them anew"
        )
    if missing:
        transaction.change_tables()
        for name in missing:
            run(session.cursor, f"CREATE TABLE _ivm.{name} {STREAM_TABLES[name]}")
        session.engine.reload_tables(session.cursor)


_ZONED = (
    "CASE WHEN isfinite(watermark) THEN make_timestamptz(epoch_us(watermark))"
    " WHEN watermark > TIMESTAMP '1970-01-01' THEN TIMESTAMPTZ 'infinity'"
    " WHEN watermark IS NOT NULL THEN TIMESTAMPTZ '-infinity' END AS watermark"
)  # `epoch_us` of an infinite time is NULL


def _plain_view(info: TableInfo, mark: Watermark) -> str:
    """The statement that makes the plain view which gives a watermark."""
    at, value = mark.position(info), "watermark"
    if at is not None and info.schema[at][1].sql == "TIMESTAMP WITH TIME ZONE":
        value = _ZONED
    return (
        f"CREATE OR REPLACE VIEW {relation_of(path_of(info.name))} AS SELECT {value} FROM "
        f'{WATERMARKS} WHERE "table" = {literal(info.name)}'
    )


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
                replace_watermark(session, transaction, old, mark, own)


def move_watermarks(
    session: Session,
    transaction: Transaction,
    before: Mapping[str, TableInfo],
    statement: st.Ddl,
) -> None:
    """Lets the watermarks follow a change of the catalog.

    Args:
        session: in its transaction.
        transaction: of the statement.
        before: the tables before.
        statement: has changed it.

    Raises:
        SqlError: a table has lost the column that its watermark follows.
        UnsupportedError: that column has other values, or views read a watermark that goes.
    """
    tables = session.engine.catalog.tables
    known = transaction.watermark_moves.marks
    if known:
        _refuse_using(session, known, statement)
    if tables == before or not known:
        return
    now = {info.oid: info for info in tables.values()}
    for name, mark in known.items():
        old = before.get(name)
        info = None if old is None else now.get(old.oid)
        if old is None or info is None:
            refuse_readers(session, name, f"drop {name!r}")
            replace_watermark(session, transaction, mark, None)
        elif info != old and mark.position(old) is not None:
            if info.name != name:
                refuse_readers(session, name, f"rename {name!r}")
            column = column_now(old, info, mark.column)
            _refuse_type(old, info, mark.column, column)
            by = None if mark.by is None else part_column(info, column_now(old, info, mark.by))
            if by is not None and mark.by is not None:
                _refuse_type(old, info, mark.by, by)
            new = replace(mark, table=info.name, column=time_column(info, column), by=by)
            if new == mark:
                continue
            parts = session.engine.watermarks.parts_after(name, transaction.changes)
            replace_watermark(session, transaction, mark, new, parts)


def _refuse_type(old: TableInfo, now: TableInfo, before: str, column: str) -> None:
    """Refuses another type of a column that a watermark reads, whose values would be others."""
    was, at = old.position(before), now.position(column)
    if was is not None and at is not None and old.schema[was][1] != now.schema[at][1]:
        raise _other_values(now.name, column)


def _refuse_using(session: Session, known: Mapping[str, Watermark], statement: st.Ddl) -> None:
    """Refuses USING for a column that a watermark reads, also where the type is the same."""
    column = column_used(statement)
    mark = known.get(session.names.resolve(statement.names[0]) or "") if column else None
    for own in (mark.column, mark.by) if mark is not None else ():
        if own is not None and column is not None and fold(own) == fold(column):
            raise _other_values(statement.names[0][-1], own)


def _other_values(table: str, column: str) -> UnsupportedError:
    return UnsupportedError(
        f"the watermark of {table!r} reads {column!r}, which would have other values: "
        f"ALTER TABLE {table} DROP WATERMARK first"
    )


def refuse_readers(session: Session, name: str, what: str) -> None:
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


def part_column(info: TableInfo, name: str) -> str:
    """The column that tells parts apart, as the table writes it.

    Raises:
        SqlError: there is no such column, or its values cannot tell any.
    """
    column, type = named_column(info, name, " to tell parts apart of its watermark")
    if not can_part(type):
        raise SqlError(f"{column!r} is of type {type}: watermark_by names integers or texts")
    return column


def time_column(info: TableInfo, name: str) -> str:
    """The column that a watermark follows; see `timed_column`."""
    lacking = f" for its watermark to follow; ALTER TABLE {info.name} DROP WATERMARK drops that"
    return timed_column(info, name, lacking, "a watermark follows")
