"""The results of one session: the one whose rows its cursor gives, and those that are in memory.

Law: a result that somebody may still read keeps its rows; of one that nobody can read none are
computed.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable

import duckdb

from ivm.session.results.result import Result
from ivm.storage.errors import IvmError

OnEnd = Callable[[IvmError | None], None]


class OpenResults:
    """Frees the cursor of a session for its next statement.

    Attributes:
        in_batches: whether results are read by `Result.batch`, as a server does. What nobody holds
            any more is let go then, not read into memory.
        most_held: bytes of results that are read into memory, together; 0: no limit.
        opened: tells the result whose rows the cursor gives, or None for a forgotten one; None if
            there is no such result.
    """

    def __init__(self) -> None:
        self.in_batches = False
        self.most_held = 0
        self.opened: Callable[[], Result | None] | None = None
        self._on_end: OnEnd | None = None  # of the open result
        self._held: weakref.WeakSet[Result] = weakref.WeakSet()

    @property
    def room(self) -> int:
        """The bytes that the next result may take in memory; 0: any number."""
        held = sum(result.held_bytes for result in self._held) if self._held else 0
        return max(self.most_held - held, 1) if self.most_held else 0

    def ending(self, on_end: OnEnd) -> OnEnd:
        """What is called at the end of the result that is opened next.

        Args:
            on_end: called by it.
        """

        def ended(error: IvmError | None) -> None:
            self._on_end = None
            on_end(error)

        self._on_end = ended
        return ended

    def open(self, result: Result) -> None:
        """A result has been opened; it is referred to where its program may forget it unread."""
        self.opened = weakref.ref(result) if self.in_batches else lambda: result

    def release(self, *, keeping: bool = True) -> None:
        """Frees the cursor.

        Args:
            keeping: whether the rows that an open result has not yet read are read into memory.
        """
        if self.opened is None:
            return
        opened, self.opened = self.opened(), None
        if opened is None:
            self._forget()
        elif keeping:
            opened.detach()
            if self.most_held:
                self._held.add(opened)
        else:
            opened.let_go()

    def _forget(self) -> None:
        """Ends a result that nobody holds any more, and nobody will read."""
        if self._on_end is not None:
            with contextlib.suppress(duckdb.Error):  # there is nobody to be told
                self._on_end(None)
