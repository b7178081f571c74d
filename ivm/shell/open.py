"""Opens the database that a command line or `.open` names."""

from __future__ import annotations

import os
from pathlib import Path

from ivm.database import Database, connect
from ivm.storage.errors import InputError

MEMORY = ":memory:"
_NOT_DATABASES = {".sql", ".csv", ".tsv", ".parquet", ".json", ".jsonl", ".txt", ".xlsx"}


def open_database(path: str) -> Database:
    """Opens the database in a file, made if it does not exist, or a new one in memory.

    Raises:
        InputError: the name is that of a script or a data file, a folder or a server.
        UnavailableError: another process has it open.
        CorruptionError: the file is not a database.
    """
    if path == MEMORY:
        return connect(MEMORY)
    if path.lower().startswith(("ivm://", "ivms://")):
        raise InputError(
            "ivm://… names a database that `ivm serve` holds, and this command opens files: use "
            "psql on its --pg port, its console, or ivm.connect('ivm://…') in Python"
        )
    _check(Path(path))
    return connect(os.path.expanduser(path))


def _check(path: Path) -> None:
    suffix = path.suffix.lower()
    if suffix == ".sql":
        raise InputError(f"{path} is a script, not a database: ivm run {path}, or .read {path}")
    if suffix in _NOT_DATABASES:
        raise InputError(f"{path} is not a database: open one and CREATE TABLE t AS FROM '{path}'")


def same_file(one: str, other: str) -> bool:
    """Returns whether two names mean one file."""
    if MEMORY in (one, other):
        return False
    return os.path.realpath(os.path.expanduser(one)) == os.path.realpath(os.path.expanduser(other))


def title(path: str) -> str:
    """Returns a short name for the prompt."""
    return "memory" if path == MEMORY else Path(path).stem
