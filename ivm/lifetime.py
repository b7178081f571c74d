"""The databases that this process has open, and their closing, also of those it forgot to close.

Law: what is opened is closed once: by `Database.close`, else by the next `connect` after the
program let go of the object, else as the program ends. A forked child closes nothing: its copy has
neither the threads nor the lock of the file, and two writers would ruin log and file.
"""

from __future__ import annotations

import atexit
import os
import weakref

from ivm.engine import Engine
from ivm.flusher import Flusher
from ivm.session import Session
from ivm.storage.database_file import OF_THE_PARENT
from ivm.storage.errors import UnavailableError

_CLOSED = "the database is closed: open it again with ivm.connect()"

_open: dict[Lifetime, weakref.ref[object]] = {}


class Lifetime:
    """What runs behind a `Database` from its opening to its closing.

    Args:
        engine: just opened.
        owner: the object whose users can reach the engine.
    """

    def __init__(self, engine: Engine, owner: object) -> None:
        self.engine = engine
        self.sessions: weakref.WeakSet[Session] = weakref.WeakSet()  # theirs is the thread
        self.closed = False
        self._reason = _CLOSED
        self._flusher = Flusher(engine)
        _open[self] = weakref.ref(owner)

    def demand_open(self) -> None:
        """Raise UnavailableError if the database is closed or the parent's."""
        if self.closed:
            raise UnavailableError(self._reason)

    def leave_to_parent(self) -> None:
        """This process is a child, forked from the one that opened the database."""
        self.closed, self._reason = True, OF_THE_PARENT

    def close(self) -> None:
        """Roll back what is open, flush, checkpoint and let the file go."""
        if self.closed:
            return
        self.closed = True
        del _open[self]
        self._flusher.stop()
        for session in list(self.sessions):
            session.close()
        self.engine.turns.end()
        try:
            self.engine.close()
        finally:
            self.engine.warehouse.close()


def close_forgotten() -> None:
    """Close the databases that nobody can reach any more."""
    for lifetime, owner in list(_open.items()):
        if owner() is None:
            lifetime.close()


def _leave_to_parent() -> None:
    for lifetime in _open:
        lifetime.leave_to_parent()
    _open.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


@atexit.register
def _close_all() -> None:
    for lifetime in list(_open):
        lifetime.close()
