"""Reads and decodes the next batch in a thread of its own while the one before is applied.

Contract: items come in order; at most one waits, and one more is being read, so memory is bounded.
An error of the reading thread is raised where its item would have come, and ends the reading.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_WAIT = 0.1  # seconds between looks at whether to stop


class ReadingAhead(Generic[T]):
    """Calls a function again and again; use it as a context manager.

    Args:
        read: returns the next item, within some 0.1 s, or raises.
        name: of the thread.
    """

    def __init__(self, read: Callable[[], T], name: str) -> None:
        self._read = read
        self._items: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(maxsize=1)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> ReadingAhead[T]:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        self._thread.join()

    def next(self, stopping: threading.Event) -> T | None:
        """The next item, or None as soon as `stopping` is set."""
        while not stopping.is_set():
            try:
                item, error = self._items.get(timeout=_WAIT)
            except queue.Empty:
                continue
            if error is not None:
                raise error
            return item
        return None

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                found: tuple[T | None, BaseException | None] = self._read(), None
            except BaseException as error:  # raised in the thread that waits for the item
                found = None, error
                self._stopping.set()
            self._put(found)

    def _put(self, found: tuple[T | None, BaseException | None]) -> None:
        while True:
            try:
                self._items.put(found, timeout=_WAIT)
                return
            except queue.Full:
                if self._stopping.is_set():
                    return
