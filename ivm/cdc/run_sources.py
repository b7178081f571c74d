"""The running of a database's sources, and the list of what they are doing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ivm.cdc import records, stored_sources
from ivm.cdc.progress import Progress, Reached
from ivm.cdc.source_job import Open, SourceJob, WithSession, open_here
from ivm.cdc.stored_sources import RUNNING, StoredSource
from ivm.engine.base.jobs import Job
from ivm.engine.engine import Engine
from ivm.session.session import Session
from ivm.storage.identifiers import fold

_MOST_STREAMS = 20  # whose positions are listed


@dataclass(frozen=True)
class SourceInfo:
    """A source as SHOW SOURCES lists it.

    Attributes:
        name: in lower case.
        kind: `FILES`, `KAFKA`, `POSTGRES`, ….
        target: the table that INTO names; None without.
        state: `not started`, `starting`, `running`, `waiting` for an upstream that does not answer,
            `paused`, or `stopped` by an error.
        position: of each of its streams, of many only the last ones.
        lag_events: about how many events are not applied yet; None if not known.
        lag_seconds: the age of the newest applied change, 0 if there is nothing newer upstream;
            None if not known.
        events: applied since it was started here.
        events_per_second: over the last ten seconds.
        dead_letters: how many it has in `_ivm.dead_letters`.
        reason: why it waits or has stopped.
        caught_up: whether all is applied that the upstream had a moment ago.
        has_caught_up: whether that was so at some time since it was started or resumed here.
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
    has_caught_up: bool


def run_sources(
    with_session: WithSession,
    engine: Engine,
    names: Collection[str] | None = None,
    open: Open = open_here,
) -> None:
    """Runs sources, those of some names or all, and from now on those that a statement starts.

    Args:
        with_session: see `SourceJob`; whose it is, theirs are the jobs.
        engine: of the database.
        names: of the sources; None for all.
        open: see `SourceJob`; it makes a difference where none runs yet.

    Raises:
        SqlError: there is no source of one of the names.
    """

    def make(name: str, before: Job | None) -> SourceJob:
        assert before is None or isinstance(before, SourceJob)
        return SourceJob(with_session, engine, name, before, open)

    known = [stored.name for stored in with_session(stored_sources.load_all)]
    wanted = known if names is None else [fold(name) for name in names]
    for name in wanted:
        if name not in known:
            raise stored_sources.unknown(name, known)
    with_session(lambda _: engine.jobs.run("source", make, with_session))  # which is open
    for name in wanted:
        job = engine.jobs.find("source", name)
        if job is None or job.join(0):
            engine.jobs.changed("source", name)


def list_sources(session: Session) -> list[SourceInfo]:
    """All sources by name.

    What a running one has reached is asked of its job, which costs no flush of its records.
    """
    found = stored_sources.load_all(session)
    progress = {stored.name: _progress(session, stored.name) for stored in found}
    told = {name: known.reached() for name, known in progress.items()}
    if None in told.values():
        told = {**_stored(session), **{name: known for name, known in told.items() if known}}
    return [
        _info(stored, progress[stored.name], *(told.get(stored.name) or ({}, 0)))
        for stored in found
    ]


def _progress(session: Session, name: str) -> Progress:
    job = session.engine.jobs.find("source", name)
    return job.progress if isinstance(job, SourceJob) else Progress()


def _stored(session: Session) -> dict[str, Reached | None]:
    """The positions and the number of dead letters of all sources, as they are stored."""
    offsets: dict[str, dict[str, int]] = {}
    sql = "SELECT source, stream, position FROM _ivm.positions"
    for source, stream, offset in records.listed(session, sql):
        offsets.setdefault(source, {})[stream] = offset
    sql = "SELECT source, count(*) FROM _ivm.dead_letters GROUP BY source"
    letters = dict(records.listed(session, sql))
    return {name: (offsets.get(name, {}), letters.get(name, 0)) for name in {*offsets, *letters}}


def _position_text(offsets: Mapping[str, int]) -> str:
    """Positions by stream, of many streams the last ones."""
    last = sorted(offsets)[-_MOST_STREAMS:]
    text = ", ".join(f"{stream}: {offsets[stream]}" for stream in last)
    more = len(offsets) - len(last)
    return f"{more} others, {text}" if more else text


def _info(
    stored: StoredSource, progress: Progress, offsets: Mapping[str, int], letters: int
) -> SourceInfo:
    state, reason = stored.state, stored.reason
    if state == RUNNING:
        state, reason = progress.state, progress.reason
    return SourceInfo(
        name=stored.name,
        kind=stored.definition.kind,
        target=stored.target,
        state=state,
        position=_position_text(offsets),
        lag_events=progress.lag_events,
        lag_seconds=progress.lag_seconds,
        events=progress.events,
        events_per_second=round(progress.rate, 2),
        dead_letters=letters,
        reason=reason,
        caught_up=progress.caught_up,
        has_caught_up=progress.has_caught_up,
    )
