"""Merges of runs in background threads, so that no commit pays for them.

Contract: a merge's result depends on its input runs alone, and the holder of the `Merge` may adopt
it in place of the runs at any time. A merge that has no holder any more is not done. Long merges
have a thread of their own: a short one that waited for them would leave many runs to look into.

A long merge takes half of the machine, and a later one of more runs less than several of few: so it
waits as long as further ones come, but not longer than `MOST_AGE` or for more than `MANY` runs.
"""

from __future__ import annotations

import atexit
import heapq
import itertools
import threading
import time
import weakref
from collections.abc import Sequence

from ivm.storage.arrangement.build import merge_runs
from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.run import Run

LONG_ROWS = 200_000
"""The rows from which on a merge is long: it takes some 50 ms."""
MANY = 8
"""Runs from which on a merge waits for no more."""
PAUSE = 0.05  # seconds without a further long merge after which no writer is at work
MOST_AGE = 1.0  # seconds


class Merge:
    """A merge under way.

    Attributes:
        runs: the runs to be merged, which stand side by side in the arrangement.
        begun: whether a thread has begun with it.
    """

    __slots__ = ("__weakref__", "_begin", "_done", "_error", "_layout", "_result", "begun", "runs")

    def __init__(self, layout: Layout, runs: Sequence[Run]) -> None:
        self._layout = layout
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
        pause: seconds without a further merge for which those that can wait do.
    """

    def __init__(self, name: str, pause: float) -> None:
        self._name = name
        self._pause = pause
        self._waiting: list[tuple[int, int, weakref.ref[Merge]]] = []
        self._turn = itertools.count()
        self._latest = self._due = 0.0  # when those that wait are done, at the latest and if quiet
        self._changed = threading.Condition()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def put(self, merge: Merge, rows: int) -> None:
        """Takes a merge of so many rows."""
        with self._changed:
            now = time.monotonic()
            if len(merge.runs) >= MANY:
                self._latest = now
            elif not self._waiting:
                self._latest = now + MOST_AGE
            heapq.heappush(self._waiting, (rows, next(self._turn), weakref.ref(merge)))
            self._due = min(now + self._pause, self._latest)
            self._changed.notify()
            if self._thread is None or not self._thread.is_alive():  # a forked child has no thread
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
                atexit.register(self._stop, self._thread)

    def _stop(self, thread: threading.Thread) -> None:
        """Ends the thread before the interpreter unloads its modules."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        thread.join()

    def _work(self) -> None:
        while (reference := self._next()) is not None:
            merge = reference()
            if merge is not None:
                merge.perform()
            del merge  # or the thread itself would hold it while it waits

    def _next(self) -> weakref.ref[Merge] | None:
        """The next merge once it is due; None at the end."""
        with self._changed:
            while not self._stopped:
                left = self._due - time.monotonic()
                if self._waiting and left <= 0:
                    return heapq.heappop(self._waiting)[2]
                self._changed.wait(left if self._waiting else None)
        return None


_short, _long = Merger("ivm-merger", 0), Merger("ivm-long-merger", PAUSE)


def schedule(layout: Layout, runs: Sequence[Run]) -> Merge:
    """Merges the runs in the background."""
    merge, rows = Merge(layout, runs), sum([len(run) for run in runs])
    (_short if rows < LONG_ROWS else _long).put(merge, rows)
    return merge
