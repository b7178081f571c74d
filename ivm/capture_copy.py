"""COPY table FROM: it only appends, so the new rows are those behind the last row before.

Law: a row id is never given twice within a transaction; new rows get greater ones.
"""

from __future__ import annotations

from ivm.capture_clauses import Params
from ivm.capture_result import Captured, run_verbatim
from ivm.capture_watch import watching
from ivm.sql.statement_nodes import Dml
from ivm.storage.duck import Cursor
from ivm.storage.table_info import TableInfo


def capture_copy(cursor: Cursor, statement: Dml, table: TableInfo, params: Params) -> Captured:
    """Run a COPY … FROM and read what it appended."""
    with watching(cursor, table, "false") as watch:
        result = run_verbatim(cursor, statement, params)
        return result.with_changes({table.name: watch.changes()})
