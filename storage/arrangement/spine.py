"""The spine: runs from the oldest to the newest, and the merges under way among them.

Invariant: where no merge is due or under way, a run is at least twice as long as the next newer
one, so their number is logarithmic; it never exceeds `MOST_RUNS`. Merges cover neighbouring runs
and do not overlap; their results may be adopted at any time, because they change no sum.

Contract: large runs are merged in the background, see `merger`. A merge that has not begun when a
further one of the same runs is due gives way to that one.
"""

from __future__ import annotations

from typing import NamedTuple

from ivm.storage.arrangement.build import merge_runs
from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.merger import MANY, Merge, schedule
from ivm.storage.arrangement.run import Run

GROWTH = 2
FOREGROUND_ROWS = 2048  # merges up to here are done at once
MOST_RUNS = 32


class Spine(NamedTuple):
    """Runs, and merges of some of them in the order of the runs."""

    runs: tuple[Run, ...] = ()
    merges: tuple[Merge, ...] = ()


def adopt(spine: Spine) -> Spine:
    """The spine with finished merges in the place of their runs.

    A merge that failed (out of memory) is forgotten: its runs stay, and are due again.
    """
    for merge in spine.merges:
        if merge.done:
            others = tuple([other for other in spine.merges if other is not merge])
            runs = spine.runs if merge.failed else _replaced(spine.runs, merge.runs, merge.result())
            spine = Spine(runs, others)
    return spine


def grow(layout: Layout, spine: Spine, run: Run) -> Spine:
    """The spine with a newer run; merges that have become due are done or scheduled."""
    if len(run) == 0:
        return spine
    spine, due = _next_merge(Spine((*spine.runs, run), spine.merges))
    if due:
        spine = _merge(layout, spine, due, FOREGROUND_ROWS)
    while len(spine.runs) > MOST_RUNS:
        spine = _catch_up(layout, spine)
    return spine


def _next_merge(spine: Spine) -> tuple[Spine, tuple[Run, ...]]:
    """The runs to be merged next, and the spine without a merge that gives way to that one."""
    free = spine.runs[_free_from(spine) :]
    if spine.merges and not spine.merges[-1].begun and len(spine.merges[-1].runs) < MANY:
        waiting, fewer = spine.merges[-1], Spine(spine.runs, spine.merges[:-1])
        due = _due(spine.runs[_free_from(fewer) :])
        if len(due) >= len(waiting.runs) + len(free):
            return fewer, due
    return spine, _due(free)


def _due(free: tuple[Run, ...]) -> tuple[Run, ...]:
    """The newest runs, as far as each is shorter than twice all newer ones together."""
    start, rows = len(free) - 1, len(free[-1])
    while start > 0 and len(free[start - 1]) < GROWTH * rows:
        start -= 1
        rows += len(free[start])
    return free[start:] if start < len(free) - 1 else ()


def _merge(layout: Layout, spine: Spine, due: tuple[Run, ...], at_once: int) -> Spine:
    """Merges neighbours at once if they have at most so many rows, else in the background."""
    oldest = due[0] is spine.runs[0]
    if sum([len(run) for run in due]) > at_once:
        return Spine(spine.runs, (*spine.merges, schedule(layout, due, oldest=oldest)))
    return Spine(_replaced(spine.runs, due, merge_runs(layout, due, oldest=oldest)), spine.merges)


def _catch_up(layout: Layout, spine: Spine) -> Spine:
    """Reduces the number of runs when the merging thread is behind: helps it, or waits for it."""
    free = spine.runs[_free_from(spine) :]
    if len(free) > 1:
        return _merge(layout, spine, free, sum([len(run) for run in free]))
    spine.merges[-1].result()
    return adopt(spine)


def _replaced(runs: tuple[Run, ...], old: tuple[Run, ...], new: Run) -> tuple[Run, ...]:
    at = _position(runs, old[0])
    return runs[:at] + ((new,) if len(new) else ()) + runs[at + len(old) :]


def _free_from(spine: Spine) -> int:
    """The position after the last run that is being merged."""
    return _position(spine.runs, spine.merges[-1].runs[-1]) + 1 if spine.merges else 0


def _position(runs: tuple[Run, ...], run: Run) -> int:
    return next(i for i, other in enumerate(runs) if other is run)
