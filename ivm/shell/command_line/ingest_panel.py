"""The live panel of `ivm ingest` on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Literal

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel as Frame
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ivm.cdc.run_sources import SourceInfo
from ivm.cdc.sinks.run_sinks import SinkInfo
from ivm.shell.display.output import Output
from ivm.shell.ingest_display import Seen, Total, behind, done, end_lines, percent, waits

_STYLES = {
    "running": "green",
    "starting": "dim",
    "waiting": "yellow",
    "failing": "yellow",
    "paused": "dim",
    "stopped": "bold red",
    "not started": "bold red",
}
_NUMBERS = {"events", "per s", "behind", "dead letters"}
_WIDE, _NARROW = 100, 60  # columns of the terminal for all of the table, and for its half
_OTHERS = 72  # columns of a wide terminal that are not for the position


class Panel:
    """A panel that is drawn again and again; see `Display`.

    Args:
        title: of the panel.
        errors: for what is said at the end.
        colours: whether the terminal shows them.
    """

    def __init__(self, title: str, errors: Output, *, colours: bool) -> None:
        self._title = title
        self._errors = errors
        self._begin = time.monotonic()
        console = Console(file=sys.stdout, no_color=not colours, highlight=False)
        self._live = Live(console=console, auto_refresh=False, redirect_stderr=False)

    def __enter__(self) -> Panel:
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(OSError):  # the terminal is gone, and the work goes on
            self._live.stop()

    def show(self, seen: Seen) -> None:
        """See `Display`."""
        width, seconds = self._live.console.width, time.monotonic() - self._begin
        with suppress(OSError):  # as above
            self._live.update(drawn(self._title, seen, seconds, width), refresh=True)

    def end(self, total: Total) -> None:
        """See `Display`."""
        self._errors.lines(end_lines(total, self._errors))


def drawn(title: str, seen: Seen, seconds: float, width: int) -> RenderableType:
    """The panel of sources and sinks.

    Args:
        title: of the panel.
        seen: what they do now.
        seconds: since the beginning.
        width: of the terminal, in columns.
    """
    jobs: list[SourceInfo | SinkInfo] = [*seen.sources, *seen.sinks]
    reasons = [Text(f"{j.name}: {j.reason}", style=_STYLES[j.state]) for j in jobs if j.reason]
    reasons += [Text(f"{name}: a broken view", style="bold red") for name in seen.broken]
    parts: list[RenderableType] = [_sources(seen.sources, width)] if seen.sources else []
    if seen.sinks:
        parts.append(_table(("sink", "state", "view", "behind"), map(_sink, seen.sinks), width))
    return Frame(
        Group(*parts, *_bars(seen.sources, width), *reasons),
        title=Text(f"{title} · {timedelta(seconds=int(seconds))}"),
        subtitle=Text("Ctrl-C stops", style="dim"),
        box=box.ROUNDED,
    )


def _bars(sources: Sequence[SourceInfo], width: int) -> list[Table]:
    """How far the sources are that have not caught up yet."""
    bars = Table.grid(padding=(0, 1))
    for source in sources:
        share = done(source)
        if share is not None:
            bar = ProgressBar(total=1.0, completed=share, width=width // 3)
            bars.add_row(Text(source.name), bar, Text(percent(share)))
    return [bars] if bars.row_count else []


def _sources(sources: Sequence[SourceInfo], width: int) -> Table:
    rows = [_source(source, max(width - _OTHERS, 0)) for source in sources]
    if len(sources) > 1:
        rows.append(_total(sources))
    return _table(_columns(width), rows, width)


def _table(names: Sequence[str], rows: Iterable[dict[str, Text]], width: int) -> Table:
    table = Table(box=None, pad_edge=False, expand=width < _WIDE)
    for name in names:
        justify: Literal["left", "right"] = "right" if name in _NUMBERS else "left"
        table.add_column(name, justify=justify, no_wrap=True)
    for row in rows:
        table.add_row(*(row[name] for name in names))
    return table


def _columns(width: int) -> list[str]:
    if width < _NARROW:
        return ["source", "state", "events"]
    names = ["source", "state", "events", "per s", "behind", "dead letters"]
    return names if width < _WIDE else [*names, "position"]


def _source(source: SourceInfo, room: int) -> dict[str, Text]:
    return {
        "source": Text(source.name),
        "state": Text(source.state, style=_STYLES[source.state]),
        "events": Text(f"{source.events:,}"),
        "per s": Text(f"{source.events_per_second:,.0f}"),
        "behind": Text(behind(source)),
        "dead letters": Text(
            f"{source.dead_letters:,}", style="yellow" if source.dead_letters else ""
        ),
        "position": Text(_end_of(source.position, room), style="dim"),
    }


def _sink(sink: SinkInfo) -> dict[str, Text]:
    return {
        "sink": Text(sink.name),
        "state": Text(sink.state, style=_STYLES[sink.state]),
        "view": Text(sink.view),
        "behind": Text(waits(sink)),
    }


def _end_of(position: str, room: int) -> str:
    """The end of the positions, where files and offsets differ."""
    return position if len(position) <= room else "…" + position[len(position) - room + 1 :]


def _total(sources: Sequence[SourceInfo]) -> dict[str, Text]:
    lags = [source.lag_events for source in sources]
    known = [lag for lag in lags if lag is not None]
    return {
        "source": Text("total", style="bold"),
        "state": Text(""),
        "events": Text(f"{sum(source.events for source in sources):,}", style="bold"),
        "per s": Text(f"{sum(source.events_per_second for source in sources):,.0f}"),
        "behind": Text(f"{sum(known):,}" if len(known) == len(lags) else "?"),
        "dead letters": Text(f"{sum(source.dead_letters for source in sources):,}"),
        "position": Text(""),
    }
