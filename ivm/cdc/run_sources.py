"""The running of a database's sources, and the list of what they are doing."""

from __future__ import annotations

from dataclasses import dataclass

from ivm.cdc import records, stored_sources
from ivm.cdc.progress import Progress
from ivm.cdc.source_job import SourceJob, WithSession
from ivm.cdc.stored_sources import RUNNING, StoredSource
from ivm.engine.engine import Engine
from ivm.engine.jobs import Job
from ivm.session.session import Session


@dataclass(frozen=True)
class SourceInfo:
    """A source as SHOW SOURCES lists it.

    Attributes:
        name: in lower case.
        kind: `FILES`, `KAFKA`, `POSTGRES`, ….
        target: the table that INTO names; None without.
        state: `not started`, `starting`, `running`, `waiting` for an upstream that does not answer,
            `paused`, or `stopped` by an error.
        position: of each of its streams.
        lag_events: about how many events are not applied yet; None if not known.
        lag_seconds: the age of the newest applied change, 0 if there is nothing newer upstream;
            None if not known.
        events: applied since it was started here.
        events_per_second: over the last ten seconds.
        dead_letters: how many it has in `_ivm.dead_letters`.
        reason: why it waits or has stopped.
        caught_up: whether all is applied that the upstream had a moment ago.
    """

    name: str
    kind: str
    target: str | None
    state: str
    position: str
    lag_events: int | None
    lag_seconds: float | None
    events: int
    events_per_second: float
    dead_letters: int
    reason: str | None
    caught_up: bool


def run_sources(with_session: WithSession, engine: Engine) -> None:
    """Runs all sources that are not paused or stopped, and those to come."""

    def make(name: str, before: Job | None) -> SourceJob:
        assert before is None or isinstance(before, SourceJob)
        return SourceJob(with_session, engine, name, before)

    if not engine.jobs.runs("source"):
        engine.jobs.run("source", make)
        for stored in with_session(stored_sources.load_all):
            engine.jobs.changed("source", stored.name)


def list_sources(session: Session) -> list[SourceInfo]:
    """All sources by name."""
    positions: dict[str, list[str]] = {}
    for source, stream, offset in records.listed(
        session, "SELECT source, stream, position FROM _ivm.positions ORDER BY ALL"
    ):
        positions.setdefault(source, []).append(f"{stream}: {offset}")
    counted = "SELECT source, count(*) FROM _ivm.dead_letters GROUP BY source"
    letters = dict(records.listed(session, counted))
    return [
        _info(
            stored,
            ", ".join(positions.get(stored.name, [])),
            letters.get(stored.name, 0),
            session.engine.jobs.find("source", stored.name),
        )
        for stored in stored_sources.load_all(session)
    ]


def _info(stored: StoredSource, position: str, letters: int, job: Job | None) -> SourceInfo:
    progress = job.progress if isinstance(job, SourceJob) else Progress()
    state, reason = stored.state, stored.reason
    if state == RUNNING:
        state, reason = progress.state, progress.reason
    return SourceInfo(
        name=stored.name,
        kind=stored.definition.kind,
        target=stored.target,
        state=state,
        position=position,
        lag_events=progress.lag_events,
        lag_seconds=progress.lag_seconds,
        events=progress.events,
        events_per_second=progress.rate,
        dead_letters=letters,
        reason=reason,
        caught_up=progress.caught_up,
    )
