"""INSERT without a conflict action that replaces rows: RETURNING gives exactly the new rows.

Law: it removes nothing; a row that ON CONFLICT DO NOTHING passes over is not returned.
"""

from __future__ import annotations

from ivm.capture.clauses import Params
from ivm.capture.result import Captured, nothing, run_returning
from ivm.sql.statements.nodes import Dml
from ivm.storage.warehouse.duck import Cursor
from ivm.storage.warehouse.table_info import TableInfo


def capture_insert(cursor: Cursor, statement: Dml, table: TableInfo, params: Params) -> Captured:
    """Run an INSERT and take the rows it returns."""
    text, shown = statement.text, statement.returning
    result, added = run_returning(cursor, text, params, table, shown)
    return result.with_changes({table.name: (nothing(table.schema), added)})
