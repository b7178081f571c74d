"""The place of an open file or folder: the path by which it was opened.

Law: work by name must not touch what another program has put in the place of what is open here. So
whoever is about to work by name in a place asks first whether it is still what is open. The open
descriptor keeps the numbers that tell files apart from being given to another one.
"""

from __future__ import annotations

import os
from pathlib import Path

from ivm.storage.errors import UnavailableError


class Place:
    """A path, and what is open under it.

    Args:
        path: of the file or folder.
        fd: its descriptor, which stays open as long as the place is asked.
    """

    def __init__(self, path: Path, fd: int) -> None:
        self._path = str(path)
        self._opened = _number(os.fstat(fd))

    def demand(self) -> None:
        """Checks that the path still names what was opened.

        Raises:
            UnavailableError: it was moved, deleted or replaced.
        """
        try:
            if _number(os.stat(self._path)) == self._opened:
                return
        except OSError:
            pass  # nobody can tell what is there, if anything
        raise UnavailableError(
            f"{self._path} was moved, deleted or replaced while the database was open, so nothing"
            " more can be committed: close the database. What was committed is where its files are"
            " now: open them there."
        )


def _number(found: os.stat_result) -> tuple[int, int]:
    return found.st_ino, found.st_dev
