"""A file that is open at the row where it was left."""

from __future__ import annotations

import os
from collections.abc import Callable

import pyarrow as pa

from ivm.cdc.sources.files.identity import Followed
from ivm.cdc.sources.files.listing import forbidden, inode_of
from ivm.cdc.sources.files.rows import Rows
from ivm.cdc.sources.source import SourceError
from ivm.storage.errors import UnavailableError

OpenRows = Callable[[Followed, int], Rows]
"""The rows of a file, given its open descriptor."""


class OpenFile:
    """Reads a file on, up to the size that it had when the folder was last looked at.

    Raises:
        FileNotFoundError: it is gone, or another file has its place.
        SourceError: it may not be read.
        UnavailableError: the file system does not answer.
    """

    def __init__(self, file: Followed, open_rows: OpenRows) -> None:
        self._file = file
        try:
            self._descriptor = os.open(file.path, os.O_RDONLY)
        except PermissionError:
            raise forbidden(file.path) from None
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _unreadable(file.path, error) from error
        if not self._is_the_file():
            self.close()
            raise FileNotFoundError(file.path)
        self._rows = open_rows(file, self._descriptor)

    def take(self, limit: int) -> pa.Array | None:
        """The next rows, at most so many; None if there are none for now."""
        file = self._file
        try:
            found = self._rows.take(limit, file.settled)
        except SourceError as error:
            raise SourceError(f"{file.path!r}, after row {file.rows}: {error}") from error
        except OSError as error:
            raise _unreadable(file.path, error) from error
        if found is None:
            file.drained, file.more = (file.size, file.changed), False
            file.waits = not file.settled and self._rows.waits()
        else:
            file.rows += len(found)
            file.at, file.open = self._rows.at, self._rows.open
            file.more, file.passed = self._rows.has_more(), self._rows.passed()
            file.see(self._descriptor, self._rows.sure())
        return found

    def is_here(self) -> bool:
        """Whether the file is still there, and is the one that is open."""
        opened = inode_of(os.fstat(self._descriptor))
        return self._file.here and opened == (self._file.device, self._file.inode)

    def _is_the_file(self) -> bool:
        """Whether it is the one that was looked at: its path may be another file's by now."""
        if not self._file.seen:
            opened = inode_of(os.fstat(self._descriptor))
            return opened == (self._file.device, self._file.inode)
        return self._file.is_in(self._descriptor)

    def close(self) -> None:
        """Closes it."""
        os.close(self._descriptor)


def _unreadable(path: str, error: OSError) -> UnavailableError:
    return UnavailableError(f"{path!r} cannot be read ({error})")
