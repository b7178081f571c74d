"""The modes of files that a served database makes: its own ones are for their owner alone.

Law: in a process that serves, what anybody makes, DuckDB too, is private; a stricter umask stays,
and so do the modes of files that there are. Only what is made for other programs has the mode that
the umask of before allows.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_PRIVATE = 0o077
_outer: int | None = None  # the umask of before


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Makes what is made in the block private; the process has no other threads yet."""
    global _outer
    _outer = os.umask(_PRIVATE)
    os.umask(_PRIVATE | _outer)
    try:
        yield
    finally:
        os.umask(_outer)
        _outer = None


def share(fd: int, mode: int) -> None:
    """Gives a file that was just made for other programs the mode that it has elsewhere."""
    if _outer is not None:
        os.fchmod(fd, mode & ~_outer)


def readers_beside_owner(path: Path) -> bool:
    """Whether other users of this machine may read or write a file."""
    return path.exists() and bool(path.stat().st_mode & _PRIVATE)
