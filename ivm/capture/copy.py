"""COPY table FROM: it only appends, so the new rows are those behind the last row before.

Law: a row id is never given twice within a transaction; new rows get greater ones.
"""

from __future__ import annotations

from ivm.capture.clauses import Params
from ivm.capture.result import Captured, run_verbatim
from ivm.capture.row_diff import watching
from ivm.sql.statements.nodes import Dml
from ivm.storage.warehouse.duck import Cursor
from ivm.storage.warehouse.table_info import TableInfo


def capture_copy(cursor: Cursor, statement: Dml, table: TableInfo, params: Params) -> Captured:
    """Run a COPY … FROM and read what it appended."""
    with watching(cursor, table, "false") as watch:
        result = run_verbatim(cursor, statement, params)
        return result.with_changes({table.name: watch.changes()})
