"""Merges large runs in one background thread, so that no commit pays for them.

Invariant: a merge's result depends on its input runs alone; whoever holds the `Merge` adopts the
result in place of the runs whenever it likes. A merge that nobody holds any more is not done.
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
        """Do it, in the thread that calls."""
        try:
            merged = merge_runs(self._layout, self.runs)
            merged.prepare(self.runs)
            self._result = merged
        except BaseException as error:  # kept for the thread that asks for the result
            self._error = error
        finally:
            self._done.set()


_queue: queue.PriorityQueue[tuple[int, int, weakref.ref[Merge] | None]] = queue.PriorityQueue()
_turn = itertools.count()
_start = threading.Lock()
_thread: threading.Thread | None = None


def schedule(layout: Layout, runs: Sequence[Run]) -> Merge:
    """Merge the runs in the background, small merges before large ones."""
    merge = Merge(layout, runs)
    _queue.put((sum(len(run) for run in runs), next(_turn), weakref.ref(merge)))
    _ensure_thread()
    return merge


def _ensure_thread() -> None:
    global _thread
    with _start:
        if _thread is None or not _thread.is_alive():  # a forked child has no thread
            _thread = threading.Thread(target=_work, name="ivm-merger", daemon=True)
            _thread.start()
            atexit.register(_stop, _thread)


def _stop(thread: threading.Thread) -> None:
    """Let the thread end before the interpreter takes its modules apart."""
    _queue.put((-1, next(_turn), None))
    thread.join()


def _work() -> None:
    while True:
        _, _, reference = _queue.get()
        if reference is None:
            return
        merge = reference()
        if merge is not None:
            merge.perform()
        del merge  # or the thread itself would hold it while it waits
