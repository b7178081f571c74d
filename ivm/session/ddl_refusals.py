"""DDL that is refused: what would take from the views their names, their tables or their types.

Law: all but types and values is refused before DuckDB has seen the statement; nothing of it stays.
"""

from __future__ import annotations

from collections.abc import Mapping

from ivm.catalog.fatal_types import refuse_fatal_types
from ivm.session.dml import refuse_own
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import fold, quote
from ivm.storage.warehouse.carried import may_be_unfit, unfit_type, why_unfit
from ivm.storage.warehouse.duck import Cursor
from ivm.storage.warehouse.table_info import TableInfo

_CALLED = {"macro", "function"}
_READERS = {"python_arrow_scan", "pandas_scan"}  # DuckDB calls them by their bare names


def refuse_alias(session: Session, statement: st.Ddl) -> None:
    """The views' texts, and ours, say the database by its name; DuckDB changes it at once.

    Raises:
        UnsupportedError: the statement gives the opened database another name.
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
    """Nothing takes the place of what is ours, stands on it, or has a name that is in use.

    Raises:
        UnsupportedError: something would.
    """
    _refuse_used_names(statement)
    _refuse_views(session, statement)
    _refuse_on_view(session, statement)


def _refuse_views(session: Session, statement: st.Ddl) -> None:
    """A view's table is the view's, and our records are ours."""
    catalog = session.engine.catalog
    for parts in (*statement.names, *([statement.on] if statement.on else [])):
        refuse_own((*parts, "*") if statement.target == "schema" else parts)
        if statement.temporary or statement.target not in ("table", "view"):
            continue
        made = statement.action == "create"  # beside what is temporary, not instead of it
        name = catalog.resolve(parts) if made else session.names.resolve(parts)
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


def _refuse_on_view(session: Session, statement: st.Ddl) -> None:
    """What stands on a view's table could refuse its rows, or change others as they come.

    Raises:
        UnsupportedError: an index or a trigger would be made on a view.
    """
    views = session.engine.catalog.views
    if statement.action != "create" or statement.on is None:
        return
    name = session.names.resolve(statement.on)
    if name in views:
        raise UnsupportedError(
            f"{name!r} is a materialized view, and no {statement.target} can be made on it: make "
            f"it on its tables ({', '.join(sorted(views[name].bases)) or 'none'})",
            statement.offset,
        )


def _refuse_used_names(statement: st.Ddl) -> None:
    """DuckDB would take what has such a name for the batches of rows that it is lent."""
    for name in [fold(parts[-1]) for parts in statement.names if statement.action == "create"]:
        registered = statement.temporary and name.startswith("_ivm_")
        if registered or (statement.target in _CALLED and name in _READERS):
            raise UnsupportedError(
                f"{name} is a name that the database works with: choose another", statement.offset
            )


def refuse_types(before: Mapping[str, TableInfo], after: Mapping[str, TableInfo]) -> None:
    """No table has come to have a column that DuckDB cannot work with.

    Raises:
        UnsupportedError: one has.
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
    """No column that was made or given a type holds a value that cannot be followed.

    Args:
        cursor: sees the tables as they are now.
        tables: those.
        before: as they were before the statement.
        typed: names of tables whose columns' values may be others.

    Raises:
        UnsupportedError: one does.
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
