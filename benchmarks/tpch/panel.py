"""The demo's display: a live panel on a terminal, a line every two seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

LINE_EVERY = 2.0
REDRAW_EVERY = 0.2


@dataclass
class ViewTimes:
    """What is known of one view's speed, in seconds."""

    name: str
    strategy: str
    recompute: float
    reads: list[float] = field(default_factory=list)

    @property
    def fresh(self) -> float:
        """Median time of a read that includes bringing the view up to date."""
        return float(np.median(self.reads)) if self.reads else float("nan")


@dataclass
class Tally:
    """All that the demo has measured so far; times in seconds."""

    views: list[ViewTimes]
    started: float = field(default_factory=time.perf_counter)
    commits: list[float] = field(default_factory=list)
    single: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    changes: int = 0

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.started

    def committed(self, seconds: float, changes: int, entities: int) -> None:
        """Count a commit; those of a single order or line are also kept apart."""
        self.commits.append(seconds)
        self.changes += changes
        if entities == 1:
            self.single.append(seconds)

    def read(self, view: ViewTimes, seconds: float) -> None:
        """Count a read of a view."""
        self.reads.append(seconds)
        view.reads.append(seconds)


def milliseconds(seconds: float) -> str:
    """In ms, three digits or more."""
    value = seconds * 1e3
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def percentiles(times: Iterable[float]) -> str:
    """p50 / p99 in ms."""
    values = list(times)
    if not values:
        return "–"
    p50, p99 = np.percentile(values, [50, 99])
    return f"{milliseconds(p50)} / {milliseconds(p99)}"


def speed_line(tally: Tally) -> str:
    """The tally in one line."""
    elapsed = max(tally.elapsed, 1e-9)
    return (
        f"{elapsed:5.1f} s · {len(tally.commits) / elapsed:,.0f} commits/s · "
        f"{tally.changes / elapsed:,.0f} changes/s · "
        f"commit p50/p99 {percentiles(tally.commits)} (of one order or price: "
        f"{percentiles(tally.single)}) · read p50/p99 {percentiles(tally.reads)}"
    )


def view_table(tally: Tally) -> Table:
    """A row for each view: the median fresh read against DuckDB's recompute."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("view", no_wrap=True)
    table.add_column("maintained by")
    for head in ("fresh read", "recompute", "ratio"):
        table.add_column(head, justify="right")
    for view in tally.views:
        ratio = f"{view.recompute / view.fresh:.1f} ×" if view.reads else "–"
        fresh = milliseconds(view.fresh) if view.reads else "–"
        table.add_row(view.name, view.strategy, fresh, milliseconds(view.recompute), ratio)
    return table


class Panel:
    """Shows a tally while it grows; a context manager.

    Args:
        console: where to; a live panel if it is a terminal.
        tally: what to show.
    """

    def __init__(self, console: Console, tally: Tally) -> None:
        self._console = console
        self._tally = tally
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._last = 0.0

    def __enter__(self) -> Panel:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self) -> None:
        """Show the tally if it is time to."""
        now = time.perf_counter()
        if now - self._last < (LINE_EVERY if self._live is None else REDRAW_EVERY):
            return
        self._last = now
        if self._live is None:
            self._console.print(speed_line(self._tally), soft_wrap=True)
        else:
            parts = Group(Text(speed_line(self._tally)), view_table(self._tally))
            self._live.update(parts, refresh=True)
