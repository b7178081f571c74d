"""Any function of a group: its own SQL over the touched groups, old and new.

Law: the query is separable by the partition, Q(rows) = Σ Q(rows of one group), so its delta is
Q(touched groups' rows after) − Q(their rows before). DuckDB gets the rows in the order of their
hashes: the same multiset gives the same answer whatever its history, also where DuckDB rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from ivm.delta_ops.linear.duck_eval import column_names, run_sql
from ivm.delta_ops.operator import CursorFactory, Fetch, Operator, Strategy
from ivm.delta_ops.state.partitions import Partitions
from ivm.storage.arrangement.arrangement import Arrangement
from ivm.storage.values.column import Column
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.key_codes import row_codes
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add, empty


class GroupRecompute(Operator):
    """The difference of a query's answers over the touched groups' rows.

    Args:
        inputs: the input's types.
        partition: positions of the columns by which the query is separable; none for one group of
            all rows (then the query may answer to no rows, as a scalar aggregate does).
        sql: a SELECT over the table `delta` with columns c0, c1, …, one row per unit of weight.
        types: the output's types, as DuckDB describes `sql`.
        cursor_factory: see `CursorFactory`.
        reproducible: the answer's bits do not depend on the rows' physical order.
    """

    strategy: ClassVar[Strategy] = "group recompute"
    why: ClassVar[str] = "DuckDB's own SQL over the touched groups, before and after"
    stateful: ClassVar[bool] = True
    consolidated = True

    def __init__(
        self,
        inputs: Sequence[ColumnType],
        partition: Sequence[int],
        sql: str,
        types: Sequence[ColumnType],
        cursor_factory: CursorFactory,
        *,
        reproducible: bool = False,
    ) -> None:
        super().__init__(types)
        self.reproducible = reproducible
        self._inputs = tuple(inputs)
        self._partition = tuple(partition)
        self._sql = sql
        self._cursor_factory = cursor_factory
        self._state = Partitions(inputs, partition)
        self.parts = (self._state,)

    @property
    def whole(self) -> bool:
        """Every change recomputes everything: there is no partition."""
        return not self._partition

    def step(self, inputs: tuple[ZSet, ...]) -> ZSet:
        (delta,) = inputs
        state = self._state
        state.stage(delta)
        keys, _ = state.changed(delta)
        old, new = self._answer(state.before, keys), self._answer(state.after, keys)
        return consolidate(add([old.negate(), new]), self.types)

    def _answer(self, rows: Arrangement, keys: Sequence[Column]) -> ZSet:
        return self._ask(self._state.plain(rows.lookup_live(keys).rows))

    def _ask(self, rows: ZSet) -> ZSet:
        if self._partition and not len(rows):
            return empty(self.types)
        order = np.argsort(row_codes(rows.columns, self._inputs), kind="stable")
        rows = rows.take(np.repeat(order, rows.weights[order]))
        registered = {"delta": (rows, column_names(self._inputs))}
        return run_sql(self._cursor_factory, self._sql, registered, column_names(self.types))

    def hydration_key(self, number: int) -> tuple[int, ...]:
        return self._partition

    def hydrate(self, inputs: Fetch) -> None:
        self._state.build(inputs(0))

    def contents(self, inputs: Fetch) -> Iterator[ZSet]:
        yield self._ask(consolidate(add([empty(self._inputs), *inputs(0)]), self._inputs))

    def describe(self) -> str:
        return f"GroupRecompute(by {list(self._partition)}: {self._sql})"

    def state_rows(self) -> int:
        return self._state.row_count
