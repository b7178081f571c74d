"""Changefeeds of a served database, as their readers have them.

Law: as that of an open database; see `Following`. One that is forgotten leaves the server.
"""

from __future__ import annotations

import os
import queue
import time
import weakref

from ivm.client.following import PAUSE, Following, Item
from ivm.client.wire import Wire
from ivm.engine.feeds.changefeed import Feed
from ivm.storage.errors import IvmError, UnavailableError


class RemoteFeed(Feed):
    """An iterator of (epoch, delta) that waits for the next change; ends when closed.

    Args:
        wire: to the server.
        view: its name.
        snapshot: whether the first delta is the rows that the view has.

    Raises:
        IvmError: what the server tells.
    """

    def __init__(self, wire: Wire, view: str, *, snapshot: bool) -> None:
        self.view = view
        self._process = os.getpid()
        self._following = Following(wire, view, snapshot=snapshot)
        weakref.finalize(self, self._following.stop)

    def poll(self, timeout: float | None = None) -> Item | None:
        """The next (epoch, delta), or None if none comes within `timeout` seconds, or at the end.

        Raises:
            IvmError: the feed has ended with it.
        """
        if self._process != os.getpid():
            raise UnavailableError("a changefeed is not followed by a fork: subscribe in it anew")
        items = self._following.items
        end = None if timeout is None else time.monotonic() + timeout
        while not self.ended:
            left = PAUSE if end is None else min(max(end - time.monotonic(), 0), PAUSE)
            try:
                item = items.get(timeout=left) if left else items.get_nowait()
            except queue.Empty:
                if end is not None and time.monotonic() >= end:
                    return None
                continue
            if item is None or isinstance(item, IvmError):
                self.close()
                if item is not None:
                    raise item
                return None
            return item
        return None

    @property
    def closed(self) -> bool:
        return self._following.stopped

    @property
    def ended(self) -> bool:
        return self.closed and self._following.items.empty()

    def close(self) -> None:
        """Ends the feed; what has come can still be read."""
        self._following.stop()
