"""Runs a change in DuckDB and finds exactly the rows it removed and added.

Law: table before − removed + added = table after, as multisets of exact rows.
Contract: the user's result is DuckDB's own, and every expression of the statement is evaluated
once. The caller begins and ends the transaction, and after an error it must roll back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import duckdb

from ivm.capture.merge import capture_merge
from ivm.capture.result import Captured, run_verbatim
from ivm.capture.row_diff import watched
from ivm.capture.side_effects import tables_changed
from ivm.capture.simple import capture_copy, capture_delete, capture_insert, capture_truncate
from ivm.capture.trial import without_our_sql
from ivm.capture.update import capture_update
from ivm.capture.upsert import capture_upsert
from ivm.ingest.parameters import Params
from ivm.sql.statements.nodes.nodes import Dml
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo

__all__ = ["Captured", "capture"]

_KINDS: dict[str, Callable[[Cursor, Dml, TableInfo, Params], Captured]] = {
    "copy": capture_copy,
    "delete": capture_delete,
    "insert": capture_insert,
    "merge": capture_merge,
    "truncate": capture_truncate,
    "update": capture_update,
}


def capture(
    cursor: Cursor,
    statement: Dml,
    table: TableInfo | None,
    params: Params = None,
    tables: Mapping[str, TableInfo] | None = None,
) -> Captured:
    """Runs a statement that changes rows, in the cursor's open transaction.

    Args:
        cursor: in a transaction that sees the current rows of every base table.
        statement: any `Dml`.
        table: the changed base table; None if the statement changes another table (temporary, of
            another database) or if `statement.kind` is "other".
        params: the statement's parameters.
        tables: all base tables by canonical name: those that triggers and data-modifying CTEs
            may change. Only `table` when left out.

    Returns:
        The changes of base tables and the result for the user.

    Raises:
        duckdb.Error: as DuckDB raises it; the transaction is then aborted.
    """
    try:
        return _capture(cursor, statement, table, params, tables)
    except duckdb.Error as error:
        raise without_our_sql(error, statement.text) from None


def _capture(
    cursor: Cursor,
    statement: Dml,
    table: TableInfo | None,
    params: Params,
    tables: Mapping[str, TableInfo] | None,
) -> Captured:
    known = tables if tables is not None else {} if table is None else {table.name: table}
    changed = tables_changed(cursor, statement, table, known)
    if changed:
        with watched(cursor, changed) as watches:
            result = run_verbatim(cursor, statement, params)
            changes = {watch.table.name: watch.changes() for watch in watches}
        return result.with_changes(changes)
    if table is None:
        return run_verbatim(cursor, statement, params)
    if statement.kind == "insert" and (statement.or_action == "replace" or statement.on_conflict):
        return capture_upsert(cursor, statement, table, params)
    return _KINDS[statement.kind](cursor, statement, table, params)
