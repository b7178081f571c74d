"""Changefeeds: the changes of one view, epoch by epoch, and the open feeds of all views.

Law: rows when the feed was opened + the deltas it yields = the view's rows now.
Contract: an epoch is yielded once it is durable, exactly once and in order: it leaves the queue
only after everything that can fail or be interrupted. A feed that is read too slowly fails alone,
at its limit; the writer never waits for it.
"""

from __future__ import annotations

import abc
import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Self, TypeVar
from weakref import ReferenceType, ref

import pyarrow as pa

from ivm.engine.feeds.plain_arrow import plain
from ivm.storage.errors import IvmError, UnavailableError
from ivm.storage.interrupts import Deferral
from ivm.storage.log.commit import Commit
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, add

T = TypeVar("T")
WEIGHT = "_weight"
"""The name of the weight column in a delta: positive for rows added, negative for rows removed."""
MOST_HELD = 4_000_000
"""Rows that a feed holds by default for its reader: some hundred megabytes."""


class Feed(Iterator[tuple[int, pa.Table]]):
    """What all changefeeds can do, once they can be polled and closed."""

    _closed = False

    @abc.abstractmethod
    def poll(self, timeout: float | None = None) -> tuple[int, pa.Table] | None:
        """The next (epoch, delta), or None if none comes in `timeout` seconds, or at the end."""

    def __next__(self) -> tuple[int, pa.Table]:
        item = self.poll()
        if item is None:
            raise StopIteration
        return item

    @property
    def closed(self) -> bool:
        """Whether it is closed, or its view dropped or replaced: the queued deltas are the last."""
        return self._closed

    @property
    @abc.abstractmethod
    def ended(self) -> bool:
        """Whether nothing comes any more: it is closed, and all that was queued has been read."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends the feed; queued deltas can still be read."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Subscription(Feed):
    """An iterator of (epoch, delta) that waits for the next change; ends when closed.

    A delta is an Arrow table of the view's columns and an int64 column `_weight`.

    Args:
        view: canonical name.
        schema: of the view.
        durable: waits until an epoch is durable.
        on_close: called when it is closed.
        limit: rows that may wait for its reader; a delta that finds none waiting may be larger.

    Attributes:
        latest: the last epoch in which the view has changed since the feed was opened; 0 for none.
    """

    def __init__(
        self,
        view: str,
        schema: Schema,
        durable: Callable[[int], None],
        on_close: Callable[[Subscription], None],
        limit: int = MOST_HELD,
    ) -> None:
        self.view = view
        self.latest = 0
        self._limit = limit
        self._rows_put = self._rows_read = 0  # the first only written by `put`, so without a lock
        self.schema = schema
        self._durable = durable
        self._on_close = on_close
        self._items: deque[tuple[int, ZSet] | IvmError] = deque()
        # Wakes a waiting reader, who looks at `_items`, and wakes another if something is left.
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._reader = threading.Lock()

    def put(self, epoch: int, delta: ZSet) -> None:
        """Queues one epoch's delta (called by the writer, in epoch order)."""
        self.latest = epoch
        held = self._rows_put - self._rows_read
        if held and held + len(delta) > self._limit:
            self._overflow(held, epoch)
            return
        self._rows_put += len(delta)
        self._items.append((epoch, delta))
        self._ring()

    def _overflow(self, held: int, epoch: int) -> None:
        """Ends the feed and frees its deltas."""
        error = UnavailableError(
            f"the changefeed of {self.view!r} was read too slowly: {held:,} rows waited when epoch "
            f"{epoch} came, and its limit is {self._limit:,}. Subscribe again, read faster, or let "
            "more rows wait: subscribe(view, limit=…)"
        )
        self._items = deque([error])  # a reader goes on with the queue that it has
        self.close()

    def fail(self, error: IvmError) -> None:
        """Ends the feed with an error: the view can no longer be computed."""
        self._items.append(error)
        self.close()

    def poll(self, timeout: float | None = None) -> tuple[int, pa.Table] | None:
        """The next (epoch, delta), or None if none comes within `timeout` seconds (or at the end).

        Raises:
            UnavailableError: see `take`.
            EvaluationError: see `take`.
        """
        return self._next(timeout, lambda delta: delta_table(delta, self.schema))

    def take(self, timeout: float | None = None) -> tuple[int, ZSet] | None:
        """The same as a Z-set.

        Raises:
            UnavailableError: the epoch could not be made durable; or the feed was read too slowly,
                and has ended.
            EvaluationError: the view's query fails on its tables; the feed has ended.
        """
        return self._next(timeout, lambda delta: delta)

    def _next(self, timeout: float | None, form: Callable[[ZSet], T]) -> tuple[int, T] | None:
        end = None if timeout is None else time.monotonic() + timeout
        try:
            while self._waited(end):
                with self._reader:
                    if self._items:  # else another thread has read it
                        return self._first(form)
            return None
        finally:
            if self._items or self._closed:  # for the others, whose bell this one may have taken
                self._ring()

    @property
    def ended(self) -> bool:
        # In this order: an item that is queued before the end is seen behind it.
        return self._closed and not self._items

    def _waited(self, end: float | None) -> bool:
        """Waits for an item; returns False at the end of the time or of the feed."""
        while not self._items:
            if self.ended:
                return False
            try:
                left = None if end is None else max(end - time.monotonic(), 0)
                self._bell.get(timeout=left)
            except queue.Empty:
                return False
        return True

    def _first(self, form: Callable[[ZSet], T]) -> tuple[int, T]:
        items = self._items
        item = items[0]
        if isinstance(item, IvmError):
            items.popleft()
            raise item
        epoch, delta = item
        with Deferral():
            self._durable(epoch)
            found = epoch, form(delta)
        self._rows_read += len(delta)
        items.popleft()
        return found

    def _ring(self) -> None:
        if self._bell.empty():
            self._bell.put(None)

    def close(self) -> None:
        """Ends the feed; queued deltas can still be read."""
        if not self._closed:
            self._closed = True
            self._on_close(self)
            self._ring()


def delta_table(delta: ZSet, schema: Schema) -> pa.Table:
    """The rows of a Z-set as an Arrow table with their weights in the column `_weight`."""
    return plain(delta.to_arrow(schema)).append_column(WEIGHT, pa.array(delta.weights))


class ChangeFeeds:
    """The open changefeeds by view; safe for any number of threads.

    Whoever notifies, fails or closes the feeds of a view holds the writer lock. A feed that nobody
    refers to any more is forgotten here, too: nobody can read it.
    """

    def __init__(self) -> None:
        # Replaced whole: it is read without the lock.
        self._by_view: Mapping[str, tuple[ReferenceType[Subscription], ...]] = {}
        self._lock = threading.Lock()
        self._gathered: dict[str, list[tuple[int, ZSet]]] | None = None

    @property
    def views(self) -> list[str]:
        """The names of the views with an open feed."""
        return [view for view in self._by_view if self._of(view)]

    def _of(self, view: str) -> list[Subscription]:
        """The open feeds of a view."""
        found = [reference() for reference in self._by_view.get(view, ())]
        return [feed for feed in found if feed is not None]

    def add(self, feed: Subscription) -> None:
        """Notifies a feed of its view's changes from now on."""
        with self._lock:
            self._replace(feed.view, [*self._of(feed.view), feed])

    def remove(self, feed: Subscription) -> None:
        """Ends the notifications of a feed."""
        with self._lock:
            self._replace(feed.view, [each for each in self._of(feed.view) if each is not feed])

    def _replace(self, view: str, feeds: list[Subscription]) -> None:
        """Gives a view other feeds, which a writer finds all at once; with the lock held."""
        others = {name: found for name, found in self._by_view.items() if name != view}
        self._by_view = others | ({view: tuple(map(ref, feeds))} if feeds else {})

    def gather(self) -> None:
        """Keeps what comes until `publish`, so that each feed gets an epoch as one delta.

        A commit changes a view above recomputed ones by its rows, and once more by theirs.
        """
        self._gathered = {}

    def publish(self) -> None:
        """Passes on what was gathered."""
        for view in list(self._gathered or ()):
            self._deliver(view)
        self._gathered = None

    def _deliver(self, view: str) -> None:
        found = self._gathered.pop(view, []) if self._gathered else []
        for epoch, items in itertools.groupby(found, key=lambda item: item[0]):
            self._put(view, epoch, [delta for _, delta in items])

    def follow(self, commit: Commit) -> None:
        """Passes a commit's deltas to the feeds of their views."""
        self.notify(commit.epoch, commit.deltas)

    def notify(self, epoch: int, deltas: Mapping[str, ZSet]) -> None:
        """Passes an epoch's deltas to the feeds of these views."""
        if self._by_view:
            for name, delta in deltas.items():
                if self._gathered is None:
                    self._put(name, epoch, [delta])
                elif name in self._by_view:
                    self._gathered.setdefault(name, []).append((epoch, delta))

    def _put(self, view: str, epoch: int, deltas: Sequence[ZSet]) -> None:
        for feed in self._of(view):
            total = deltas[0]
            if len(deltas) > 1:
                total = consolidate(add(deltas), [type for _, type in feed.schema])
            if len(total) or len(deltas) == 1:
                feed.put(epoch, total)

    def fail(self, view: str, error: IvmError) -> None:
        """Ends the view's feeds with an error: the view can no longer be computed."""
        self._deliver(view)
        for feed in self._of(view):
            feed.fail(error)

    def close(self, view: str) -> None:
        """Ends the view's feeds."""
        self._deliver(view)
        for feed in self._of(view):
            feed.close()
