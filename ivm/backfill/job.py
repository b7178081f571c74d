"""The job of one first fill: snapshot, stages on Spark, hand-over.

Law: the job may die at any point, with the process or alone. What a later one finds in the view's
folder is done: it goes on with the stages that are missing, from the same snapshot. If a change
that the log does not have outdates the snapshot, the fill begins again.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from typing import TYPE_CHECKING, NamedTuple

import duckdb

from ivm.backfill.hand_over import HandOver, OutdatedError
from ivm.backfill.progress import NOT_RUNNING, FillProgress
from ivm.backfill.snapshot import demand_files, export_scanned, exported, pinned
from ivm.catalog.broken_views import UNFILLED
from ivm.catalog.version import View
from ivm.engine.base.jobs import Job
from ivm.engine.engine import Engine
from ivm.spark_backfill.frames import Frames
from ivm.spark_backfill.session import ENDED, words_of
from ivm.spark_backfill.stages import Stage, Staging, run_stage, stages_of
from ivm.sql.plan.nodes import Plan
from ivm.storage.errors import EvaluationError, IvmError, UnavailableError
from ivm.storage.log.reading import has_records
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.duckdb.duckdb_errors import of_our_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KIND = "backfill"
_LOOK = 0.05  # seconds between looks at a transaction that changes the catalog
_ATTEMPTS = 5  # snapshots that may be outdated one after the other


class StoppedError(Exception):
    """The job was told to stop."""


class _Bound(NamedTuple):
    """A view to be filled.

    Attributes:
        plan: of the view itself.
        alone: a copy with a plan of its own, which nobody else uses.
        generation: of the unfilled views, before it was bound.
    """

    plan: Plan | None
    alone: View
    generation: int


class BackfillJob:
    """A running fill; see `Job`.

    Args:
        engine: of the database.
        name: of the view.
        after: the job that filled the view before, which may not have ended yet.
    """

    def __init__(self, engine: Engine, name: str, after: Job | None) -> None:
        self._engine = engine
        self._name = name
        self._group = f"ivm-backfill-{uuid.uuid4().hex}"  # databases may share one session
        self.progress = FillProgress()
        self._stopping = threading.Event()
        self._spark: SparkSession | None = None
        self._exporting: Cursor | None = None
        self._thread = threading.Thread(
            target=self._run, args=(after,), name=f"ivm-backfill-{name}", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """See `Job`."""
        self._stopping.set()
        spark, cursor = self._spark, self._exporting
        if cursor is not None:
            cursor.interrupt()
        if spark is not None:
            with contextlib.suppress(Exception):  # Spark has ended, or is another process
                spark.sparkContext.cancelJobGroup(self._group)

    def join(self, timeout: float) -> bool:
        """See `Job`."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self, after: Job | None) -> None:
        while after is not None and not after.join(0.1):
            pass
        try:
            self._fill()
            self.progress.begin("done")
        except StoppedError:
            self.progress.begin(NOT_RUNNING)
        except Exception as error:
            if self._stopping.is_set():
                self.progress.begin(NOT_RUNNING)
            else:
                self.progress.failed(_reason(error))

    def _check(self) -> None:
        if self._stopping.is_set():
            raise StoppedError

    def _fill(self) -> None:
        for _ in range(_ATTEMPTS):
            found = self._bound()
            if found is None:
                return self._engine.unfilled.forget(self._name)
            staging = Staging(self._engine.unfilled.folder(self._name))
            try:
                self._fill_once(found, staging)
            except OutdatedError:
                continue
            except (StoppedError, EvaluationError):
                raise
            except Exception:  # as its files were taken away: the view is filled, or to be anew
                if self._bound() is not None and not staging.is_outdated:
                    raise
        raise UnavailableError(
            f"the tables of {self._name!r} were altered {_ATTEMPTS} times while it was being "
            "filled: try again with db.backfill() or `ivm backfill`"
        )

    def _bound(self) -> _Bound | None:
        """The view as of a commit, None if it waits for no fill.

        What an open transaction has changed in the catalog may be rolled back: its end is waited
        for, as is that of a REFRESH.
        """
        engine = self._engine
        self.progress.begin("waiting")
        while True:
            self._check()
            generation, meaning = engine.unfilled.generation, engine.meaning()
            if meaning is not None and not engine.unfilled.is_refreshed(self._name):
                try:
                    found = self._bind(generation)
                except (IvmError, duckdb.Error):
                    if engine.meaning() == meaning:
                        raise
                else:
                    if engine.meaning() == meaning:
                        return found
            self._stopping.wait(_LOOK)

    def _bind(self, generation: int) -> _Bound | None:
        view = self._engine.catalog.views.get(self._name)
        if view is None or view.broken != UNFILLED:
            return None
        with contextlib.closing(self._engine.warehouse.cursor()) as cursor:
            alone = self._engine.views.bound(view, cursor)
        return _Bound(view.plan, alone, generation)

    def _fill_once(self, bound: _Bound, staging: Staging) -> None:
        engine, alone = self._engine, bound.alone
        assert alone.plan is not None
        stages = stages_of(alone.plan, engine.warehouse.cursor)
        self.progress.begin("starting Spark")
        spark = self._spark = self._engine.spark()
        if not self._goes_on(staging, stages):
            self._take_snapshot(staging, stages, bound.generation)
        self._run_stages(spark, staging, stages)
        plans = [stage.plan for stage in stages]
        demand_files(engine, engine.catalog.version, plans)  # the workers have read them
        hand_over = HandOver(engine, alone, bound.plan, staging, stages, self._check)
        try:
            self.progress.begin("loading")
            hand_over.load()
            self.progress.begin("catching up")
            hand_over.catch_up()
            hand_over.finish()
        except EvaluationError as error:
            hand_over.break_view(error)
            raise
        engine.unfilled.forget(self._name)

    # -- the snapshot ---------------------------------------------------------------------------

    def _goes_on(self, staging: Staging, stages: list[Stage]) -> bool:
        """Returns whether an earlier job's snapshot can be used still."""
        log = self._engine.warehouse.log
        assert log is not None
        return (
            staging.epoch is not None
            and staging.serves(stages)
            and has_records(log.folder, staging.epoch)
        )

    def _take_snapshot(self, staging: Staging, stages: list[Stage], generation: int) -> None:
        """Exports what the stages scan, as of one epoch, and holds the log's records after it.

        Args:
            staging: gets the files.
            stages: of a plan that was bound at this generation of the unfilled views, or later.
            generation: if there is another one by now, the plan or the snapshot is outdated.
        """
        self.progress.begin("exporting")
        staging.clear()
        unfilled = self._engine.unfilled
        with pinned(self._engine, self._name) as (cursor, epoch):
            self._exporting = cursor
            try:
                plans = [stage.plan for stage in stages]
                version = self._engine.catalog.version
                export_scanned(self._engine, version, cursor, plans, staging.tables, self._check)
            finally:
                self._exporting = None
            with self._engine.warehouse.write_lock:
                if unfilled.generation != generation:
                    raise OutdatedError
                staging.begin(epoch, stages)

    # -- Spark ----------------------------------------------------------------------------------

    def _run_stages(self, spark: SparkSession, staging: Staging, stages: list[Stage]) -> None:
        relations = exported(spark, [stage.plan for stage in stages], staging.tables)
        frames = Frames(spark, relations, self._engine.warehouse.zone.name)
        done = sum(staging.is_done(stage) for stage in stages)
        self.progress.begin_stages(spark, self._group, len(stages), done)
        with contextlib.suppress(Exception):  # Spark Connect has no context
            spark.sparkContext.setJobGroup(self._group, f"ivm: first fill of {self._name}", True)
        try:
            for i, stage in enumerate(stages):
                self._check()
                self.progress.begin_stage(i + 1, stage.label)
                run_stage(spark, frames, staging, stages, i)
                self.progress.rows += staging.rows(stage)
                self.progress.bytes += staging.bytes(stage)
        finally:
            frames.close()


_NO_FILES = (
    "A fill on Spark writes and reads files, which enable_external_access = false keeps DuckDB "
    "from: open the database again, or make the view WITH (backfill = 'duckdb')"
)


def _reason(error: Exception) -> str:
    """Why a fill has failed, in a sentence, without its full stop."""
    if isinstance(error, IvmError):
        return str(error)
    if isinstance(error, duckdb.PermissionException):
        return f"{of_our_sql(error)}. {_NO_FILES}"
    if isinstance(error, duckdb.Error):
        return of_our_sql(error).rstrip(".")
    kind, words = type(error), words_of(error)
    is_sparks = words == ENDED or kind.__module__.startswith(("pyspark.", "py4j."))
    return f"{'Spark' if is_sparks else kind.__name__}: {of_our_sql(words).rstrip('.')}"
