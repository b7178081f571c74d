"""The databases that this process has open, and their closing, also of those it forgot to close.

Law: what is opened is closed once: by `Database.close`, else by the next `connect` after the
program let go of the object, else as the program ends.
"""

from __future__ import annotations

import atexit
import weakref

from ivm.engine import Engine
from ivm.flusher import Flusher
from ivm.session import Session

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
        self._flusher = Flusher(engine)
        _open[self] = weakref.ref(owner)

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


@atexit.register
def _close_all() -> None:
    for lifetime in list(_open):
        lifetime.close()
