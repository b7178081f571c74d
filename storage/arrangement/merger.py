"""Merges of runs in background threads, so that no commit pays for them.

Contract: a merge's result depends on its input runs alone, and the holder of the `Merge` may adopt
it in place of the runs at any time. A merge that has no holder any more is not done. Long merges
have a thread of their own: a short one that waited for them would leave many runs to look into.
"""

from __future__ import annotations

import atexit
import itertools
import queue
import threading
import weakref
from collections.abc import Sequence

from ivm.storage.arrangement.build import merge_runs
from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.run import Run

LONG_ROWS = 200_000
"""The rows from which on a merge is long: it takes some 50 ms."""


class Merge:
    """A merge under way.

    Attributes:
        runs: the runs to be merged, which stand side by side in the arrangement.
    """

    __slots__ = ("__weakref__", "_done", "_error", "_layout", "_result", "runs")

    def __init__(self, layout: Layout, runs: Sequence[Run]) -> None:
        self._layout = layout
        self.runs = tuple(runs)
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
        """The merged run; waits for it. Raises what the merge raised (out of memory)."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def perform(self) -> None:
        """Merges, in the thread that calls."""
        try:
            merged = merge_runs(self._layout, self.runs)
            merged.prepare(self.runs)
            self._result = merged
        except BaseException as error:  # kept for the thread that asks for the result
            self._error = error
        finally:
            self._done.set()


class Merger:
    """A thread that merges, shorter merges first; it begins with the first one.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.PriorityQueue[tuple[int, int, weakref.ref[Merge] | None]] = (
            queue.PriorityQueue()
        )
        self._turn = itertools.count()
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None

    def put(self, merge: Merge, rows: int) -> None:
        """Takes a merge of so many rows."""
        self._queue.put((rows, next(self._turn), weakref.ref(merge)))
        with self._start:
            if self._thread is None or not self._thread.is_alive():  # a forked child has no thread
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
                atexit.register(self._stop, self._thread)

    def _stop(self, thread: threading.Thread) -> None:
        """Ends the thread before the interpreter unloads its modules."""
        self._queue.put((-1, next(self._turn), None))
        thread.join()

    def _work(self) -> None:
        while True:
            _, _, reference = self._queue.get()
            if reference is None:
                return
            merge = reference()
            if merge is not None:
                merge.perform()
            del merge  # or the thread itself would hold it while it waits


_short, _long = Merger("ivm-merger"), Merger("ivm-long-merger")


def schedule(layout: Layout, runs: Sequence[Run]) -> Merge:
    """Merges the runs in the background."""
    merge, rows = Merge(layout, runs), sum([len(run) for run in runs])
    (_short if rows < LONG_ROWS else _long).put(merge, rows)
    return merge
