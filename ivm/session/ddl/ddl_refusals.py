"""DDL that is refused since views would lose their names, their tables or their types.

Contract: a refused statement changes nothing. Types and values are checked after DuckDB has run it,
and it is rolled back; all else is checked before.
"""

from __future__ import annotations

from collections.abc import Mapping

from ivm.catalog.fatal_types import refuse_fatal_types
from ivm.session.dml import refuse_own
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import fold, quote
from ivm.storage.warehouse.duckdb.carried import may_be_unfit, unfit_type, why_unfit
from ivm.storage.warehouse.duckdb.duck import Cursor, rows
from ivm.storage.warehouse.tables.table_info import TableInfo

_CALLED = {"macro", "function"}
_READERS = {"python_arrow_scan", "pandas_scan"}  # DuckDB calls them by their bare names


def refuse_alias(session: Session, statement: st.Ddl) -> None:
    """Refuses to rename the opened database, which texts of views and our own SQL name.

    Raises:
        UnsupportedError: the statement renames it.
    """
    own = fold(session.engine.warehouse.database)
    renames = statement.action == "alter" and statement.target == "database"
    if renames and own in [fold(parts[-1]) for parts in statement.names]:
        raise UnsupportedError(
            f"the opened database keeps the name {own!r}, by which its views are known: close "
            "it and rename the file, or ATTACH it elsewhere under another name",
            statement.offset,
        )


def refuse_conflicts(session: Session, statement: st.Ddl) -> None:
    """Refuses DDL on views and our records, on a view's table, and under names that are in use.

    Raises:
        UnsupportedError: the statement does so.
    """
    _refuse_used_names(statement)
    _refuse_hidden_sequences(session, statement)
    _refuse_views(session, statement)
    _refuse_on_view(session, statement)
    _refuse_schema_of_unstored(session, statement)


def _refuse_views(session: Session, statement: st.Ddl) -> None:
    """Refuses to create, drop or alter a view's table, or a relation of schema _ivm."""
    catalog = session.engine.catalog
    for parts in (*statement.names, *([statement.on] if statement.on else [])):
        refuse_own((*parts, "*") if statement.target == "schema" else parts)
        if statement.temporary or statement.target not in ("table", "view"):
            continue
        # What CREATE makes is no temporary relation, so temporary ones do not hide its name.
        made = statement.action == "create"
        name = catalog.names.resolve(parts) if made else session.names.resolve(parts)
        _refuse_unstored(session, statement, name)
        if name in catalog.views and statement.action in ("drop", "alter"):
            raise UnsupportedError(
                f"{name!r} is a materialized view: use DROP MATERIALIZED VIEW, or CREATE OR "
                "REPLACE MATERIALIZED VIEW to change it",
                statement.offset,
            )
        if name in catalog.views and statement.action == "create" and statement.target == "table":
            raise UnsupportedError(
                f"{name!r} is a materialized view: drop it first", statement.offset
            )


def _refuse_unstored(session: Session, statement: st.Ddl, name: str | None) -> None:
    """Refuses what cannot be done to a table that is not stored."""
    info = None if name is None else session.engine.catalog.tables.get(name)
    if info is None or info.history is None:
        return
    is_drop = statement.action == "drop" and statement.target == "table"
    if not is_drop and (statement.action != "create" or statement.replace):
        raise UnsupportedError(
            f"{name!r} is a table whose history lies in files: it can be dropped (DROP TABLE) and "
            "made anew, and ALTER TABLE … SET HISTORY names other files; nothing else of it can "
            "be changed",
            statement.offset,
        )


def _refuse_on_view(session: Session, statement: st.Ddl) -> None:
    """Refuses a trigger on a view, which could add rows.

    Raises:
        UnsupportedError: the statement creates one on a view.
    """
    views = session.engine.catalog.views
    if statement.action != "create" or statement.on is None:
        return
    name = session.names.resolve(statement.on)
    if name is not None and name in views:
        raise UnsupportedError(
            f"{name!r} is a materialized view, and no {statement.target} can be made on it: make "
            f"it on its tables ({', '.join(sorted(views[name].bases)) or 'none'})",
            statement.offset,
        )


def _refuse_schema_of_unstored(session: Session, statement: st.Ddl) -> None:
    """Refuses to drop a schema with a table that is not stored, whose changes lie elsewhere."""
    if (statement.action, statement.target) != ("drop", "schema"):
        return
    catalog = session.engine.catalog
    for name in [n for parts in statement.names for n in catalog.names.inside(parts)]:
        if name in catalog.tables and catalog.tables[name].history is not None:
            raise UnsupportedError(
                f"the schema has {name!r}, a table whose history lies in files: drop it first",
                statement.offset,
            )


def _refuse_used_names(statement: st.Ddl) -> None:
    """Refuses names under which DuckDB reads the rows that we register with it."""
    for name in [fold(parts[-1]) for parts in statement.names if statement.action == "create"]:
        registered = statement.temporary and name.startswith("_ivm_")
        if registered or (statement.target in _CALLED and name in _READERS):
            raise UnsupportedError(
                f"{name} is a name that the database works with: choose another", statement.offset
            )


def _refuse_hidden_sequences(session: Session, statement: st.Ddl) -> None:
    """Refuses a temporary sequence with the name of another, and another with that of one.

    DuckDB would draw the defaults of all tables from the temporary one, in this session alone.
    """
    if statement.action != "create" or statement.target != "sequence":
        return
    names = {fold(parts[-1]) for parts in statement.names}
    sql = """SELECT sequence_name, temporary FROM system.main.duckdb_sequences()
        WHERE temporary OR database_name = system.main.current_database()"""
    temporary = statement.temporary or any(fold(p[0]) == "temp" for p in statement.names if p[1:])
    for name, other in rows(session.cursor, sql):
        if fold(name) in names and other != temporary:
            raise UnsupportedError(
                f"a temporary sequence {name!r} would hide the other of that name from defaults of "
                "tables, in this session alone: give it a name of its own",
                statement.offset,
            )


def refuse_types(before: Mapping[str, TableInfo], after: Mapping[str, TableInfo]) -> None:
    """Refuses new or changed tables with a column that DuckDB cannot work with.

    Raises:
        UnsupportedError: there is one.
    """
    for name, info in after.items():
        if name not in before or before[name].schema != info.schema:
            refuse_fatal_types(f"table {name!r}", info.schema)


def refuse_unfit(
    cursor: Cursor,
    tables: Mapping[str, TableInfo],
    before: Mapping[str, TableInfo],
    typed: set[str],
) -> None:
    """Refuses new columns, and columns with a new type, that hold a value we cannot represent.

    Args:
        cursor: sees the tables as they are now.
        tables: the tables after the statement.
        before: the tables before the statement.
        typed: names of tables of which any column may have new values.

    Raises:
        UnsupportedError: there is one.
    """
    known = {info.oid: info.schema for name, info in before.items() if name not in typed}
    for name, info in tables.items():
        old = known.get(info.oid, ())
        made = [] if info.schema == old else [c for c in info.schema if c not in old]
        listed = [quote(column) for column, type in made if may_be_unfit(type.sql)]
        if listed:
            found = unfit_type(cursor.sql(f"SELECT {', '.join(listed)} FROM {info.qualified}"))
            if found is not None:
                raise UnsupportedError(f"the table {name}: {why_unfit(found)}")
