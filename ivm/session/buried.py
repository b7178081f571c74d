"""The late rows of a session's changes that become dead letters.

Law: a change tells its rows without them. One that returns rows, or whose rows no key tells apart
since it sets the keys, is refused with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ivm.sql.statements import parse as st
from ivm.sql.statements.changes.assignments import sets_any
from ivm.storage.errors import ConstraintError
from ivm.storage.identifiers import fold
from ivm.storage.warehouse.tables.table_info import TableInfo


class BuriedRows:
    """The count of one change.

    Args:
        statement: of the change; None for a call.

    Attributes:
        count: the rows so far.
    """

    def __init__(self, statement: st.Dml | None) -> None:
        self.count = 0
        self._statement = statement

    def note(self, count: int, info: TableInfo) -> None:
        """Notes late rows of a table.

        Raises:
            ConstraintError: the statement cannot go on without them.
        """
        statement = self._statement
        key = {fold(info.schema[i][0]) for i in info.primary_key}
        if statement is not None and statement.returning:
            raise ConstraintError(
                f"late rows of table {info.name!r} would become dead letters, so RETURNING cannot "
                "return them: leave RETURNING out, or the late rows"
            )
        if statement is not None and sets_any(statement.text, key):
            raise ConstraintError(
                f"the statement changes late rows of table {info.name!r} and sets its primary key, "
                "so nothing tells which row has become which: leave the late rows out, or the key"
            )
        self.count += count


class Buried:
    """The change of a session that is under way."""

    def __init__(self) -> None:
        self._rows = BuriedRows(None)

    def note(self, count: int, info: TableInfo) -> None:
        """See `BuriedRows.note`."""
        self._rows.note(count, info)

    @contextmanager
    def of(self, statement: st.Dml | None) -> Iterator[BuriedRows]:
        """Counts the late rows of a change by a statement, or of a call."""
        before, self._rows = self._rows, BuriedRows(statement)
        try:
            yield self._rows
        finally:
            self._rows = before
