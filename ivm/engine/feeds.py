"""Who listens to which view.

Law: a feed is told of every epoch that changes its view, in order, from the moment it is added,
whichever others come and go meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from ivm.engine.changefeed import Subscription
from ivm.storage.errors import IvmError
from ivm.storage.values.zset import ZSet


class Feeds:
    """The open changefeeds by view; safe for any number of threads."""

    def __init__(self) -> None:
        self._by_view: dict[str, tuple[Subscription, ...]] = {}
        self._lock = threading.Lock()

    @property
    def views(self) -> list[str]:
        """The views that somebody listens to."""
        with self._lock:
            return list(self._by_view)

    def add(self, feed: Subscription) -> None:
        """Tell the feed of its view's changes from now on."""
        with self._lock:
            self._by_view[feed.view] = (*self._by_view.get(feed.view, ()), feed)

    def remove(self, feed: Subscription) -> None:
        """Forget a feed."""
        with self._lock:
            feeds = tuple(f for f in self._by_view.pop(feed.view, ()) if f is not feed)
            if feeds:
                self._by_view[feed.view] = feeds

    def tell(self, epoch: int, deltas: Mapping[str, ZSet]) -> None:
        """Hand an epoch's deltas to the feeds of these views."""
        if self._by_view:
            for name, delta in deltas.items():
                for feed in self._by_view.get(name, ()):
                    feed.put(epoch, delta)

    def fail(self, view: str, error: IvmError) -> None:
        """The view can no longer be computed: its feeds end with the error."""
        for feed in self._by_view.get(view, ()):
            feed.fail(error)

    def close(self, view: str) -> None:
        """End the view's feeds."""
        for feed in self._by_view.get(view, ()):
            feed.close()
