"""What `ivm ingest` shows: a live panel, lines of text, or lines of JSON.

Law: progress and its sum as JSON go to standard output, all that is said to a person at the end to
standard error. A reader that leaves ends the output, never the work.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from ivm.cdc.run_sources import SourceInfo
from ivm.shell.console import duration
from ivm.shell.output import Output
from ivm.sql.compile.explain_drawing import counted

_BETWEEN_LINES = 5.0  # seconds, unless a state changes


@dataclass(frozen=True)
class Total:
    """What has been done at the end.

    Attributes:
        ended: `caught up`, `stopped` by a signal, or `failed`.
        code: the exit code.
        events: applied.
        seconds: since the beginning.
        letters: new dead letters, by source.
        failed: sources that ended with an error, or did not catch up.
        paused: the names of those that were not run.
    """

    ended: str
    code: int
    events: int
    seconds: float
    letters: Mapping[str, int]
    failed: Sequence[SourceInfo]
    paused: Sequence[str]


class Display(Protocol):
    """Shows sources from time to time; a context manager, for what it does to the terminal."""

    def __enter__(self) -> object: ...

    def __exit__(self, *exc: object) -> None: ...

    def show(self, sources: Sequence[SourceInfo]) -> None:
        """Shows what the sources do now."""

    def end(self, total: Total) -> None:
        """Tells how it ended."""


class Lines:
    """A line a source every few seconds if it has moved, and at each change of its state.

    Args:
        output: for the lines.
        errors: for what is said at the end.
        as_json: write JSON objects.
    """

    def __init__(self, output: Output, errors: Output, as_json: bool = False) -> None:
        self._output = output
        self._errors = errors
        self._as_json = as_json
        self._shown: dict[str, SourceInfo] = {}
        self._seen: Sequence[SourceInfo] = ()
        self._time = 0.0

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *exc: object) -> None:
        self._write(source for source in self._seen if self._has_moved(source))

    def show(self, sources: Sequence[SourceInfo]) -> None:
        """See `Display`."""
        self._seen = sources
        due = time.monotonic() - self._time >= _BETWEEN_LINES
        if due:
            self._time = time.monotonic()
        self._write(
            source
            for source in sources
            if self._has_new_state(source) or (due and self._has_moved(source))
        )

    def end(self, total: Total) -> None:
        """See `Display`."""
        if self._as_json:
            self._line(_json_total(total))
        self._errors.lines(end_lines(total, self._errors, counts=not self._as_json))

    def _has_new_state(self, source: SourceInfo) -> bool:
        shown = self._shown.get(source.name)
        return shown is None or (shown.state, shown.reason) != (source.state, source.reason)

    def _has_moved(self, source: SourceInfo) -> bool:
        shown = self._shown.get(source.name)
        return shown is None or _moved(shown) != _moved(source)

    def _write(self, sources: Any) -> None:
        for source in sources:
            self._shown[source.name] = source
            self._line(asdict(source) if self._as_json else _text(source))

    def _line(self, content: Any) -> None:
        now = datetime.now(UTC)
        if self._as_json:
            content = json.dumps({"time": now.isoformat(), **content}, ensure_ascii=False)
        else:
            content = f"{now.astimezone():%H:%M:%S} {content}"
        self._output.line(content)


def _moved(source: SourceInfo) -> tuple[object, ...]:
    """What differs when there is something to tell."""
    return source.state, source.reason, source.events, source.dead_letters, source.caught_up


def _json_total(total: Total) -> dict[str, Any]:
    return {
        "ended": total.ended,
        "events": total.events,
        "seconds": round(total.seconds, 3),
        "dead_letters": sum(total.letters.values()),
    }


def _text(source: SourceInfo) -> str:
    facts = [f"{source.name}: {source.state}"]
    if source.reason:
        return f"{facts[0]}: {source.reason}"
    facts.append(f"{counted(source.events, 'event')}, {source.events_per_second:,.0f}/s")
    facts.append(behind(source) + " behind" if not source.caught_up else "caught up")
    if source.dead_letters:
        facts.append(f"{counted(source.dead_letters, 'dead letter')}")
    return " · ".join(facts)


def behind(source: SourceInfo) -> str:
    """How far a source is behind its upstream, as far as it is known."""
    if source.caught_up:
        return "0"
    events = "?" if source.lag_events is None else f"{source.lag_events:,}"
    return events if source.lag_seconds is None else f"{events} · {duration(source.lag_seconds)}"


def end_lines(total: Total, errors: Output, *, counts: bool = True) -> list[str]:
    """What is said at the end."""
    lines = [
        f"{errors.paint('error', 'Error:')} source {source.name!r} {_failure(source)}"
        for source in total.failed
    ]
    if total.paused and total.ended == "failed" and not total.failed:
        names = " ".join(f"RESUME SOURCE {name};" for name in total.paused)
        lines.append(f"{errors.paint('error', 'Error:')} all sources are paused: {names}")
    for name, count in total.letters.items():
        lines.append(
            f"{counted(count, 'event')} of {name} could not be applied: FROM _ivm.dead_letters, "
            f"then RETRY or DISCARD DEAD LETTERS FOR {name}"
        )
    if counts:
        done = f"{counted(total.events, 'event')} applied in {duration(total.seconds)}"
        lines.append(f"{_ENDS[total.ended]}: {done}")
    return lines


_ENDS = {"caught up": "Caught up", "stopped": "Stopped", "failed": "Ended"}


def _failure(source: SourceInfo) -> str:
    if source.state == "waiting":
        return f"could not catch up, its upstream does not answer: {source.reason}"
    return f"has stopped: {source.reason}; RESUME SOURCE {source.name} lets it go on"
