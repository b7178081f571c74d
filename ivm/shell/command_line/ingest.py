"""`ivm ingest` and `ivm pipeline`: run sources and sinks until they are caught up or stopped.

Law: Ctrl-C and SIGTERM end it after the batches under way, a second one at once; whatever ends it,
nothing is lost or doubled, since each source goes on from the position of its last commit, and each
sink behind the last epoch that its target has acknowledged.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from ivm.cdc.progress import NOT_STARTED
from ivm.cdc.run_sources import SourceInfo
from ivm.cdc.sinks.run_sinks import SinkInfo
from ivm.cdc.stored_sources import STOPPED
from ivm.database import Database
from ivm.shell.display.output import standard_error, standard_output
from ivm.shell.editing.completion import quoted
from ivm.shell.ingest_display import Display, Lines, Seen, Total, runs
from ivm.shell.stop import Stop
from ivm.sql.compile.explain_drawing import counted
from ivm.storage.errors import InputError
from ivm.storage.identifiers import fold

_LOOKS = 0.2  # seconds between two looks at the sources
_PATIENCE = 30.0  # seconds after which --once gives an upstream up that does not answer
_STOPPING = 10.0  # seconds for the batches under way; Spark has as many as an upstream

NO_SOURCES = """there are no sources in {path} yet. A source is created once:
  ivm -c "CREATE SOURCE clicks INTO clicks FROM FILES (path 'inbox/*.jsonl', format 'json')" {path}
Then ivm ingest {path} runs it"""


def ingest(
    database: Database,
    path: str,
    names: Sequence[str],
    *,
    once: bool,
    as_json: bool,
    on_spark: bool = False,
) -> int:
    """Runs sources and sinks, and shows on standard output what they do.

    Args:
        database: open.
        path: by which it was opened.
        names: of the sources to run; all and the sinks if there are none.
        once: leave when everything is applied that was there.
        as_json: print lines of JSON.
        on_spark: run the sources as a pipeline, see `Database.start_pipeline`.

    Returns:
        The exit code.

    Raises:
        InputError: there are no sources and no sinks, or no source of one of the names.
        IvmError: see `Database.start_pipeline`.
    """
    ingestion = Ingestion(database, path, names, once, on_spark)
    output, errors = standard_output(), standard_error()
    if as_json or not output.is_terminal or os.environ.get("TERM") == "dumb":
        return ingestion.run(Lines(output, errors, as_json))
    from ivm.shell.command_line.ingest_panel import Panel  # rich takes a moment to load

    title = " · ".join([Path(path).name, counted(len(database.views()), "view")])
    return ingestion.run(Panel(title, errors, colours=output.paint.on))


class Ingestion:
    """The sources and sinks of a database while they are run by the command line.

    Args:
        database: open.
        path: by which it was opened.
        names: of the sources to run; all and the sinks if there are none.
        once: leave when everything is applied that was there.
        on_spark: see `ingest`.
    """

    def __init__(
        self, database: Database, path: str, names: Collection[str], once: bool, on_spark: bool
    ) -> None:
        self._database = database
        self._names = frozenset(fold(name) for name in names)
        self._once = once
        self._with_sinks = not names
        self._patience = _PATIENCE if on_spark else _STOPPING
        self._waiting: dict[tuple[bool, str], float] = {}
        self._goal = 0  # the epoch that sinks are to reach
        self._begin = time.monotonic()
        before = database.sources()
        if not before and not database.sinks() and not on_spark:
            raise InputError(NO_SOURCES.format(path=path))
        self._broken = self._broken_views().keys()
        self._letters = {source.name: source.dead_letters for source in before}
        if on_spark:
            self._names = frozenset(database.start_pipeline(sorted(self._names) or None))
        else:
            database.start_sources(sorted(self._names) or None)
        if self._with_sinks:
            database.start_sinks()

    def run(self, display: Display) -> int:
        """Shows what the sources and sinks do until the end.

        Returns:
            The exit code.
        """
        with Stop() as stop:
            with display:
                while True:
                    seen = self._look()
                    display.show(seen)
                    if self._is_over(seen) or stop.wait(_LOOKS):
                        break
            self._database.stop_sources(self._patience)
            self._database.stop_sinks()
            total = self._total(seen, stop.number)
            display.end(total)
            self._database.close()
        return total.code

    def _look(self) -> Seen:
        sources = self._database.sources()
        why = self._broken_views()
        broken = {name: why[name] for name in why.keys() - self._broken}
        if self._names:
            sources = [source for source in sources if source.name in self._names]
        return Seen(sources, self._database.sinks() if self._with_sinks else (), broken)

    def _broken_views(self) -> dict[str, str]:
        broken = {view.name: view.broken for view in self._database.views() if view.broken}
        return {name: f"the view {name!r} is broken: {why}" for name, why in broken.items()}

    def _is_over(self, seen: Seen) -> bool:
        sources = [source for source in seen.sources if runs(source)]
        sinks = [sink for sink in seen.sinks if runs(sink)]
        if not self._once:
            return not sources if seen.sources else not sinks
        if not all(source.has_caught_up or self._given_up(source) for source in sources):
            return False
        self._goal = self._goal or self._database.epoch
        return all(self._has_all(sink) or self._given_up(sink) for sink in sinks)

    def _has_all(self, sink: SinkInfo) -> bool:
        """Whether a sink has what was there when the sources had caught up."""
        return not sink.lag_epochs or sink.acknowledged >= self._goal

    def _given_up(self, job: SourceInfo | SinkInfo) -> bool:
        """Whether a source or sink has waited too long for the other system."""
        key = isinstance(job, SourceInfo), job.name
        if job.state not in ("waiting", "failing"):
            self._waiting.pop(key, None)
            return False
        return time.monotonic() - self._waiting.setdefault(key, time.monotonic()) > _PATIENCE

    def _total(self, seen: Seen, number: int | None) -> Total:
        """Sums up: what was seen last tells the states, and the database now tells the counts."""
        now = self._look()
        found = now.sources
        added = {source.name: source.dead_letters - self._letters[source.name] for source in found}
        failed = self._failed(seen, behind_too=self._once and number is None)
        jobs: list[SourceInfo | SinkInfo] = [*seen.sources, *seen.sinks]
        ran = any(runs(job) for job in jobs)
        if number is not None:
            ended, code = "stopped", 130 if number == signal.SIGINT else 0
        else:
            well = self._once and ran and not failed
            ended, code = ("caught up", 0) if well else ("failed", 1)
        return Total(
            ended=ended,
            code=code,
            events=sum(source.events for source in found),
            seconds=time.monotonic() - self._begin,
            broken=list(now.broken.values()),
            letters={name: count for name, count in added.items() if count > 0},
            failed=failed,
            resume=[] if ran or failed else [_resuming(job) for job in jobs],
        )

    def _failed(self, seen: Seen, *, behind_too: bool) -> list[str]:
        """Why sources and sinks have failed, those included that are behind if that is asked."""
        failed = [_why(source) for source in seen.sources if source.state in (STOPPED, NOT_STARTED)]
        if behind_too:
            late = [source for source in seen.sources if runs(source) and not source.has_caught_up]
            stuck = [sink for sink in seen.sinks if runs(sink) and not self._has_all(sink)]
            failed += [
                f"source {source.name!r} has not caught up: {source.reason}" for source in late
            ]
            failed += [f"sink {sink.name!r} has not caught up: {sink.reason}" for sink in stuck]
        return failed


def _why(source: SourceInfo) -> str:
    way = f"; {_resuming(source)} lets it go on" if source.state == STOPPED else ""
    return f"source {source.name!r} has stopped: {source.reason}{way}"


def _resuming(job: SourceInfo | SinkInfo) -> str:
    kind = "SOURCE" if isinstance(job, SourceInfo) else "SINK"
    return f"RESUME {kind} {quoted(job.name)}"
