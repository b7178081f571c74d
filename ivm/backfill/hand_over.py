"""The hand-over of a first fill: state is loaded, changes are caught up, and the circuit goes on.

Law: with Q the view's query, the staged contents are those of an epoch e. The view's table gets
Q(e) without anybody waiting; the log's records after e are stepped through a circuit of the view's
own; the last few under the writer lock, after which its state is that of the present epoch, and the
circuit of all views takes it over. A crash before the final transaction leaves the view unfilled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from ivm.catalog.version import View
from ivm.delta_ops.aggregates.aggregate import Aggregate
from ivm.delta_ops.operator import Fetch
from ivm.engine.engine import Engine
from ivm.engine.views.broken_views import record_of, why
from ivm.engine.views.maintenance import Maintenance
from ivm.spark_backfill.stages import Key, Stage, Staging, contents_of, from_state, wanted_keys
from ivm.sql.plan.nodes import Plan
from ivm.storage.errors import EvaluationError
from ivm.storage.log.reading import read_records
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duck import Cursor, run
from ivm.storage.warehouse.net_changes import PendingView
from ivm.storage.warehouse.tables.system_tables import save_view

_CLOSE = 64  # epochs that may be left to be stepped under the writer lock
_MOST_PENDING = 1 << 20  # rows of deltas that wait in memory for the view's table
_ROUNDS = 100  # after so many the rest is stepped under the lock, however long it is


class OutdatedError(Exception):
    """The snapshot was outdated meanwhile, or the view is another one by now, or is refreshed."""


class HandOver:
    """Brings one view from its staged contents into the circuit.

    Args:
        engine: of the database.
        view: a copy of the view, compiled, that nobody else uses.
        plan: that of the view itself, which is another object once a definition below it changes.
        staging: with all stages done.
        stages: the contents.
        check: raises if the job is to stop.
    """

    def __init__(
        self,
        engine: Engine,
        view: View,
        plan: Plan | None,
        staging: Staging,
        stages: Sequence[Stage],
        check: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._view = view
        self._plan = plan
        self._staging = staging
        self._stages = {stage.node: stage for stage in stages}
        self._check = check
        self._delta = self._none()
        self._own = Maintenance(engine.tables)
        assert staging.epoch is not None
        self._reached = staging.epoch

    # -- loading --------------------------------------------------------------------------------

    def load(self) -> None:
        """Builds the view's state and fills its table, as of the staged epoch."""
        compiled = self._view.compiled
        assert compiled is not None
        circuit, cursors = compiled.circuit, self._engine.warehouse.cursor
        partial = {node: stage for node, stage in self._stages.items() if stage.partial}
        for node, stage in partial.items():
            operator = circuit.node(node).operator
            assert isinstance(operator, Aggregate)
            operator.absorb(self._staging.states(stage, cursors), self._staging.rows(stage))
            circuit.node(node).hydrated = True
        for node in sorted(circuit.needs_hydration()):
            keys = wanted_keys(circuit, node)
            circuit.hydrate(from_state(circuit, partial, self._fetch(keys)), [node])
        fetch = from_state(circuit, partial, self._fetch({}))
        root = circuit.views[self._view.name]
        self._in_transaction(lambda cursor: run(cursor, f"DELETE FROM {self._table}"))
        late = PendingView(self._view.schema)
        for chunk in contents_of(circuit, root, fetch):
            self._load(chunk, late)
        self._write(late)
        self._own.attach(self._view.name, compiled)

    def _load(self, chunk: ZSet, late: PendingView) -> None:
        """Writes a chunk; one that removes rows, perhaps of later chunks, waits for the end."""
        self._check()
        if not (chunk.weights > 0).all():
            late.add(chunk)
            return
        part = PendingView(self._view.schema)
        part.add(chunk)
        self._write(part)

    def _write(self, part: PendingView) -> None:
        """Writes rows to the view's table, which nobody reads yet, in a transaction of its own."""
        net, name = part.net(), self._view.name
        self._in_transaction(lambda cursor: self._engine.tables.write(cursor, name, net))

    def _none(self) -> PendingView:
        return PendingView(self._view.schema, self._view.key)

    def _in_transaction(self, work: Callable[[Cursor], None]) -> None:
        """Works in a transaction of its own, while the view is as it was at the start."""
        with self._engine.warehouse.transaction() as cursor:
            self._demand_current()
            work(cursor)

    def _fetch(self, keys: Mapping[int, Key]) -> Fetch:
        """Reads the contents of nodes, sorted by these keys where Spark has sorted them."""
        cursors = self._engine.warehouse.cursor

        def fetch(node: int) -> Iterator[ZSet]:
            stage = self._stages[node]
            for chunk in self._staging.content(stage, cursors, keys.get(node, ())):
                self._check()
                yield chunk

        return fetch

    @property
    def _table(self) -> str:
        return self._engine.catalog.qualified[self._view.name]

    # -- catching up ----------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Steps through the log until few epochs are left.

        Raises:
            EvaluationError: the view fails on a change.
        """
        for _ in range(_ROUNDS):
            epoch = self._engine.epoch
            self._step(epoch)
            if self._engine.epoch - epoch <= _CLOSE:
                return

    def _step(self, epoch: int) -> None:
        log = self._engine.warehouse.log
        assert log is not None
        log.demand_in_place()
        for record in read_records(log.folder, self._reached, epoch):
            self._check()
            delta = self._own.step(record.changes).get(self._view.name)
            self._own.commit()
            if delta is not None:
                self._delta.add(delta)
            if self._delta.rows > _MOST_PENDING:
                self._write(self._delta)
                self._delta = self._none()
        self._reached = epoch

    # -- the end --------------------------------------------------------------------------------

    def finish(self) -> None:
        """Steps through the rest, and lets the circuit of all views follow the view from here on.

        Raises:
            OutdatedError: the snapshot or the view is not what it was.
        """
        engine = self._engine
        with engine.alone():
            self._demand_current()
            engine.log.demand_writable()
            self._step(engine.epoch)
            engine.log.make_durable(engine.epoch)
            epochs = {self._view.name: engine.epoch}
            with engine.warehouse.write_lock:
                with engine.warehouse.transaction() as cursor:
                    engine.tables.write(cursor, self._view.name, self._delta.net())
                    save_view(cursor, record_of(self._view, "exact"))
                    engine.warehouse.record(cursor, epochs)
                engine.warehouse.recorded(epochs)
                self._adopt()

    def _adopt(self) -> None:
        """Lets memory follow the file, in which the view is filled."""
        engine, view = self._engine, self._view
        try:
            engine.maintenance.attach(view.name, self._own.compiler)
            engine.catalog.add_view(replace(view, compiled=None, broken=None))
            engine.definitions.forget()
        except BaseException as error:
            why = f"the view {view.name!r} is filled, but the memory could not follow"
            raise engine.log.broken(why, error) from error

    def _demand_current(self) -> None:
        known = self._engine.catalog.views.get(self._view.name)
        same = known is not None and replace(known, compiled=None) == replace(
            self._view, compiled=None, plan=self._plan
        )
        refreshed = self._engine.unfilled.is_refreshed(self._view.name)
        if not same or refreshed or not self._staging.stands:
            raise OutdatedError

    def break_view(self, error: EvaluationError) -> None:
        """Marks the view as broken: it fails on a change that was committed."""
        with self._engine.alone():
            self._demand_current()
            self._engine.broken.mark([self._view.name], why(error))
