"""INSERT and COPY that DuckDB runs, without a second copy of very many rows in the log.

Law: the log need not have what DuckDB's commit has. Where a statement adds very many rows, that
commit is the commit point, as for a change of the catalog: nothing is read back, the views over the
table are filled anew, and what memory holds of the table is dropped.
"""

from __future__ import annotations

import duckdb

from ivm.capture.result import nothing, run_verbatim
from ivm.capture.row_diff import rows_appended
from ivm.changes.rows.evaluation import MOST_ROWS
from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.fast_path_rules import has_trigger
from ivm.ingest.parameters import Params
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.sql.parse.function_list import list_functions
from ivm.sql.statements import parse as st
from ivm.storage.log.change import TableChange
from ivm.storage.warehouse.duckdb.duck import rows
from ivm.storage.warehouse.duckdb.duckdb_errors import translated
from ivm.storage.warehouse.flush.row_ids import last_row_id
from ivm.storage.warehouse.tables.table_info import TableInfo


def can_load(
    session: Session, transaction: Transaction, statement: st.Dml, info: TableInfo
) -> bool:
    """Returns whether a statement only adds rows to a table, and is a transaction of its own."""
    plain = not (statement.or_action or statement.on_conflict or statement.returning)
    return (
        statement.kind in ("insert", "copy")
        and plain
        and not transaction.begun
        and info.history is None
        and info.position("rowid") is None  # DuckDB's fault `hidden_row_ids`
        and info.name not in session.engine.retention.rules
        and info.name not in session.engine.watermarks.known
        and not session.names.temporary  # a view's text could mean them
        and not has_trigger(info, session.cursor)
    )


def load(
    session: Session, transaction: Transaction, statement: st.Dml, info: TableInfo, params: Params
) -> Result:
    """Runs a statement that `can_load`."""
    transaction.show(session.reads(statement))
    cursor = session.cursor
    before = _count(session, info)
    last = last_row_id(cursor, info.qualified)
    try:
        added = run_verbatim(cursor, statement, params).count
    except duckdb.Error as error:
        raise translated(error, statement.offset, statement.text) from error
    if added < 0:
        added = _count(session, info) - before
    has_views = bool(session.engine.catalog.version.readers([info.name]))
    if added > MOST_ROWS and (added > before or not has_views):
        _fill_anew(session, transaction, info)
    else:
        every = tuple(range(len(info.schema)))
        new = rows_appended(cursor, info, last)
        change = TableChange(info.name, nothing(info.schema), every, new)
        transaction.add_from_duckdb(change)
    return Result.count(added)


def _count(session: Session, info: TableInfo) -> int:
    ((count,),) = rows(session.cursor, f"SELECT system.main.count(*) FROM {info.qualified}")
    return int(count)


def _fill_anew(session: Session, transaction: Transaction, info: TableInfo) -> None:
    engine, cursor = session.engine, session.cursor
    transaction.change_catalog()
    engine.reload_tables(cursor, {info.name})
    transaction.change_tables()
    views = engine.catalog.version.readers([info.name])
    session.refuse_temporary([(view.name, view.query) for view in views])
    functions = list_functions(cursor) if views else None
    for view in views:
        # The circuit is to take new nodes.
        engine.catalog.add_view(engine.views.bound(view, cursor, functions))
    broken = engine.broken.names()
    transaction.rebuild([view for view in views if view.name not in broken])
