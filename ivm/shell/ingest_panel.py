"""The live panel of `ivm ingest` on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import timedelta

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel as Frame
from rich.table import Table
from rich.text import Text

from ivm.cdc.run_sources import SourceInfo
from ivm.shell.ingest_display import Total, behind, end_lines
from ivm.shell.output import Output

_STYLES = {
    "running": "green",
    "starting": "dim",
    "waiting": "yellow",
    "paused": "dim",
    "stopped": "bold red",
    "not started": "bold red",
}
_WIDE, _NARROW = 90, 60  # columns of the terminal for all of the table, and for its half
_POSITION = 32  # characters


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
        self._live.stop()

    def show(self, sources: Sequence[SourceInfo]) -> None:
        """See `Display`."""
        width, seconds = self._live.console.width, time.monotonic() - self._begin
        self._live.update(drawn(self._title, sources, seconds, width), refresh=True)

    def end(self, total: Total) -> None:
        """See `Display`."""
        self._errors.lines(end_lines(total, self._errors))


def drawn(title: str, sources: Sequence[SourceInfo], seconds: float, width: int) -> RenderableType:
    """The panel of sources.

    Args:
        title: of the panel.
        sources: as they are now.
        seconds: since the beginning.
        width: of the terminal, in columns.
    """
    reasons = [
        Text(f"{source.name}: {source.reason}", style=_STYLES.get(source.state, ""))
        for source in sources
        if source.reason
    ]
    return Frame(
        Group(_table(sources, width), *reasons),
        title=Text(f"{title} · {timedelta(seconds=int(seconds))}"),
        subtitle=Text("Ctrl-C stops", style="dim"),
        box=box.ROUNDED,
    )


def _table(sources: Sequence[SourceInfo], width: int) -> Table:
    rows = [_cells(source) for source in sources]
    if len(sources) > 1:
        rows.append(_total(sources))
    table = Table(box=None, pad_edge=False, expand=width < _WIDE)
    for name in _columns(width):
        left = name in ("source", "state", "position")
        table.add_column(name, justify="left" if left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[name] for name in _columns(width)))
    return table


def _columns(width: int) -> list[str]:
    if width < _NARROW:
        return ["source", "state", "events"]
    names = ["source", "state", "events", "per s", "behind", "dead letters"]
    return names if width < _WIDE else [*names, "position"]


def _cells(source: SourceInfo) -> dict[str, Text]:
    return {
        "source": Text(source.name),
        "state": Text(source.state, style=_STYLES.get(source.state, "")),
        "events": Text(f"{source.events:,}"),
        "per s": Text(f"{source.events_per_second:,.0f}"),
        "behind": Text(behind(source)),
        "dead letters": Text(
            f"{source.dead_letters:,}", style="yellow" if source.dead_letters else ""
        ),
        "position": Text(_end_of(source.position), style="dim"),
    }


def _end_of(position: str) -> str:
    """The end of the positions, where files and offsets differ."""
    return position if len(position) <= _POSITION else "…" + position[1 - _POSITION :]


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
