"""How views follow their tables: by the circuit's deltas, or by recomputing and comparing.

Law: what `step` returns for a view, added to its rows, is its query after the changes. A view that
is recomputed is only marked stale by a change; its difference is made when someone reads it, and
the circuit above it takes that difference like any other delta (operators are linear in each
input, so it does not matter that it comes later than the tables' own).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from ivm.catalog import Catalog, View
from ivm.delta_ops.circuit import Circuit
from ivm.sql.compile import Compiled, compile_view
from ivm.storage.change import TableChange
from ivm.storage.keys import consolidate
from ivm.storage.warehouse import Warehouse
from ivm.storage.zset import ZSet, add


class Maintenance:
    """The circuit of all incremental views, and the list of stale recomputed ones.

    Args:
        warehouse: for hydration and recomputation.
        catalog: the views.
        flush: brings DuckDB's tables up to the log.
    """

    def __init__(self, warehouse: Warehouse, catalog: Catalog, flush: Callable[[], None]) -> None:
        self._warehouse = warehouse
        self._catalog = catalog
        self._flush = flush
        self.circuit = Circuit()
        self.stale: set[str] = set()

    # -- the circuit ----------------------------------------------------------------------------

    def step(self, changes: Sequence[TableChange]) -> dict[str, ZSet]:
        """The deltas of all incremental views; the circuit's new state is staged.

        Raises:
            EvaluationError: an expression fails on these rows; nothing is staged.
        """
        deltas = {s: d for s in self._sources(changes) if len(d := self._delta(s, changes))}
        if not deltas:
            return {}
        if self.circuit.needs_hydration(deltas):
            self.hydrate()
        return self.circuit.step(deltas)

    def commit(self) -> None:
        self.circuit.commit()

    def rollback(self) -> None:
        self.circuit.rollback()
