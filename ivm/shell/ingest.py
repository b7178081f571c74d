"""`ivm ingest`: runs sources until they are caught up, somebody stops it, or none runs any more.

Law: Ctrl-C and SIGTERM end it after the batches under way, a second one at once; whatever ends it,
nothing is lost or doubled, since each source goes on from the position of its last commit.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from ivm.cdc.progress import NOT_STARTED
from ivm.cdc.run_sources import SourceInfo
from ivm.cdc.stored_sources import PAUSED, STOPPED
from ivm.database import Database
from ivm.shell.ingest_display import Display, Lines, Total
from ivm.shell.output import standard_error, standard_output
from ivm.sql.compile.explain_drawing import counted
from ivm.storage.errors import InputError
from ivm.storage.identifiers import fold

_LOOKS = 0.2  # seconds between two looks at the sources
_PATIENCE = 30.0  # seconds after which --once gives an upstream up that does not answer

NO_SOURCES = """there are no sources in {path} yet. A source is created once:
  ivm -c "CREATE SOURCE clicks INTO clicks FROM FILES (path 'inbox/*.jsonl', format 'json')" {path}
Then ivm ingest {path} runs it"""


class Stop:
    """The first SIGINT or SIGTERM asks to stop, a second one ends the process.

    Attributes:
        number: of the signal that has come; None before.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._came = threading.Event()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as in a script's background
                self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self, seconds: float) -> bool:
        """Waits for a signal; returns whether one has come."""
        return self._came.wait(seconds)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        for each in self._before:
            signal.signal(each, signal.SIG_DFL)
        self._came.set()


def ingest(
    database: Database, path: str, names: Sequence[str], *, once: bool, as_json: bool
) -> int:
    """Runs sources, and shows on standard output what they do.

    Args:
        database: open.
        path: by which it was opened.
        names: of the sources to run; all if there are none.
        once: leave when everything is applied that was there.
        as_json: print lines of JSON.

    Returns:
        The exit code.

    Raises:
        IvmError: there are no sources, or none of one of the names.
    """
    ingestion = Ingestion(database, path, names, once)
    output, errors = standard_output(), standard_error()
    if as_json or not output.is_terminal or os.environ.get("TERM") == "dumb":
        return ingestion.run(Lines(output, errors, as_json))
    from ivm.shell.ingest_panel import Panel  # rich takes a moment to load

    title = " · ".join([Path(path).name, counted(len(database.views()), "view")])
    return ingestion.run(Panel(title, errors, colours=output.paint.on))


class Ingestion:
    """The sources of a database while they are run by the command line.

    Args:
        database: open.
        path: by which it was opened.
        names: of the sources to run; all if there are none.
        once: leave when everything is applied that was there.
    """

    def __init__(self, database: Database, path: str, names: Collection[str], once: bool) -> None:
        self._database = database
        self._names = frozenset(fold(name) for name in names)
        self._once = once
        self._waiting: dict[str, float] = {}
        self._begin = time.monotonic()
        before = database.sources()
        if not before:
            raise InputError(NO_SOURCES.format(path=path))
        database.start_sources(sorted(self._names) or None)
        self._letters = {info.name: info.dead_letters for info in before}

    def run(self, display: Display) -> int:
        """Shows what the sources do until the end.

        Returns:
            The exit code.
        """
        with Stop() as stop:
            with display:
                while True:
                    found = self._sources()
                    display.show(found)
                    if self._is_over(found) or stop.wait(_LOOKS):
                        break
            self._database.stop_sources()
            total = self._total(found, stop.number)
            display.end(total)
            self._database.close()
        return total.code

    def _sources(self) -> list[SourceInfo]:
        found = self._database.sources()
        return [info for info in found if not self._names or info.name in self._names]

    def _is_over(self, found: Sequence[SourceInfo]) -> bool:
        running = [info for info in found if _runs(info)]
        if not self._once:
            return not running
        return all(info.has_caught_up or self._given_up(info) for info in running)

    def _given_up(self, info: SourceInfo) -> bool:
        """Whether a source has waited too long for its upstream."""
        if info.state != "waiting":
            self._waiting.pop(info.name, None)
            return False
        since = self._waiting.setdefault(info.name, time.monotonic())
        return time.monotonic() - since > _PATIENCE

    def _total(self, seen: Sequence[SourceInfo], number: int | None) -> Total:
        """Sums up: what was seen last tells the states, and the database now tells the counts."""
        found = self._sources()
        added = {info.name: info.dead_letters - self._letters.get(info.name, 0) for info in found}
        failed = [info for info in seen if info.state in (STOPPED, NOT_STARTED)]
        if number is None and self._once:
            failed += [info for info in seen if _runs(info) and not info.has_caught_up]
        if number is not None:
            ended, code = "stopped", 130 if number == signal.SIGINT else 0
        elif self._once and not failed and any(map(_runs, seen)):
            ended, code = "caught up", 0
        else:
            ended, code = "failed", 1
        return Total(
            ended=ended,
            code=code,
            events=sum(info.events for info in found),
            seconds=time.monotonic() - self._begin,
            letters={name: count for name, count in added.items() if count > 0},
            failed=failed,
            paused=[info.name for info in seen if info.state == PAUSED],
        )


def _runs(info: SourceInfo) -> bool:
    return info.state not in (PAUSED, STOPPED, NOT_STARTED)
