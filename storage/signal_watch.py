"""Signals are seen by a thread at once, also while the main thread is long in a library.

Law: the interpreter runs the handler of a signal in the main thread, between two steps of Python.
DuckDB lets it do so between two of its tasks, of which one may take hours. But the interpreter
writes the number of each signal to a descriptor at once, and a thread can wait for that.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

_NONE = -1  # where a descriptor stands
_MARK = b"\0"  # is the number of no signal
_PATIENCE = 1.0  # seconds: the thread is gone when the interpreter ends


class SignalWatch:
    """Calls a function in its own thread when signals come, while it is on.

    Args:
        struck: takes the numbers of the signals.
    """

    def __init__(self, struck: Callable[[bytes], None]) -> None:
        self._struck = struck
        self._writer = _NONE
        self._told = threading.Event()

    def turn_on(self) -> bool:
        """Watches from here on, called by the main thread.

        Returns:
            False if that cannot be: others watch, as an event loop does, or the process ends.
        """
        try:
            if self._writer == _NONE:
                self._writer = self._begin()
            other = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        except (OSError, RuntimeError, ValueError):  # no descriptors or threads, or no main thread
            return False
        if other not in (_NONE, self._writer):
            signal.set_wakeup_fd(other)
            return False
        return True

    def turn_off(self, *, has_struck: bool) -> None:
        """Watches no longer.

        Args:
            has_struck: waits until the thread has told the signals that came.
        """
        self._unset()
        if has_struck:
            self._told.clear()
            os.write(self._writer, _MARK)
            self._told.wait(_PATIENCE)

    def leave_to_parent(self) -> None:
        """Lets a forked child have its own, as the thread and what it reads are its parent's."""
        if self._writer != _NONE:
            self._unset()
            os.close(self._writer)
            self._writer = _NONE

    def _unset(self) -> None:
        other = signal.set_wakeup_fd(_NONE)
        if other not in (_NONE, self._writer):  # others watch since
            signal.set_wakeup_fd(other)

    def _begin(self) -> int:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        thread = threading.Thread(
            target=self._read, args=(reader,), daemon=True, name="ivm-signals"
        )
        thread.start()
        return writer

    def _read(self, reader: int) -> None:
        while numbers := os.read(reader, 64):
            self._struck(numbers)
            if _MARK in numbers:
                self._told.set()
