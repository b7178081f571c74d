"""Changes whose rows RETURNING or the row ids name exactly: INSERT, DELETE, TRUNCATE and COPY.

INSERT without a conflict action that replaces rows removes nothing, and RETURNING gives exactly the
new rows: a row that ON CONFLICT DO NOTHING skips is not returned.
DELETE returns the removed rows; a row that DELETE … USING matches twice is removed and returned
once. TRUNCATE removes all rows.
COPY … FROM only appends, and new rows get greater row ids than all rows before (see `row_diff`).
"""

from __future__ import annotations

from ivm.capture.result import Captured, nothing, run_returning, run_verbatim
from ivm.capture.row_diff import all_rows, watching
from ivm.ingest.parameters import Params
from ivm.sql.statements.nodes.nodes import Dml
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo


def capture_insert(cursor: Cursor, statement: Dml, table: TableInfo, params: Params) -> Captured:
    """Runs an INSERT; the added rows are those it returns."""
    result, added = run_returning(cursor, statement, params, table)
    return result.with_changes({table.name: (nothing(table.schema), added)})


def capture_delete(cursor: Cursor, statement: Dml, table: TableInfo, params: Params) -> Captured:
    """Runs a DELETE; the removed rows are those it returns."""
    result, removed = run_returning(cursor, statement, params, table)
    return result.with_changes({table.name: (removed, nothing(table.schema))})


def capture_truncate(cursor: Cursor, statement: Dml, table: TableInfo, params: Params) -> Captured:
    """Runs a TRUNCATE; the removed rows are read before."""
    removed = all_rows(cursor, table)
    result = run_verbatim(cursor, statement, params)
    return result.with_changes({table.name: (removed, nothing(table.schema))})


def capture_copy(cursor: Cursor, statement: Dml, table: TableInfo, params: Params) -> Captured:
    """Runs a COPY … FROM; the added rows are read after it by their row ids."""
    with watching(cursor, table, "false") as watch:
        result = run_verbatim(cursor, statement, params)
        return result.with_changes({table.name: watch.changes()})
