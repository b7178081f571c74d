"""`ivm backfill`: fills views on Spark, one after the other, with a bar for each.

Law: Ctrl-C and SIGTERM end it; what is done is kept, and the next run goes on from there.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from types import TracebackType

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ivm.backfill.progress import FillProgress
from ivm.database import Database
from ivm.shell.display.output import Output, standard_error, standard_output
from ivm.shell.stop import Stop
from ivm.sql.compile.explain_drawing import counted

Show = Callable[[str, FillProgress], None]


def backfill(database: Database, views: Sequence[str]) -> int:
    """Fills views and shows how far they are.

    Args:
        database: open.
        views: their names; all that are not filled if there are none.

    Returns:
        The exit code.

    Raises:
        IvmError: a fill has failed.
    """
    wanted = list(views) or database.unfilled_views()
    output = standard_output()
    if not wanted:
        output.line(
            "all views are filled: CREATE MATERIALIZED VIEW v WITH (backfill = 'spark') AS … "
            "makes one that Spark fills"
        )
        return 0
    plain = not output.is_terminal or os.environ.get("TERM") == "dumb"
    with Stop() as stop, _Lines(output) if plain else _Bars() as display:
        for view in wanted:
            try:
                database.backfill(view, on_progress=_watched(view, display.show, stop))
            except KeyboardInterrupt:
                break
            display.done(view)
    if stop.number is None:
        return 0
    database.stop_backfills()
    errors = standard_error()
    errors.line("stopped; what is done is kept: ivm backfill goes on from there")
    return 130 if stop.number == signal.SIGINT else 0


def _watched(view: str, show: Show, stop: Stop) -> Callable[[FillProgress], None]:
    def look(progress: FillProgress) -> None:
        show(view, progress)
        if stop.number is not None:
            raise KeyboardInterrupt

    return look


class _Lines:
    """A line whenever another stage or phase begins, for pipes and logs."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._last = ("", 0)

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def show(self, view: str, progress: FillProgress) -> None:
        now = (progress.phase, progress.stage)
        if now != self._last and progress.phase != "done":
            self._last = now
            self._output.line(f"{view}: {_words(progress)}")

    def done(self, view: str) -> None:
        self._output.line(f"{view}: filled")


class _Bars:
    """A bar for each view, on a terminal."""

    def __init__(self) -> None:
        columns = TextColumn("{task.fields[view]}"), BarColumn(), TextColumn("{task.description}")
        self._progress = Progress(*columns, TimeElapsedColumn())
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def show(self, view: str, progress: FillProgress) -> None:
        task = self._task(view)
        self._progress.update(task, completed=progress.fraction, description=_words(progress))

    def done(self, view: str) -> None:
        self._progress.update(self._task(view), completed=1.0, description="filled")

    def _task(self, view: str) -> TaskID:
        if view not in self._tasks:
            self._tasks[view] = self._progress.add_task("", total=1.0, view=view)
        return self._tasks[view]


def _words(progress: FillProgress) -> str:
    """The progress with the rows so far, and the size of their files."""
    size = f"{counted(progress.rows, 'row')}, {progress.bytes / 1e6:,.1f} MB"
    rows = f" · {size} so far" if progress.rows else ""
    label = f" · {progress.label}" if progress.phase == "stage" else ""
    return f"{progress.text()}{rows}{label}"
