"""CREATE INDEX on a materialized view, and DROP INDEX of one.

Such an index says by which columns the rows of the view are held in memory, for queries that ask
for one key. It goes with its view.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.catalog.version import View
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.tokens import Token, split, tokens, unquoted
from ivm.storage.errors import SqlError, UnsupportedError
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.duckdb.duck import rows
from ivm.storage.warehouse.tables.view_indexes import ViewIndex, delete_view_index, save_view_index

_TAKEN = "SELECT 1 FROM system.main.duckdb_indexes() WHERE system.main.lower(index_name) = $1"


def change_index(session: Session, statement: st.Ddl) -> Result | None:
    """Runs CREATE INDEX on a view, or DROP INDEX of one; None for any other statement.

    Raises:
        SqlError: an index of that name is there, or the view has no such column.
        UnsupportedError: the index is UNIQUE, or over an expression.
    """
    if statement.target != "index" or statement.temporary:
        return None
    if statement.action == "drop":
        return _drop(session, statement)
    if statement.action != "create" or statement.on is None:
        return None
    name, catalog = session.names.resolve(statement.on), session.engine.catalog
    view = catalog.views.get(name) if name is not None else None
    if view is not None:
        return _create(session, statement, view)
    taken = statement.name is not None and fold(statement.name[-1]) in map(
        fold, catalog.view_indexes
    )
    return _exists(statement) if taken else None


def _create(session: Session, statement: st.Ddl, view: View) -> Result:
    if statement.name is None:
        raise SqlError("an index on a materialized view needs a name", statement.offset)
    columns = _columns(statement, view)
    with session.writing() as transaction:
        catalog, name = session.engine.catalog, statement.name[-1]
        transaction.begin_in_duckdb()
        known = fold(name) in map(fold, catalog.view_indexes)
        if known or rows(session.cursor, _TAKEN, [name.lower()]):
            return _exists(statement)
        transaction.change_catalog()
        save_view_index(session.cursor, ViewIndex(name, view.name, columns))
        session.engine.reload_tables(session.cursor)
    return Result("done")


def _exists(statement: st.Ddl) -> Result:
    """What becomes of an index whose name is taken: nothing with IF NOT EXISTS, else an error."""
    if statement.if_exists:
        return Result("done")
    assert statement.name is not None
    raise SqlError(f"there is an index {statement.name[-1]!r} already", statement.offset)


def _columns(statement: st.Ddl, view: View) -> tuple[str, ...]:
    """The columns in the parentheses at the end of the statement, whatever USING says."""
    found = tokens(statement.text)
    if any(token.word == "UNIQUE" for token in found):
        raise UnsupportedError(
            f"an index on the materialized view {view.name!r} refuses none of its rows: leave out "
            "UNIQUE, or make the index on its tables",
            statement.offset,
        )
    start = next((i for i, token in enumerate(found) if token.word == "("), len(found))
    named = {fold(name): name for name, _ in view.schema}
    columns = []
    for part in split(found[start + 1 : -1]):
        name = _name(part)
        if name is None or fold(name) not in named:
            raise SqlError(
                f"an index on the materialized view {view.name!r} is over its columns "
                f"({', '.join(named.values())})",
                statement.offset + (part[0].start if part else 0),
            )
        columns.append(named[fold(name)])
    if len(set(columns)) < len(columns) or not columns:
        raise SqlError("an index names each of its columns once", statement.offset)
    return tuple(columns)


def _name(part: Sequence[Token]) -> str | None:
    return unquoted(part[0]) if len(part) == 1 else None


def _drop(session: Session, statement: st.Ddl) -> Result | None:
    known = {fold(name): name for name in session.engine.catalog.view_indexes}
    if not all(fold(parts[-1]) in known for parts in statement.names):
        return None
    with session.writing() as transaction:
        transaction.begin_in_duckdb()
        transaction.change_catalog()
        for parts in statement.names:
            delete_view_index(session.cursor, known[fold(parts[-1])])
        session.engine.reload_tables(session.cursor)
    return Result("done")
