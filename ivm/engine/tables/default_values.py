"""The values of one transaction's defaults: DuckDB evaluates them, at the transaction's own time.

Contract: a sequence advances as in DuckDB, and what it has given is durable before the rows are:
no value is given twice, and one of a transaction that is rolled back is used up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import duckdb

from ivm.ingest.evaluated_defaults import EvaluatedDefault, of_one_time, values_of
from ivm.ingest.transaction_time import TransactionTime
from ivm.storage.values.column import Column
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.duckdb.duckdb_errors import translated
from ivm.storage.warehouse.warehouse import Warehouse


class DefaultValues:
    """Evaluates defaults for one transaction.

    Args:
        warehouse: the DuckDB file.
        cursor: the session's, which has its settings.
        time: of the transaction.
    """

    def __init__(self, warehouse: Warehouse, cursor: Cursor, time: TransactionTime) -> None:
        self._warehouse = warehouse
        self._cursor = cursor
        self._time = time

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
            told = self._told(defaults, count)
            drawing = [i for i, default in defaults.items() if default.draws]
            others = [i for i in defaults if i not in drawing and i not in told]
            found = self._evaluated(others, defaults, count, self._cursor)
            return told | found | self._drawn(drawing, defaults, count)
        except duckdb.Error as error:
            raise translated(error) from error

    def _told(self, defaults: Mapping[int, EvaluatedDefault], count: int) -> dict[int, Column]:
        local, telling = self._time.local, of_one_time(defaults)
        if local is None:
            return {}
        values = local.now([defaults[i].type for i in telling], count)
        return dict(zip(telling, values, strict=True))

    def _drawn(
        self, positions: Sequence[int], defaults: Mapping[int, EvaluatedDefault], count: int
    ) -> dict[int, Column]:
        """Values of sequences, committed by themselves."""
        if not positions:
            return {}
        self._warehouse.demand_in_place()
        if not self._time.stands:
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
