"""The late rows of a session's changes that become dead letters.

Law: a change tells its rows without them, where they are of its own table: those that a trigger
puts into another are none of its rows. One that returns rows, or whose rows no key tells apart
since it sets the keys, is refused with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from ivm.engine.transactions.late_events import count, entries
from ivm.sql.statements import parse as st
from ivm.sql.statements.changes.assignments import sets_any
from ivm.storage.errors import ConstraintError
from ivm.storage.identifiers import fold
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column
from ivm.storage.warehouse.tables.table_info import TableInfo

Resolve: TypeAlias = Callable[[Sequence[str]], str | None]


class BuriedRows:
    """The late rows of one change.

    Args:
        statement: of the change; None for a call.
        resolve: gives the canonical name of a table.

    Attributes:
        count: the late events so far.
    """

    def __init__(self, statement: st.Dml | None, resolve: Resolve) -> None:
        self.count = 0
        self._statement, self._resolve = statement, resolve
        self._late: list[TableChange] = []

    def note(self, late: TableChange, info: TableInfo) -> None:
        """Notes late events of a table.

        Raises:
            ConstraintError: the statement cannot go on without them.
        """
        statement = self._statement
        named = None if statement is None else statement.table
        if named is not None and self._resolve(named) != info.name:
            return
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
        self.count += count(info, late)
        self._late.append(late)

    def among(self, info: TableInfo, given: Mapping[int, Column]) -> int:
        """How many of the rows that a call was given for a table are late; see `entries`."""
        return entries(info, given, [late for late in self._late if late.table == info.name])


class Buried:
    """The change of a session that is under way.

    Args:
        resolve: gives the canonical name of a table.
    """

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._rows = BuriedRows(None, resolve)

    def note(self, late: TableChange, info: TableInfo) -> None:
        """See `BuriedRows.note`."""
        self._rows.note(late, info)

    @contextmanager
    def of(self, statement: st.Dml | None) -> Iterator[BuriedRows]:
        """Counts the late rows of a change by a statement, or of a call."""
        before, self._rows = self._rows, BuriedRows(statement, self._resolve)
        try:
            yield self._rows
        finally:
            self._rows = before
