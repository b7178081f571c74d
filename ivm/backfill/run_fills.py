"""The running of first fills, and waiting for them."""

from __future__ import annotations

from collections.abc import Callable

from ivm.backfill.job import KIND, BackfillJob
from ivm.backfill.progress import FAILED, NOT_RUNNING, FillProgress
from ivm.backfill.settings import SparkSettings
from ivm.catalog.broken_views import UNFILLED
from ivm.engine.base.jobs import Job
from ivm.engine.engine import Engine
from ivm.storage.errors import UnavailableError
from ivm.storage.interrupts import check

_LOOK = 0.2  # seconds between looks at the progress


def run_fills(engine: Engine, settings: SparkSettings) -> None:
    """Runs the fills that are asked for from now on.

    Args:
        engine: of the database.
        settings: of Spark.
    """

    def make(name: str, before: Job | None) -> BackfillJob:
        return BackfillJob(engine, name, before)

    engine.spark, engine.spark_from = settings.session, settings.auto_from
    engine.jobs.run(KIND, make)


def progress_of(engine: Engine, name: str) -> FillProgress | None:
    """How far the fill of a view is; None if no job of this process has worked on it."""
    job = engine.jobs.find(KIND, name)
    return job.progress if isinstance(job, BackfillJob) else None


def progress_text(engine: Engine, name: str) -> str | None:
    """The state of a view's first fill, in words; None if the view is filled."""
    if not _is_unfilled(engine, name):
        return None
    progress = progress_of(engine, name)
    return NOT_RUNNING if progress is None else progress.text()


def _is_unfilled(engine: Engine, name: str) -> bool:
    """Whether a view, which may be dropped meanwhile, waits for its first fill."""
    view = engine.catalog.views.get(name)
    return view is not None and view.broken == UNFILLED


def wait_for_fill(
    engine: Engine, name: str, on_progress: Callable[[FillProgress], None] | None = None
) -> None:
    """Fills a view, or goes on with it, and waits until it can be read.

    Raises:
        UnavailableError: the fill has failed, or was stopped.
        EvaluationError: the view is broken by a change.
    """
    job = engine.jobs.find(KIND, name)
    if _is_unfilled(engine, name) and (job is None or job.join(0)):
        engine.jobs.changed(KIND, name)
        job = engine.jobs.find(KIND, name)
    if not isinstance(job, BackfillJob):
        return
    while not job.join(_LOOK):
        check()
        if on_progress is not None:
            on_progress(job.progress)
    if on_progress is not None:
        on_progress(job.progress)
    _demand_filled(engine, name, job.progress)


def _demand_filled(engine: Engine, name: str, progress: FillProgress) -> None:
    if progress.phase == FAILED:
        raise UnavailableError(
            f"the first fill of {name!r} has failed: {progress.reason}. What is done is kept: "
            "`ivm backfill` and db.backfill() go on from there"
        )
    if _is_unfilled(engine, name):
        raise UnavailableError(
            f"the first fill of {name!r} was stopped; `ivm backfill` and db.backfill() go on"
        )
    engine.broken.demand_whole(name)
