"""The changes of one view, epoch by epoch, as a blocking iterator.

Law: the deltas a feed yields, added to the view's rows when it began, are the view's rows now; an
epoch is yielded only once it is durable, each exactly once and in order.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator

import pyarrow as pa

from ivm.plain_arrow import plain
from ivm.storage.errors import IvmError
from ivm.storage.types import Schema
from ivm.storage.zset import ZSet

WEIGHT = "_weight"
"""Name of the weight column in a delta: how often the row comes (positive) or goes (negative)."""


class Subscription(Iterator[tuple[int, pa.Table]]):
    """An iterator of (epoch, delta) that waits for the next change; ends when closed.

    A delta is an Arrow table of the view's columns and an int64 column `_weight`.
    """

    def __init__(
        self,
        view: str,
        schema: Schema,
        durable: Callable[[int], None],
        on_close: Callable[[Subscription], None],
    ) -> None:
        self.view = view
        self._schema = schema
        self._durable = durable
        self._on_close = on_close
        self._queue: queue.SimpleQueue[tuple[int, ZSet] | IvmError | None] = queue.SimpleQueue()
        self._closed = False

    def put(self, epoch: int, delta: ZSet) -> None:
        """Hand over one epoch's delta (called by the writer, in epoch order)."""
        self._queue.put((epoch, delta))

    def fail(self, error: IvmError) -> None:
        """The view can no longer be computed: the feed ends with this error."""
        self._queue.put(error)
        self.close()

    def poll(self, timeout: float | None = None) -> tuple[int, pa.Table] | None:
        """The next (epoch, delta), or None if none comes within `timeout` seconds (or at the end).

        Raises:
            UnavailableError: the epoch could not be made durable.
            EvaluationError: the view's query fails on its tables; the feed has ended.
        """
        if self._closed and self._queue.empty():
            return None
        try:
            item = self._queue.get(timeout=timeout)
        except queue.Empty:
            return None
        if item is None:
            return None
        if isinstance(item, IvmError):
            raise item
        epoch, delta = item
        self._durable(epoch)
        return epoch, delta_table(delta, self._schema)

    def __next__(self) -> tuple[int, pa.Table]:
        item = self.poll()
        if item is None:
            raise StopIteration
        return item

    def close(self) -> None:
        """End the feed; what is queued can still be read."""
        if not self._closed:
            self._closed = True
            self._on_close(self)
            self._queue.put(None)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def delta_table(delta: ZSet, schema: Schema) -> pa.Table:
    """A Z-set as an Arrow table with its weights in the column `_weight`."""
    return plain(delta.to_arrow(schema)).append_column(WEIGHT, pa.array(delta.weights))
