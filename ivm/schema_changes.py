"""DDL: DuckDB runs it, the catalog is read anew, views that would break stop it.

Law: after a DDL statement every materialized view's query still describes the same columns; one
that would not is refused before it takes effect, with the names of the views, unless CASCADE drops
them. Views whose tables were altered are filled and compiled anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import duckdb

from ivm import view_statements
from ivm.catalog import View
from ivm.dml import refuse_hidden, refuse_own
from ivm.meaning import refuse_meaning
from ivm.result import Result
from ivm.sql import statements as st
from ivm.sql.determinism import check_deterministic
from ivm.sql.function_list import FunctionList, list_functions
from ivm.storage.duck import describe
from ivm.storage.errors import UnsupportedError
from ivm.storage.table_info import TableInfo
from ivm.storage.types import Schema
from ivm.transaction import Transaction
from ivm.translate import translated
from ivm.views import relations_read

if TYPE_CHECKING:
    from ivm.session import Params, Session

_SESSION = {"set", "reset", "attach", "detach", "load", "install", "pragma", "call"}
_DEFINITIONS = {"macro", "view", "type", "function", "schema"}


def other(session: Session, statement: st.Other, params: Params) -> Result:
    """CHECKPOINT, VACUUM and the like: after a flush, by DuckDB.

    A checkpoint is ours, so that the file is known to have been written by us.
    """
    session.engine.flush()
    if statement.kind in ("checkpoint", "force"):
        session.engine.warehouse.checkpoint()
        return Result("done")
    session.cursor.execute(statement.text, params)
    return session.stream(lambda: None)


def ddl(session: Session, statement: st.Ddl, params: Params) -> Result:
    """A statement that changes the catalog or the session."""
    refuse_meaning(statement)
    if statement.action in _SESSION:
        session.cursor.execute(statement.text, params)
        return session.stream(lambda: None)
    _refuse_views(session, statement)
    if statement.target == "trigger":
        refuse_hidden(session, statement.text)
    with session.writing() as transaction:
        session.engine.indexes.let_go()
        transaction.go_native()
        if statement.action == "drop" and statement.cascade:
            _drop_readers(session, transaction, statement)
        try:
            session.cursor.execute(statement.text, params)
            session.cursor.complete()
        except duckdb.Error as error:
            raise translated(error, statement.offset, statement.text) from error
        if not statement.temporary:
            _changed(session, transaction, statement)
    return Result("done")


def _refuse_views(session: Session, statement: st.Ddl) -> None:
    """A view's table is the view's, and our records are ours."""
    catalog = session.engine.catalog
    for parts in (*statement.names, *([statement.on] if statement.on else [])):
        refuse_own((*parts, "*") if statement.target == "schema" else parts)
        name = catalog.resolve(parts)
        if (
            name in catalog.views
            and statement.action in ("drop", "alter")
            and statement.target
            in (
                "table",
                "view",
            )
        ):
            raise UnsupportedError(
                f"{name!r} is a materialized view: use DROP MATERIALIZED VIEW, or CREATE OR "
                "REPLACE MATERIALIZED VIEW to change it",
                statement.offset,
            )
        if name in catalog.views and statement.action == "create" and statement.target == "table":
            raise UnsupportedError(
                f"{name!r} is a materialized view: drop it first", statement.offset
            )


def _drop_readers(session: Session, transaction: Transaction, statement: st.Ddl) -> None:
    catalog = session.engine.catalog
    names = [n for parts in statement.names if (n := catalog.resolve(parts)) is not None]
    if statement.target == "schema":
        wanted = {parts[-1].lower() for parts in statement.names}
        everything = (*catalog.tables, *catalog.views)
        names = [n for n in everything if n.rpartition(".")[0].lower() in wanted]
    doomed = [view.name for view in catalog.readers(names)]
    doomed += [name for name in names if name in catalog.views]
    if doomed:
        view_statements.drop_views(session, transaction, doomed)


def _changed(session: Session, transaction: Transaction, statement: st.Ddl) -> None:
    engine = session.engine
    before = engine.catalog.tables
    views = engine.catalog.snapshot()

    def undo() -> None:
        engine.catalog.restore(views)
        engine.reload_tables(engine.warehouse.cursor())

    engine.reload_tables(session.cursor)
    affected = _affected(session, statement, before)
    ours = engine.catalog.tables != before  # else a macro, or a table of another database
    transaction.change_catalog((lambda: None) if ours else None, undo)
    functions = list_functions(session.cursor) if affected else None
    for view in affected:
        _demand_standing(session, statement, view, functions)
        if statement.target in _DEFINITIONS:
            _learn_reads(session, view)
    for view in affected:
        engine.maintenance.bind(view, session.cursor, functions)
        engine.refill(session.cursor, view)
        transaction.change_catalog(lambda view=view: engine.reattach(view), undo)  # type: ignore[misc]


def _affected(session: Session, statement: st.Ddl, before: Mapping[str, TableInfo]) -> list[View]:
    """Views whose tables are not what they were, or that may use a definition that changed."""
    catalog = session.engine.catalog
    if statement.target in _DEFINITIONS and (statement.action != "create" or statement.replace):
        return list(catalog.views.values())
    changed = [name for name, info in before.items() if catalog.tables.get(name) != info]
    return catalog.readers(changed)


def _demand_standing(
    session: Session, statement: st.Ddl, view: View, functions: FunctionList | None
) -> None:
    """The view's query still means something, and has the same columns, up to the names' case.

    Raises:
        UnsupportedError: it does not.
    """
    why = ""
    try:
        found = describe(session.cursor, view.query)
        check_deterministic(view.query, session.cursor, functions)
        if _folded(found) == _folded(view.described):
            view.described = found  # the view's own columns keep their names
            return
    except duckdb.Error:
        pass
    except UnsupportedError as error:
        why = f" ({error})"
    raise UnsupportedError(
        f"{statement.action.upper()} {statement.target.upper()} would break the materialized view "
        f"{view.name}{why}: drop it first"
        + (", or add CASCADE" if statement.action == "drop" else ""),
        statement.offset,
    )


def _folded(schema: Schema) -> Schema:
    return tuple([(name.lower(), type) for name, type in schema])


def _learn_reads(session: Session, view: View) -> None:
    """A plain view or macro below may read other relations now."""
    catalog = session.engine.catalog
    reads = relations_read(session.engine, session.cursor, view.query, view.name)
    order = list(catalog.views)
    later = [n for n in reads if n in order and order.index(n) > order.index(view.name)]
    if later:
        raise UnsupportedError(
            f"the materialized view {view.name} would then read {', '.join(later)}, which was "
            f"created after it: drop {view.name} first, and create it anew"
        )
    view.reads = reads
    catalog.add_view(view)
