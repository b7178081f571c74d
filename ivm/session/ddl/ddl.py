"""DDL: DuckDB runs it, the catalog is read anew, and statements that would break a view fail.

Invariant: after a DDL statement every materialized view's query still describes the same columns.
A statement after which one would not is undone, unless CASCADE drops the views with a table; but a
table that is renamed within a transaction may leave a view without one until the commit. Views
whose tables or definitions have changed are compiled and filled anew; but a view whose plan is the
same after ALTER TABLE, since it reads nothing that was altered, stays as it is, with its rows and
its state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace

import duckdb
import pyarrow as pa

from ivm.catalog.broken_views import is_unfit
from ivm.catalog.columns import difference, same_columns, same_names
from ivm.catalog.version import View
from ivm.engine.opening.foreign_columns import without_reads
from ivm.engine.transactions.transaction import Transaction
from ivm.engine.views.final_views import refuse_another_bound
from ivm.engine.views.view_reads import (
    demand_earlier,
    relations_read,
    views_and_macros,
    views_shadowed_by,
    words_with_definitions,
)
from ivm.ingest.parameters import Params
from ivm.session.ddl import view_statements
from ivm.session.ddl.copied_database import finish_copy
from ivm.session.ddl.ddl_refusals import refuse_alias, refuse_conflicts, refuse_types, refuse_unfit
from ivm.session.ddl.indexed_alters import renames_table, without_indexes
from ivm.session.ddl.own_clauses import created, refuse_clauses
from ivm.session.ddl.retention import follow_tables, retain_created
from ivm.session.ddl.retyped_views import create_anew, is_retyped
from ivm.session.ddl.stored_watermarks import move_watermarks
from ivm.session.ddl.stream_positions import move_positions
from ivm.session.ddl.view_indexes import change_index
from ivm.session.ddl.watermarks import set_clause
from ivm.session.dml import refuse_hidden
from ivm.session.names.refused_settings import refuse_meaning
from ivm.session.queries.query import query
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.parse.function_list import FunctionList, list_functions
from ivm.sql.plan.same_plan import same_plan, scans
from ivm.sql.resolve.determinism import check_deterministic
from ivm.sql.statements import parse as st
from ivm.sql.statements.text.tokens import tokens, unquoted
from ivm.storage.errors import UnsupportedError
from ivm.storage.identifiers import fold, words_in
from ivm.storage.interrupts import begin_statement
from ivm.storage.warehouse.duckdb.duck import Cursor, describe, rows, run
from ivm.storage.warehouse.duckdb.duckdb_errors import translated
from ivm.storage.warehouse.tables.history import removal
from ivm.storage.warehouse.tables.table_info import TableInfo

_SESSION = {"set", "reset", "attach", "detach", "load", "install", "pragma", "call"}
_BRINGS_FUNCTIONS = {"attach", "detach", "load", "install", "pragma", "call"}
_NO_FUNCTIONS = {"table", "view", "index", "sequence"}
_DEFINITIONS = {"macro", "view", "type"}


def other(session: Session, statement: st.Other, params: Params) -> Result:
    """Runs CHECKPOINT, VACUUM and the like, after a flush.

    A checkpoint of our file goes through the warehouse, which notes that the file's new state is
    its own, not another program's.
    """
    session.engine.tables.flush()
    if statement.kind in ("checkpoint", "force") and _is_own(session, statement.text):
        session.engine.warehouse.checkpoint()
        return Result("done")
    return query(session, statement, params)


def _is_own(session: Session, text: str) -> bool:
    """Returns whether a CHECKPOINT names the opened database, or none."""
    *_, last = tokens(text)
    own = fold(session.engine.warehouse.database)
    return last.word.lower() == "checkpoint" or fold(unquoted(last)) == own


def ddl(session: Session, statement: st.Ddl, params: Params, *, retypes: bool = False) -> Result:
    """Runs a statement that changes the catalog or the session.

    Args:
        session: that runs it.
        statement: what it is.
        params: of the statement.
        retypes: whether views may get columns of other types by it.
    """
    refuse_meaning(statement)
    refuse_alias(session, statement)
    refuse_clauses(statement)
    indexed = change_index(session, statement)
    if indexed is not None:
        return indexed
    if session.scans.set(statement):
        return Result("done")
    if statement.action in _SESSION:
        return _of_session(session, statement, params)
    reads_only = session.transaction is not None and session.transaction.reads_only
    with session.writing(temporary=reads_only) as transaction:  # else `demand_reading` refuses it
        refuse_conflicts(session, statement)
        temporary = _is_of_temporary(session, statement)
        if statement.target == "trigger":
            refuse_hidden(session, statement.text)
        if not reads_only:
            session.engine.indexes.release_snapshots()  # DuckDB alters no table that one holds
            with session.engine.retention.reading:  # nor that is being read for its retention
                pass
        if statement.action in ("drop", "alter") and session.transaction is None:
            transaction.allow_late_flush()
        transaction.show(session.reads(statement))
        if not temporary:
            transaction.change_catalog(functions=_may_change_functions(statement))
        if statement.action == "drop" and statement.cascade:
            _drop_readers(session, transaction, statement)
        try:
            result = _run(session, statement, params)
            transaction.flush_late(commit_first=statement.target == "index")
        except duckdb.Error as error:
            raise translated(error, statement.offset, statement.text) from error
        if not temporary:
            changed(session, transaction, statement, retypes=retypes)
    return result


def _of_session(session: Session, statement: st.Ddl, params: Params) -> Result:
    """Runs SET, ATTACH and the like."""
    engine = session.engine
    detaches = statement.action == "detach" and session.transaction is None
    if detaches:
        engine.warehouse.checkpoint_attached(fold(statement.names[0][0]))
    # DuckDB gives up all databases if one of them goes while a transaction looks through them.
    with engine.alone() if detaches else contextlib.nullcontext():
        try:
            return (_detach if detaches else query)(session, statement, params)
        finally:
            engine.warehouse.file_access.forget()
            if statement.action in _BRINGS_FUNCTIONS:
                engine.definitions.forget()


def _detach(session: Session, statement: st.Ddl, params: Params) -> Result:
    """Runs DETACH under the lock, which `query` may wait for where the catalog changes."""
    try:
        return session.ask(statement, params)
    except duckdb.Error as error:
        raise translated(error, statement.offset, statement.text) from error


def is_of_session(session: Session, statement: st.Ddl) -> bool:
    """Returns whether a statement concerns the session alone: settings, or temporary relations."""
    return statement.action in _SESSION or _is_of_temporary(session, statement)


def _may_change_functions(statement: st.Ddl) -> bool:
    """Returns whether other functions may be there after a statement."""
    return statement.target not in _NO_FUNCTIONS or statement.cascade


def _run(session: Session, statement: st.Ddl, params: Params) -> Result:
    """Has DuckDB run the statement, or what it means for tables that are not stored."""
    info = _unstored(session, statement) if statement.action == "drop" else None
    if info is None or info.history is None:
        with without_indexes(session, statement):
            begin_statement()
            session.cursor.execute(statement.text, params)
            result = _result(session.cursor)
        if statement.action == "copy database":
            finish_copy(session, statement)
        return result
    for sql in removal(info.history, info.keyed):
        run(session.cursor, sql)
    return Result("done")


def _unstored(session: Session, statement: st.Ddl) -> TableInfo | None:
    """The table that a statement names, if it is not stored (DuckDB drops one at a time)."""
    if statement.target != "table" or statement.name is None:
        return None
    name = session.names.resolve(statement.name)
    info = None if name is None else session.engine.catalog.tables.get(name)
    return None if info is None or info.history is None else info


def _is_of_temporary(session: Session, statement: st.Ddl) -> bool:
    """Returns whether a statement concerns only temporary relations of this session."""
    if statement.temporary or statement.target not in ("table", "view"):
        return statement.temporary
    stands = statement.action in ("drop", "alter", "comment") and bool(statement.names)
    return stands and all(session.names.is_temporary(parts) for parts in statement.names)


def _result(cursor: Cursor) -> Result:
    """A statement's result, read to its end: a count of rows, or what EXPLAIN ANALYZE tells."""
    names, rows = [column[0] for column in cursor.description or ()], cursor.fetchall()
    if rows and names == ["Count"]:
        return Result.count(int(rows[0][0]))
    if rows and names == ["explain_key", "explain_value"]:
        columns = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
        return Result.of_table(pa.table(columns, names), ["VARCHAR", "VARCHAR"])
    return Result("done")


def _drop_readers(session: Session, transaction: Transaction, statement: st.Ddl) -> None:
    catalog = session.engine.catalog
    if statement.target == "schema":
        names = [n for parts in statement.names for n in catalog.names.inside(parts)]
    elif statement.target in ("table", "view"):
        resolve = session.names.resolve
        names = [n for parts in statement.names if (n := resolve(parts)) is not None]
    else:
        return
    doomed = [view.name for view in catalog.version.readers(names)]
    doomed += [name for name in names if name in catalog.views]
    if doomed:
        view_statements.drop_views(session, transaction, doomed)


def changed(
    session: Session, transaction: Transaction, statement: st.Ddl, *, retypes: bool = False
) -> None:
    """Updates the catalog and the views after a change of tables, plain views, macros or types."""
    engine = session.engine
    before, typed = engine.catalog.tables, _typed(session, statement)
    engine.reload_tables(session.cursor, typed, functions=_may_change_functions(statement))
    if engine.catalog.tables != before:  # not by a macro, or a table of another database
        transaction.change_tables()
        refuse_types(before, engine.catalog.tables)
    refuse_unfit(session.cursor, engine.catalog.tables, before, typed)
    follow_tables(session, statement, before)
    move_positions(session, transaction, before)
    move_watermarks(session, transaction, before, statement)
    if statement.retention is not None or statement.watermark is not None:
        _note_clauses(session, transaction, statement, before)
    affected = _affected(session, statement, before, typed | transaction.unbound)
    session.refuse_temporary([(view.name, view.query) for view in affected])
    rebuilt = _bound_anew(session, transaction, statement, affected, typed, retypes)
    broken = engine.broken.names()
    transaction.rebuild([view for view in rebuilt if view.name not in broken])


def _note_clauses(
    session: Session,
    transaction: Transaction,
    statement: st.Ddl,
    before: Mapping[str, TableInfo],
) -> None:
    """Notes what the clauses of ours say of a table that has just been created."""
    info = created(session, statement, before)
    if info is None:
        return
    if statement.watermark is not None:
        set_clause(session, transaction, info, statement.watermark)
    if statement.retention is not None:
        retain_created(session, transaction, statement.retention, info)


def _bound_anew(
    session: Session,
    transaction: Transaction,
    statement: st.Ddl,
    affected: list[View],
    typed: set[str],
    retypes: bool,
) -> list[View]:
    """Binds views to the changed catalog; those whose rows may be others by it."""
    engine, anew = session.engine, set[str]()
    functions = list_functions(session.cursor) if affected else None
    broken, rebuilt, unbound = engine.broken.names(), dict[str, View](), transaction.unbound
    waits = transaction.begun and renames_table(statement)  # for another table of the name
    for view in affected:
        if is_unfit(view.broken):  # what is altered may mend it: REFRESH finds out
            engine.catalog.add_view(without_reads(view))
            continue
        may_wait = (waits or view.name in unbound) and view.name not in broken
        if may_wait and engine.catalog.version.lacks(view.name):
            transaction.unbind(view)
            continue
        if (
            retypes
            and functions is not None
            and (not view.reads.isdisjoint(anew) or is_retyped(session, view))
        ):
            rebuilt[view.name] = create_anew(session, transaction, view, functions)
            anew.add(view.name)
            continue
        view = _reading_anew(session, _valid(session, statement, view, functions))
        bound = engine.views.bound(view, session.cursor, functions)
        refuse_another_bound(view, bound, statement.offset)
        if (
            view.name in broken | unbound
            or not view.reads.isdisjoint(rebuilt)
            or not _stays(session, statement, view, bound, typed)
        ):
            view = rebuilt[view.name] = bound
        engine.catalog.add_view(view)
        if view.name not in broken:
            engine.broken.demand_whole(view.name)  # it may read others now
    return list(rebuilt.values())


def _stays(session: Session, statement: st.Ddl, old: View, new: View, typed: set[str]) -> bool:
    """Returns whether a view has the rows and the plan that it had, if those below it have."""
    if (statement.action, statement.target) != ("alter", "table"):
        return False  # rows may have changed, or what a name in the plan means
    if old.plan is None or new.plan is None or not same_plan(old.plan, new.plan):
        return False
    words = words_in(statement.text)
    spellings = {session.engine.catalog.qualified[name] for name in typed}
    return not any(
        words.issuperset(words_in(column))
        for scan in scans(new.plan)
        if scan.relation in spellings
        for column, _ in scan.schema
    )


def _typed(session: Session, statement: st.Ddl) -> set[str]:
    """The tables with a column whose type, or whose values (by USING), ALTER may have changed."""
    if "type" not in words_in(statement.text):
        return set()
    resolve = session.engine.catalog.names.resolve
    return {name for parts in statement.names if (name := resolve(parts)) is not None}


def _affected(
    session: Session, statement: st.Ddl, before: Mapping[str, TableInfo], typed: set[str]
) -> list[View]:
    """The views over changed tables, and those that may use a changed definition."""
    catalog = session.engine.catalog
    schema_gone = statement.action == "drop" or statement.replace
    if statement.action == "import" or (statement.target == "schema" and schema_gone):
        return list(catalog.views.values())
    changed = {name for name, info in before.items() if _is_other(info, catalog.tables.get(name))}
    changed |= typed
    changed.update(view.name for view in _using(session, statement))
    fresh = [name for name in catalog.tables if name not in before]
    changed.update(
        v.name for name in fresh for v in views_shadowed_by(catalog.version, session.cursor, name)
    )
    changed.update(view.name for view in catalog.version.readers(changed))
    return [view for view in catalog.views.values() if view.name in changed]


def _is_other(before: TableInfo, after: TableInfo | None) -> bool:
    """Returns whether views over a table have to be compiled and filled anew.

    Indexes, defaults and other constraints than the primary key change neither rows nor plans.
    """
    if after is None or after.oid != before.oid:
        return True
    return (after.schema, after.primary_key) != (before.schema, before.primary_key)


def _using(session: Session, statement: st.Ddl) -> list[View]:
    """The views whose text, or that of a view or macro they use, names the changed definition."""
    if statement.target not in _DEFINITIONS or statement.action == "comment":
        return []
    views = list(session.engine.catalog.views.values())
    if statement.target == "macro" and any(_is_built_in(session, n) for n in statement.names):
        return views  # an operator or a literal may call it without its name
    names = [words_in(name[-1]) for name in statement.names]
    found, texts = [], views_and_macros(session.cursor) if views else []
    for view in views:
        words = words_with_definitions(view.query, texts)
        if any(words.issuperset(name) for name in names):
            found.append(view)
    return found


def _is_built_in(session: Session, name: st.Name) -> bool:
    found = (
        "SELECT 1 FROM system.main.duckdb_functions()"
        " WHERE internal AND system.main.lower(function_name) = system.main.lower($1)"
    )
    return bool(rows(session.cursor, found, [name[-1]]))


def _valid(session: Session, statement: st.Ddl, view: View, functions: FunctionList | None) -> View:
    """A view whose query still binds, to the same columns, up to the names' case.

    Raises:
        UnsupportedError: it does not.
    """
    why, way = "", "drop it first"
    try:
        found = describe(session.cursor, view.query)
        time_functions = check_deterministic(view.query, session.cursor, functions)
        if bool(time_functions) != bool(view.time_functions):
            raise UnsupportedError("it would begin or cease to read the time")
        if same_columns(found, view.described):  # the view's own columns keep their names
            return replace(view, time_functions=time_functions, described=found)
        why = f" (its query would give {difference(view.described, found)})"
        if not same_names(found, view.described):
            way += ", or replace it by one that names its columns"
    except duckdb.InterruptException:
        raise
    except duckdb.Error:
        if renames_table(statement):
            whole = view.name not in session.engine.broken.names()
            way += ", or " if whole else ", or fill it (REFRESH MATERIALIZED VIEW) and "
            way += "give its table's name to another table in the same transaction"
    except UnsupportedError as error:
        why = f" ({error})"
    raise UnsupportedError(
        f"{statement.action.upper()} {statement.target.upper()} would break the materialized view "
        f"{view.name}{why}: {way}" + (", or add CASCADE" if _may_cascade(statement) else ""),
        statement.offset,
    )


def _may_cascade(statement: st.Ddl) -> bool:
    """Returns whether CASCADE would have dropped the views that read what is dropped."""
    takes_views = statement.action == "drop" and statement.target in ("table", "schema")
    return takes_views and not statement.cascade


def _reading_anew(session: Session, view: View) -> View:
    """A view with the relations that it reads: a plain view or macro below it may have changed."""
    version = session.engine.catalog.version
    reads = relations_read(version, session.cursor, view.query, view.name)
    demand_earlier(version, view.name, reads)
    return replace(view, reads=reads | view.time_relations)
