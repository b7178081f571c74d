"""INSERT without a conflict action that replaces rows: RETURNING gives exactly the new rows.

Law: it removes nothing; a row that ON CONFLICT DO NOTHING passes over is not returned.

DELETE and TRUNCATE: RETURNING gives the removed rows, TRUNCATE removes all there are.

Law: a row that DELETE … USING matches twice is removed and returned once.

COPY table FROM: it only appends, so the new rows are those behind the last row before.

Law: a row id is never given twice within a transaction; new rows get greater ones.
"""

from __future__ import annotations

from ivm.capture.clauses import Params
from ivm.capture.result import Captured, nothing, run_returning, run_verbatim
from ivm.capture.row_diff import all_rows, watching
from ivm.sql.statements.nodes import Dml
from ivm.storage.warehouse.duck import Cursor
from ivm.storage.warehouse.table_info import TableInfo


def capture_insert(cursor: Cursor, statement: Dml, table: TableInfo, params: Params) -> Captured:
    """Run an INSERT and take the rows it returns."""
    text, shown = statement.text, statement.returning
    result, added = run_returning(cursor, text, params, table, shown)
    return result.with_changes({table.name: (nothing(table.schema), added)})


def capture_delete(cursor: Cursor, statement: Dml, table: TableInfo, params: Params) -> Captured:
    """Run a DELETE and take the rows it returns."""
    text, shown = statement.text, statement.returning
    result, removed = run_returning(cursor, text, params, table, shown)
    return result.with_changes({table.name: (removed, nothing(table.schema))})


def capture_truncate(cursor: Cursor, statement: Dml, table: TableInfo, params: Params) -> Captured:
    """Read the whole table, then empty it."""
    removed = all_rows(cursor, table)
    result = run_verbatim(cursor, statement, params)
    return result.with_changes({table.name: (removed, nothing(table.schema))})


def capture_copy(cursor: Cursor, statement: Dml, table: TableInfo, params: Params) -> Captured:
    """Run a COPY … FROM and read what it appended."""
    with watching(cursor, table, "false") as watch:
        result = run_verbatim(cursor, statement, params)
        return result.with_changes({table.name: watch.changes()})
