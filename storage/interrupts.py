"""Signals wait until the outcome of a call is decided.

Contract: while the main thread is in a call, the handler of a signal runs as usual, but its
exception (KeyboardInterrupt, as a rule) is held back. It ends the statement that DuckDB runs for
the user, or is raised where nothing has been decided yet (`check`), or else by the end of the call;
and it carries a note on the outcome of the statement. So no commit, no flush and no lock is ever
cut. Signals reach Python in the main thread alone: calls in other threads need no protection. A
`Cancellable` call of another thread is ended from outside at the same points.

Where Ctrl-C has Python's own handler, which will raise KeyboardInterrupt, DuckDB is interrupted
before the handler can run (see `signal_watch`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from threading import get_ident
from types import FrameType
from typing import Any

import duckdb

from ivm.storage.signal_watch import SignalWatch

NOTHING = "The statement has changed nothing."
"""The note on a signal's exception in a call, unless `record_outcome` has recorded an outcome."""

_SIGNALS = tuple(
    int(getattr(signal, name))
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP")
    if hasattr(signal, name)
)
# Python's own wrappers of these turn numbers into enums and back, which takes many times as long.
_calls: Any = sys.modules.get("_signal", signal)
_get, _set = _calls.getsignal, _calls.signal
_main = threading.main_thread().ident

_handlers: dict[int, Any] = {}  # the user's, while `_held` stands in their place
_current: Deferral | None = None
_striking = threading.RLock()  # held while a call ends or is sheltered, or DuckDB is interrupted
_cancellable: dict[int, Deferral] = {}  # the calls of other threads that can be cancelled


class Deferral:
    """A call during which signals wait; within another one it does nothing.

    Attributes:
        cursor: runs the user's statement, and is interrupted by a signal.
    """

    __slots__ = ("_outcome", "_sheltered", "_thrown", "_waiting", "_watched", "cursor")

    def __init__(self) -> None:
        self.cursor: duckdb.DuckDBPyConnection | None = None
        self._outcome = NOTHING
        self._sheltered = self._thrown = self._watched = False
        self._waiting: BaseException | None = None

    def __enter__(self) -> Deferral:
        if _current is None and get_ident() == _main:
            _begin(self)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if _current is not self:
            return
        try:
            _end()
        except BaseException as late:  # a signal came while the handlers were put back
            self._waiting = self._waiting or late
        if self._waiting is not None:
            raised, self._waiting = self._waiting, None
            raised.add_note(self._outcome)
            if raised is not error:
                raise raised from error

    @property
    def is_too_late(self) -> bool:
        """Whether the outcome is one that an exception would hide from the caller."""
        return False

    def take(self, raised: BaseException) -> None:
        """Holds back an exception of a handler, and ends the statement that DuckDB runs."""
        self._waiting = self._waiting or raised
        self.interrupt()

    def interrupt(self) -> None:
        """Ends the statement that DuckDB runs, unless it must run to its end."""
        if self.cursor is not None and not self._sheltered and not self.is_too_late:
            with contextlib.suppress(duckdb.Error):  # it is closed
                self.cursor.interrupt()


class Cancellable(Deferral):
    """A call of a thread that is not the main one, which any thread can cancel with `take`.

    Contract: what is cancelled has changed nothing. A call whose outcome was decided before ends as
    if nobody had cancelled it.
    """

    __slots__ = ()

    def __enter__(self) -> Cancellable:
        _cancellable[get_ident()] = self
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        del _cancellable[get_ident()]

    @property
    def is_too_late(self) -> bool:
        """See `Deferral`."""
        return self._outcome is not NOTHING

    @property
    def reason(self) -> BaseException | None:
        """What `take` was called with first; None if it was not."""
        return self._waiting


def _forked() -> None:
    """The thread that has forked is the child's only one; it is in no call of the child's."""
    global _current, _main, _striking
    _current, _main, _striking = None, get_ident(), threading.RLock()
    _watch.leave_to_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _begin(call: Deferral) -> None:
    global _current
    try:
        for number in _SIGNALS:
            handler = _get(number)
            if callable(handler) and handler is not _held:
                _handlers[number] = handler
                _set(number, _held)
    except ValueError:
        return  # an interpreter within another one is sent no signals
    _current = call


def _end() -> None:
    """Restores the user's handlers; where one raises, `_held` passes on the rest."""
    global _current
    try:
        for number, handler in _handlers.items():
            if _get(number) is _held:  # else the user's handler has set another one
                _set(number, handler)
    finally:
        with _striking:
            call, _current = _current, None
        if call is not None and call._watched:
            has_struck = call._thrown or call._waiting is not None  # no later call is meant
            _watch.turn_off(has_struck=has_struck)


def _strike(numbers: bytes) -> None:
    """Interrupts DuckDB, in the thread that watches, if the main one is in a call."""
    if signal.SIGINT in numbers:
        with _striking:
            if _current is not None:
                _current.interrupt()


_watch = SignalWatch(_strike)


def _held(number: int, frame: FrameType | None) -> None:
    handler, call = _handlers[number], _current
    if call is None:
        handler(number, frame)
        return
    try:
        handler(number, frame)
    except BaseException as raised:
        call.take(raised)


def _mine() -> Deferral | None:
    """The call under way, if it is this thread's."""
    thread = get_ident()
    return _current if thread == _main else _cancellable.get(thread)


def check() -> None:
    """Raises the exception of a signal that was held back, at a point where nothing is decided."""
    call = _mine()
    if call is None or call._waiting is None or call._thrown or call._sheltered:
        return
    if call.is_too_late:
        return
    call._thrown = True
    raise call._waiting


def watch_signals() -> None:
    """Lets Ctrl-C interrupt what DuckDB runs from here to the end of the call at once."""
    call = _current
    if call is not None and not call._watched and get_ident() == _main:
        handler = _handlers.get(signal.SIGINT)
        call._watched = handler is signal.default_int_handler and _watch.turn_on()


def begin_statement() -> None:
    """Raises the exception of a signal that has found no statement to interrupt; watches for more.

    To be called right before DuckDB runs a statement of the user's.
    """
    check()
    watch_signals()


def next_statement() -> None:
    """The outcome of the statement before is no longer asked for."""
    check()
    if (call := _mine()) is not None:
        call._outcome = NOTHING


def record_outcome(outcome: str) -> None:
    """Records the outcome of the statement, whatever comes from here on."""
    if (call := _mine()) is not None:
        call._outcome = outcome


class Shelter:
    """A block that runs to its end: neither it nor DuckDB is interrupted."""

    __slots__ = ("_call", "_within")

    def __enter__(self) -> None:
        self._call = call = _mine()
        if call is not None:
            with _striking:
                self._within, call._sheltered = call._sheltered, True

    def __exit__(self, *exc: object) -> None:
        if self._call is not None:
            self._call._sheltered = self._within


@contextlib.contextmanager
def dispensable(lost: str) -> Iterator[None]:
    """Lets a signal cut the block short, in a shelter too, while the code around it goes on.

    Args:
        lost: a sentence that is added to the outcome in that case.
    """
    call = _mine()
    if call is None:
        yield
        return
    before, call._sheltered = call._sheltered, False
    try:
        yield
    except BaseException as error:
        struck = isinstance(error, duckdb.InterruptException) or error is call._waiting
        if call._waiting is None or not struck:
            raise
        call._outcome = f"{call._outcome} {lost}"
        call._thrown = False  # the statements that follow are not run
    finally:
        call._sheltered = before


@contextlib.contextmanager
def interruptible(cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Lets a signal interrupt the statements that this cursor runs in the block."""
    call = _mine()
    if call is None:
        yield
        return
    begin_statement()
    before, call.cursor = call.cursor, cursor
    try:
        yield
    finally:
        call.cursor = before
