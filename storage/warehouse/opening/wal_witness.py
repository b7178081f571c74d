"""DuckDB's write-ahead log as we left it, kept where no other program removes it.

Invariant: the side folder holds a second name of that log (a hard link), and its size when our last
transaction or checkpoint ended: 0 if there was no log, so that one which is there is not ours. A
program that opens the file with DuckDB after a crash moves the log into the file and removes it,
but not our name of it: together with the older of the file's two headers it restores the state of
the crash (`crash_state`). A new log of DuckDB's has a second name that survives a power failure
before our own log drops the records that it holds.
"""

from __future__ import annotations

import contextlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from ivm.storage.durable_files import sync_folder
from ivm.storage.warehouse.opening.side_folder import side_folder

_LEFT = struct.Struct("<QQQ")
_NONE = -1  # where an inode stands


@dataclass(frozen=True)
class WalState:
    """The state in which the write-ahead log was left.

    Attributes:
        size: bytes of it.
        epoch: of the base tables in it.
        flushes: number of the last flush in it.
    """

    size: int
    epoch: int
    flushes: int


class WalWitness:
    """The second name of the write-ahead log, kept current.

    Args:
        file: the database file; its side folder exists.
    """

    def __init__(self, file: Path) -> None:
        self._wal = wal_of(file)
        self._link = kept_log(side_folder(file))
        self._size = _size_of(side_folder(file))
        self._inode = _NONE
        self._fd = -1

    def saw(self, epoch: int, flushes: int) -> None:
        """Records the log's size after a transaction of ours has ended.

        Raises:
            OSError: the folder cannot be synced.
        """
        size, inode = self._found()
        if inode != self._inode:
            self._rename(inode)
        if self._fd < 0:
            self._fd = os.open(self._size, os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(self._fd, _LEFT.pack(size, epoch, flushes), 0)

    def _found(self) -> tuple[int, int]:
        """Size and inode of the log; after a checkpoint there is none until the next commit."""
        try:
            found = os.stat(self._wal)
        except FileNotFoundError:
            return 0, _NONE
        return found.st_size, found.st_ino

    def _rename(self, inode: int) -> None:
        """Links the second name to the log that DuckDB has begun."""
        if inode != _NONE:
            sync_folder(self._wal.parent)
        with contextlib.suppress(OSError):  # a disk without hard links has no second name
            self._link.unlink(missing_ok=True)
            if inode != _NONE:
                os.link(self._wal, self._link)
        self._inode = inode

    def close(self, *, forget: bool) -> None:
        """Releases the second name, and removes it once the log is in the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if forget:
            with contextlib.suppress(OSError):
                self._link.unlink(missing_ok=True)
                self._size.unlink(missing_ok=True)


def wal_of(file: Path) -> Path:
    """DuckDB's write-ahead log of a file."""
    return file.with_name(file.name + ".wal")


def kept_log(folder: Path) -> Path:
    """The path of our name of the write-ahead log."""
    return folder / "wal"


def left(folder: Path) -> WalState | None:
    """The state in which we left the log, if it was recorded."""
    try:
        return WalState(*_LEFT.unpack(_size_of(folder).read_bytes()))
    except (OSError, struct.error):
        return None


def _size_of(folder: Path) -> Path:
    return folder / "wal.size"
