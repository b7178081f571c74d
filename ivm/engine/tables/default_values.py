"""The values of one transaction's defaults: DuckDB evaluates them, at the transaction's own time.

A statement without BEGIN needs none of DuckDB's transactions to tell the time, see `local_time`.

Contract: a sequence advances as in DuckDB, and what it has given is durable before the rows are:
no value is given twice, and one of a transaction that is rolled back is used up. The time is that
of DuckDB's transaction: it begins with ours, and reads nothing before a statement needs it, so that
it sees what is flushed until then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import duckdb

from ivm.ingest.evaluated_defaults import EvaluatedDefault, of_one_time, values_of
from ivm.ingest.local_time import LocalTime
from ivm.storage.values.column import Column
from ivm.storage.warehouse.duckdb.duck import Cursor, run
from ivm.storage.warehouse.duckdb.duckdb_errors import translated
from ivm.storage.warehouse.tables.system_tables import load_epochs
from ivm.storage.warehouse.warehouse import Warehouse


class DefaultValues:
    """Evaluates defaults for one transaction.

    Args:
        warehouse: the DuckDB file.
        cursor: the session's, which has its settings.
        local: tells the session's time.

    Attributes:
        begun: DuckDB's transaction has begun on the cursor, only to tell the time.
    """

    def __init__(self, warehouse: Warehouse, cursor: Cursor, local: LocalTime) -> None:
        self._warehouse = warehouse
        self._cursor = cursor
        self._local = local
        self.begun = False

    def begin(self) -> None:
        """Begins DuckDB's transaction, whose time is told from now on."""
        self.begun = True  # before BEGIN: an interrupt after it must roll it back
        run(self._cursor, "BEGIN TRANSACTION")

    def go_on(self) -> bool:
        """Returns whether that transaction has begun and sees all that is flushed by now.

        One that has begun to read too early is rolled back.
        """
        begun, self.begun = self.begun, False
        if not begun:
            return False
        with contextlib.closing(self._warehouse.cursor()) as cursor:
            if load_epochs(self._cursor) == load_epochs(cursor):
                return True
        run(self._cursor, "ROLLBACK")
        return False

    def end(self) -> None:
        """Ends that transaction, if it has not gone on."""
        if self.begun:
            self.begun = False
            with contextlib.suppress(duckdb.Error):  # an error has aborted it
                run(self._cursor, "ROLLBACK")

    def of(
        self, defaults: Mapping[int, EvaluatedDefault], count: int, *, in_duckdb: bool
    ) -> dict[int, Column]:
        """The values of defaults, by position, for a number of rows.

        Args:
            in_duckdb: the cursor is in the transaction that will write the rows.

        Raises:
            IvmError: as DuckDB's INSERT raises it.
        """
        try:
            if in_duckdb:
                return self._evaluated(list(defaults), defaults, count, self._cursor)
            told = {} if self.begun else self._told(defaults, count)
            drawing = [i for i, default in defaults.items() if default.draws]
            others = [i for i in defaults if i not in drawing and i not in told]
            found = self._evaluated(others, defaults, count, self._cursor)
            return told | found | self._drawn(drawing, defaults, count)
        except duckdb.Error as error:
            raise translated(error) from error

    def _told(self, defaults: Mapping[int, EvaluatedDefault], count: int) -> dict[int, Column]:
        telling = of_one_time(defaults)
        values = self._local.now([defaults[i].type for i in telling], count)
        return dict(zip(telling, values, strict=True))

    def _drawn(
        self, positions: Sequence[int], defaults: Mapping[int, EvaluatedDefault], count: int
    ) -> dict[int, Column]:
        """Values of sequences, committed by themselves."""
        if not positions:
            return {}
        self._warehouse.demand_in_place()
        if not self.begun:
            found = self._evaluated(positions, defaults, count, self._cursor)
        else:
            with contextlib.closing(self._warehouse.cursor()) as cursor:
                found = self._evaluated(positions, defaults, count, cursor)
        self._warehouse.saw_own_commit()
        return found

    def _evaluated(
        self,
        positions: Sequence[int],
        defaults: Mapping[int, EvaluatedDefault],
        count: int,
        cursor: Cursor,
    ) -> dict[int, Column]:
        if not positions:
            return {}
        values = values_of([defaults[i] for i in positions], count, cursor)
        return dict(zip(positions, values, strict=True))
