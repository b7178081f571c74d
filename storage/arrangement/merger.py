"""Merges of runs in the background, so that no commit pays for them.

Contract: a merge's result depends on its input runs alone, and the holder of the `Merge` may adopt
it in place of the runs at any time. A merge that has no holder any more is not done. A long one
waits for further runs, as a later merge of more runs is less work than several of few; but not for
more than `MANY`. See `background`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ivm.storage.arrangement.background import do_aside
from ivm.storage.arrangement.build import merge_runs
from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.run import Run

MANY = 8
"""Runs from which on a merge waits for no more."""


class Merge:
    """A merge under way.

    Args:
        layout: of the runs.
        oldest: as of `merge_runs`.

    Attributes:
        runs: the runs to be merged, which stand side by side in the arrangement.
        begun: whether a thread has begun with it.
    """

    __slots__ = (
        "__weakref__", "_begin", "_done", "_error", "_layout", "_oldest", "_result", "begun",
        "runs",
    )  # fmt: skip

    def __init__(self, layout: Layout, runs: Sequence[Run], *, oldest: bool = False) -> None:
        self._layout = layout
        self._oldest = oldest
        self.runs = tuple(runs)
        self.begun = False
        self._begin = threading.Lock()
        self._done = threading.Event()
        self._result: Run | None = None
        self._error: BaseException | None = None

    @property
    def done(self) -> bool:
        return self._done.is_set()

    @property
    def failed(self) -> bool:
        return self._error is not None

    def result(self) -> Run:
        """The merged run: merges if no thread has begun, else waits for it.

        Raises what the merge raised (out of memory).
        """
        self.perform()
        self._done.wait()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def perform(self) -> None:
        """Merges, in the thread that calls, unless another one has begun."""
        with self._begin:
            if self.begun:
                return
            self.begun = True
        try:
            merged = merge_runs(self._layout, self.runs, oldest=self._oldest)
            merged.prepare(self.runs)
            self._result = merged
        except BaseException as error:  # kept for the thread that asks for the result
            self._error = error
        finally:
            self._done.set()


def schedule(layout: Layout, runs: Sequence[Run], *, oldest: bool = False) -> Merge:
    """Merges the runs in the background; `oldest` as of `merge_runs`."""
    merge, rows = Merge(layout, runs, oldest=oldest), sum([len(run) for run in runs])
    do_aside(merge.perform, rows, urgent=len(runs) >= MANY)
    return merge
