"""The running of a database's sinks, and the list of what they are doing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ivm.catalog.broken_views import why_broken
from ivm.cdc.sinks.job import SinkJob
from ivm.engine.base.jobs import Job
from ivm.engine.engine import Engine
from ivm.engine.feeds.outbox_rows import Sink
from ivm.session.session import Session
from ivm.storage.identifiers import literal


@dataclass(frozen=True)
class SinkInfo:
    """A sink as SHOW SINKS lists it.

    Attributes:
        name: in lower case.
        view: canonical name of its view.
        kind: `FILES`, ….
        options: of its target, by name.
        state: `not started`, `running`, `failing` while its target is tried again or its view is
            broken, or `paused`.
        acknowledged: the last epoch that the target has for good.
        lag_epochs: how many epochs it has not acknowledged.
        lag_rows: the rows of their deltas.
        reason: why it is failing.
    """

    name: str
    view: str
    kind: str
    options: str
    state: str
    acknowledged: int
    lag_epochs: int
    lag_rows: int
    reason: str | None


def run_sinks(with_session: Callable[[Callable[[Session], Any]], Any], engine: Engine) -> None:
    """Runs all sinks that are not paused, and those to come.

    Args:
        with_session: calls a function with the session of the calling thread; whose it is, theirs
            are the jobs.
        engine: of the database.
    """

    def make(name: str, before: Job | None) -> SinkJob:
        assert before is None or isinstance(before, SinkJob)
        return SinkJob(engine, name, before)

    def start(session: Session) -> None:
        if engine.jobs.run("sink", make, with_session):
            for name in engine.outbox.sinks:
                engine.jobs.changed("sink", name)

    with_session(start)


def list_sinks(session: Session) -> list[SinkInfo]:
    """All sinks by name, as of the last commit."""
    sinks = session.engine.outbox.sinks
    return [_info(session.engine, sinks[name]) for name in sorted(sinks)]


def _info(engine: Engine, sink: Sink) -> SinkInfo:
    job = engine.jobs.find("sink", sink.name)
    state, reason = "not started", None
    if isinstance(job, SinkJob) and not job.ended:
        reason = job.reason or why_broken(engine.catalog.version.committed_views, sink.view)
        state = "failing" if reason else "running"
    if sink.paused:
        state = "paused"
    lag = engine.outbox.lag(sink)
    options = ", ".join(f"{name} {literal(value)}" for name, value in sink.options.items())
    given = sink.name, sink.view, sink.target, options, state, sink.acknowledged
    return SinkInfo(*given, lag.epochs, lag.rows, reason)
