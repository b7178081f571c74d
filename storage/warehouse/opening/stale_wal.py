"""A write-ahead log that is in the file already, and there again after a power failure.

DuckDB removes its log after a checkpoint, and refuses a log that is older than the file. Law: such
a log is set aside only where the side folder's note says of the file as it is now that it was
closed in good order, after which there is no log: all that it tells is in the file.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import duckdb

from ivm.storage.warehouse.opening.side_folder import (
    read_iteration,
    read_note,
    set_aside,
    side_folder,
)
from ivm.storage.warehouse.opening.wal_witness import wal_of

_log = logging.getLogger(__name__)


def is_too_old(error: duckdb.Error) -> bool:
    """Returns whether DuckDB refuses to open a file because its log is older."""
    return "older version of this database" in str(error)


def was_closed(file: Path) -> bool:
    """Returns whether the file is as it was when it was closed in good order."""
    note = read_note(side_folder(file))
    return note is not None and note.closed and note.iteration == _iteration(file)


def _iteration(file: Path) -> int:
    fd = os.open(file, os.O_RDONLY)
    try:
        return read_iteration(fd)
    finally:
        os.close(fd)


def set_log_aside(file: Path) -> None:
    """Gives the log another name, under which DuckDB does not look for it."""
    aside = set_aside(wal_of(file))
    _log.warning(
        "%s is older than its database, which has all of it: it was set aside as %s and can be"
        " deleted",
        wal_of(file),
        aside,
    )
