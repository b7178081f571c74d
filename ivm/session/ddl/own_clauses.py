"""The tables that clauses of ours speak of: how long rows are kept, and watermarks.

Law: such a clause is of a table of the database, in CREATE TABLE and ALTER TABLE, and stays with
the table and its columns under whatever names they get.
"""

from __future__ import annotations

from collections.abc import Mapping

from ivm.engine.tables.row_times import TIMED
from ivm.session.dml import refuse_own
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.tokens import Reader, tokens
from ivm.storage.errors import SqlError, UnsupportedError
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.tables.table_info import TableInfo


def altered(
    session: Session, statement: st.SetRetention | st.SetWatermark | st.AdvanceWatermark
) -> TableInfo | None:
    """The table that a statement alters; None if there is none, and need not be.

    Raises:
        SqlError: there is no such table.
        UnsupportedError: it is one of ours.
    """
    refuse_own(statement.name)
    tables, name = session.engine.catalog.tables, session.names.resolve(statement.name)
    if name is not None and name in tables:
        return tables[name]
    if name is None and statement.if_exists:
        return None
    written = ".".join(statement.name)
    raise SqlError(f"{written!r} is no base table of this database", statement.offset)


def refuse_clauses(statement: st.Ddl) -> None:
    """Refuses clauses of ours for what is no table, or a temporary one.

    Raises:
        UnsupportedError: it is such.
    """
    for clause, what in (
        (statement.retention, "can lose rows by their age"),
        (statement.watermark, "can have a watermark"),
    ):
        if clause and (statement.target != "table" or statement.temporary):
            raise UnsupportedError(
                f"only a table of this database, which is not temporary, {what}", statement.offset
            )


def created(
    session: Session, statement: st.Ddl, before: Mapping[str, TableInfo]
) -> TableInfo | None:
    """The table that a statement has just created; None if it was there before.

    Args:
        session: in its transaction.
        statement: with a clause of ours.
        before: the tables before.

    Raises:
        UnsupportedError: it is none of this database.
    """
    tables = session.engine.catalog.tables
    name = None if statement.name is None else session.names.resolve(statement.name)
    if name is None or name not in tables:
        raise UnsupportedError("only a table of this database takes that", statement.offset)
    return tables[name] if name not in before or statement.replace else None


def timed_column(info: TableInfo, name: str, lacking: str, needs: str) -> str:
    """The column that tells the time of rows, as the table writes it.

    Args:
        info: the table.
        name: of the column, in any case.
        lacking: what is said of a table without it.
        needs: what names a column of such a type.

    Raises:
        SqlError: there is no such column, or it tells no time.
    """
    column, type = named_column(info, name, lacking)
    if type.sql not in TIMED:
        types = f"{', '.join(TIMED[:-1])} or {TIMED[-1]}"
        raise SqlError(f"{column!r} is of type {type}: {needs} a column of {types}")
    return column


def named_column(info: TableInfo, name: str, lacking: str) -> tuple[str, ColumnType]:
    """A column as the table writes it, and its type; see `timed_column`."""
    at = info.position(name)
    if at is None:
        raise SqlError(f"table {info.name!r} has no column {name!r}{lacking}")
    return info.schema[at]


def column_now(old: TableInfo, now: TableInfo, column: str) -> str:
    """The name that a column of a table has after it was altered."""
    at = old.position(column)
    same = at is not None and len(now.schema) == len(old.schema)
    gone = now.position(column) is None
    return now.schema[at][0] if gone and same and at is not None else column


def column_used(statement: st.Ddl) -> str | None:
    """The column that ALTER TABLE … ALTER … TYPE … USING computes anew; None if it is none."""
    if (statement.action, statement.target) != ("alter", "table"):
        return None
    reader = Reader(tokens(statement.text))
    reader.expect("ALTER", "TABLE")
    reader.accept("IF", "EXISTS")
    reader.name()
    if not reader.accept("ALTER") or not reader.find("USING"):
        return None
    reader.accept("COLUMN")
    return reader.identifier()
