"""Runs of large batches, sorted when they are first read, or in the background.

Law: a `LateRun` holds what `build_run` makes of its batch. Its rows are known by number at once, so
a spine takes it, and a merge of it with others may well come before the first reader.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from ivm.storage.arrangement.background import do_later
from ivm.storage.arrangement.build import build_run
from ivm.storage.arrangement.layout import Layout
from ivm.storage.arrangement.run import Run
from ivm.storage.values import thresholds
from ivm.storage.values.zset import ZSet


def new_run(layout: Layout, batch: ZSet) -> Run:
    """The run of a batch's rows."""
    if len(batch) < thresholds.LATE_ROWS or layout.order or not batch.weights.all():
        return build_run(layout, batch)
    run = LateRun(layout, batch)
    do_later(run.build, len(run))
    return run


class LateRun(Run):
    """A run that is not sorted yet.

    Args:
        layout: without an order.
        batch: no weight is zero, so that all rows are in the run.
    """

    __slots__ = ("_batch", "_building", "_count", "_layout")

    def __init__(self, layout: Layout, batch: ZSet) -> None:
        self._begin(len(batch))
        self.short = False  # so that no filter asks for its codes
        self._layout = layout
        self._batch: ZSet | None = batch
        self._count = len(batch)
        self._building = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Run, (self.codes, self.columns, self.weights)

    def __len__(self) -> int:
        return self._count

    def __getattr__(self, name: str) -> Any:
        # What is not sorted yet is not set, so reading it comes here, and only then.
        if name not in ("codes", "columns", "weights"):
            raise AttributeError(name)
        self._sort()
        return getattr(self, name)

    @property
    def nbytes(self) -> int:
        batch = self._batch
        return super().nbytes if batch is None else batch.nbytes

    def build(self) -> None:
        """Sorts the rows, where nobody waits for them."""
        with contextlib.suppress(MemoryError):  # then the first reader tries it
            self._sort()

    def _sort(self) -> None:
        with self._building:
            if self._batch is not None:
                run = build_run(self._layout, self._batch)
                self.columns, self.weights, self.codes = run.columns, run.weights, run.codes
                self._batch = None
