"""Writing files so that a crash keeps what was written.

Contract: what is written is there after a crash once `sync_data` of the file has returned, and a
file that was made, renamed or removed is so once `sync_folder` of its folder has.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

_BUFFERS_PER_CALL = 512  # below IOV_MAX


def write_all(fd: int, parts: list[Any]) -> None:
    """Writes buffers at the file's end; raises OSError with an unknown part of them written."""
    for first in range(0, len(parts), _BUFFERS_PER_CALL):
        views = [memoryview(p).cast("B") for p in parts[first : first + _BUFFERS_PER_CALL]]
        while views:
            done = os.writev(fd, views)
            while views and done >= len(views[0]):
                done -= len(views.pop(0))
            if views and done:
                views[0] = views[0][done:]


def reserve(fd: int, start: int, size: int) -> None:
    """Reserves zeros at a file's end, if the system and the disk's room allow it.

    What is written in them moves no end of the file that would have to be synced, too.

    Args:
        fd: the file.
        start: offset of its end.
        size: bytes to reserve.
    """
    if hasattr(os, "posix_fallocate"):
        with contextlib.suppress(OSError):
            os.posix_fallocate(fd, start, size)


def sync_data(fd: int) -> None:
    """Makes a file's data durable; where the system has no fdatasync, by fsync."""
    getattr(os, "fdatasync", os.fsync)(fd)


def sync_folder(folder: Path) -> None:
    """Makes a folder's names durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
