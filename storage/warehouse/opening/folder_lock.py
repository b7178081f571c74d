"""The lock of a side folder: one process at a time has a database open.

DuckDB locks its file by the process, and a process loses all such locks on a file when it closes
any descriptor of it, as a program does that copies the file it has open. This lock is the
descriptor's own, and nothing else in the process releases it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import weakref
from pathlib import Path

from ivm.storage.place import Place

_held: weakref.WeakSet[FolderLock] = weakref.WeakSet()


class FolderLock:
    """Locks a side folder as long as a database is open.

    Args:
        folder: the side folder, which may not be there yet.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd = -1
        self._place: Place | None = None

    def acquire(self) -> None:
        """Locks the folder of that name, if there is one; it may be another one than before.

        Raises:
            BlockingIOError: another process has it.
            OSError: it cannot be read.
        """
        self.release()
        if not self._folder.is_dir():
            return
        self._fd = os.open(self._folder, os.O_RDONLY)
        _held.add(self)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.forget()
            raise
        except OSError:
            pass  # a disk that locks no folders: DuckDB's lock must do
        self._place = Place(self._folder, self._fd)

    def demand_in_place(self) -> None:
        """Checks that the folder of that name is the one that was locked, if one was.

        Raises:
            UnavailableError: it was moved, deleted or replaced.
        """
        if self._place is not None:
            self._place.demand()

    def release(self) -> None:
        """Unlocks the folder, also where a child process has a copy of the descriptor."""
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # of a disk that is gone, with its locks
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        self.forget()

    def forget(self) -> None:
        """Closes the descriptor; the lock stays with its copies in other processes."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._place = -1, None
        _held.discard(self)


def _leave_to_parent() -> None:
    """Lets no child keep the lock of a parent that is killed."""
    for lock in list(_held):
        lock.forget()


os.register_at_fork(after_in_child=_leave_to_parent)
