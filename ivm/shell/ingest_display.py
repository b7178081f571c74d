"""What `ivm ingest` shows: a live panel, lines of text, or lines of JSON.

Law: progress and its sum as JSON go to standard output, all that is said to a person at the end to
standard error. A reader that leaves ends the output, never the work.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from ivm.cdc.progress import NOT_STARTED
from ivm.cdc.run_sources import SourceInfo
from ivm.cdc.sinks.run_sinks import SinkInfo
from ivm.cdc.stored_sources import PAUSED, STOPPED
from ivm.shell.console import duration
from ivm.shell.display.output import Output
from ivm.shell.editing.completion import quoted
from ivm.sql.compile.explain_drawing import counted

_BETWEEN_LINES = 5.0  # seconds, unless a state changes


@dataclass(frozen=True)
class Seen:
    """The sources and sinks at one moment.

    Attributes:
        broken: why views are broken that were not at the beginning, by name, in a sentence.
    """

    sources: Sequence[SourceInfo]
    sinks: Sequence[SinkInfo] = ()
    broken: Mapping[str, str] = field(default_factory=dict)


def runs(job: SourceInfo | SinkInfo) -> bool:
    """Whether a source or sink is being run."""
    return job.state not in (PAUSED, STOPPED, NOT_STARTED)


@dataclass(frozen=True)
class Total:
    """What has been done at the end.

    Attributes:
        ended: `caught up`, `stopped` by a signal, or `failed`.
        code: the exit code.
        events: applied.
        seconds: since the beginning.
        letters: new dead letters, by source.
        broken: why views are broken that were not at the beginning.
        failed: why sources and sinks have ended, or have not caught up.
        resume: the statements that let something run, if nothing could.
    """

    ended: str
    code: int
    events: int
    seconds: float
    letters: Mapping[str, int]
    broken: Sequence[str]
    failed: Sequence[str]
    resume: Sequence[str]


class Display(Protocol):
    """Shows them from time to time; a context manager, for what it does to the terminal."""

    def __enter__(self) -> object: ...

    def __exit__(self, *exc: object) -> None: ...

    def show(self, seen: Seen) -> None:
        """Shows what the sources and sinks do now."""

    def end(self, total: Total) -> None:
        """Tells how it ended."""


class Lines:
    """A line a source or sink every few seconds if it has moved, and when its state changes.

    Args:
        output: for the lines.
        errors: for what is said at the end.
        as_json: write JSON objects.
    """

    def __init__(self, output: Output, errors: Output, as_json: bool = False) -> None:
        self._output = output
        self._errors = errors
        self._as_json = as_json
        self._shown: dict[tuple[type, str], SourceInfo | SinkInfo] = {}
        self._seen: Sequence[SourceInfo | SinkInfo] = ()
        self._broken: set[str] = set()
        self._time = 0.0

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *exc: object) -> None:
        self._write(job for job in self._seen if self._differs(job, _moved))

    def show(self, seen: Seen) -> None:
        """See `Display`."""
        self._seen = [*seen.sources, *seen.sinks]
        due = time.monotonic() - self._time >= _BETWEEN_LINES
        if due:
            self._time = time.monotonic()
        self._write(job for job in self._seen if self._differs(job, _moved if due else _state))
        for name in seen.broken.keys() - self._broken:
            content = {"type": "view", "name": name, "broken": seen.broken[name]}
            self._line(content if self._as_json else seen.broken[name])
        self._broken = set(seen.broken)

    def end(self, total: Total) -> None:
        """See `Display`."""
        if self._as_json:
            self._line(_json_total(total))
        self._errors.lines(end_lines(total, self._errors, counts=not self._as_json))

    def _differs(self, job: SourceInfo | SinkInfo, by: Callable[[Any], object]) -> bool:
        shown = self._shown.get((type(job), job.name))
        return shown is None or by(shown) != by(job)

    def _write(self, jobs: Iterable[SourceInfo | SinkInfo]) -> None:
        for job in jobs:
            self._shown[type(job), job.name] = job
            if self._as_json:
                self._line({"type": _type(job), **asdict(job)})
            else:
                self._line(_source_text(job) if isinstance(job, SourceInfo) else _sink_text(job))

    def _line(self, content: Any) -> None:
        now = datetime.now(UTC)
        if self._as_json:
            line = json.dumps({"time": now.isoformat(), **content}, ensure_ascii=False)
        else:
            line = f"{now.astimezone():%H:%M:%S} {content}"
        self._output.line(line)


def _type(job: SourceInfo | SinkInfo) -> str:
    return "source" if isinstance(job, SourceInfo) else "sink"


def _state(job: SourceInfo | SinkInfo) -> tuple[object, ...]:
    return job.state, job.reason


def _moved(job: SourceInfo | SinkInfo) -> tuple[object, ...]:
    """What differs when there is something to tell."""
    if isinstance(job, SourceInfo):
        return *_state(job), job.events, job.dead_letters, job.caught_up
    return *_state(job), job.acknowledged, job.lag_epochs


def _json_total(total: Total) -> dict[str, Any]:
    return {
        "ended": total.ended,
        "events": total.events,
        "seconds": round(total.seconds, 3),
        "dead_letters": sum(total.letters.values()),
    }


def _source_text(source: SourceInfo) -> str:
    head = f"{source.name}: {source.state}"
    if source.reason:
        return f"{head}: {source.reason}"
    facts = [head]
    if source.state == "running":
        facts.append(f"{counted(source.events, 'event')}, {source.events_per_second:,.0f}/s")
        facts.append("caught up" if source.caught_up else f"{behind(source)} behind")
        share = done(source)
        if share is not None:
            facts.append(percent(share))
    if source.dead_letters:
        facts.append(counted(source.dead_letters, "dead letter"))
    return " · ".join(facts)


def _sink_text(sink: SinkInfo) -> str:
    head = f"{sink.name}: {sink.state}"
    if sink.reason:
        return f"{head}: {sink.reason}"
    return f"{head} · {sink.view} to epoch {sink.acknowledged:,} · {waits(sink)} behind"


def behind(source: SourceInfo) -> str:
    """How far a source is behind its upstream, as far as it is known."""
    if source.caught_up:
        return "0"
    events = "?" if source.lag_events is None else f"{source.lag_events:,}"
    return events if source.lag_seconds is None else f"{events} · {duration(source.lag_seconds)}"


def done(source: SourceInfo) -> float | None:
    """The part of what its upstream has that is applied, as long as a source has never caught up.

    None if that is not known; what is copied first is told by the upstream's own estimates.
    """
    if source.state != "running" or source.has_caught_up or not source.lag_events:
        return None
    return source.events / (source.events + source.lag_events)


def percent(share: float) -> str:
    """A part as a text that is 100 % at the end alone."""
    return f"{int(100 * share)} %"


def waits(sink: SinkInfo) -> str:
    """What waits for the target of a sink."""
    return f"{counted(sink.lag_epochs, 'epoch')}, {counted(sink.lag_rows, 'row')}"


def end_lines(total: Total, errors: Output, *, counts: bool = True) -> list[str]:
    """What is said at the end."""
    error = errors.paint("error", "Error:")
    lines = [f"{error} {why}" for why in total.failed]
    if total.resume:
        lines.append(f"{error} nothing runs, all is paused: {'; '.join(total.resume)}")
    for name, count in total.letters.items():
        lines.append(
            f"{counted(count, 'event')} of {name} could not be applied: FROM _ivm.dead_letters, "
            f"then RETRY or DISCARD DEAD LETTERS FOR {quoted(name)}"
        )
    lines += total.broken
    if counts and not total.resume:
        done = f"{counted(total.events, 'event')} applied in {duration(total.seconds)}"
        lines.append(f"{_ENDS[total.ended]}: {done}")
    return lines


_ENDS = {"caught up": "Caught up", "stopped": "Stopped", "failed": "Ended"}
