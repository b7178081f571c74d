"""Opening the user's DuckDB file: settings, locks, and errors in our words.

Invariant: while DuckDB holds the file open we keep one descriptor of it, opened after DuckDB's and
closed after it, because closing any descriptor of a file drops the process's locks on it. What the
rest of the program does to them leaves the lock of the side folder (`folder_lock`).
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import threading
from pathlib import Path

import duckdb

from ivm.storage.errors import CorruptionError, InputError, UnavailableError
from ivm.storage.identifiers import literal
from ivm.storage.log.segment import segment_path
from ivm.storage.place import Place
from ivm.storage.versions import demand_known_duckdb
from ivm.storage.warehouse.opening.folder_lock import FolderLock
from ivm.storage.warehouse.opening.side_folder import (
    read_addresses,
    read_iteration,
    side_folder,
)
from ivm.storage.warehouse.opening.stale_wal import is_too_old, set_log_aside, was_closed

DEFAULT_MEMORY = 1 << 30
"""Bytes of DuckDB's buffer pool: with the operators' state at 10⁷ rows the process stays under
2.5 GB; DuckDB spills to disk beyond it, and its own default (80 % of RAM) leaves us nothing."""

OF_THE_PARENT = (
    "the database was opened before this process was forked, and belongs to its parent: start"
    " processes before ivm.connect(), or by 'spawn', or leave the database to the parent"
)

_COPIED = 1 << 20  # bytes at a time

_OPENED = """
SELECT database_name, path, type FROM system.main.duckdb_databases()
WHERE database_name = system.main.current_database()
"""
_open_files: dict[Path, int] = {}  # and the process that opened them
_open_lock = threading.Lock()


def default_memory_limit() -> int:
    """The memory limit in bytes: 1 GiB, but never more than half of the machine's memory."""
    return min(DEFAULT_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)


class DatabaseFile:
    """DuckDB's instance over a file or memory. Opening a file locks it for this process.

    Args:
        file: the DuckDB file (created if absent), or None for memory.
        memory_limit: bytes, or None for the default.
        threads: or None for DuckDB's default.

    Attributes:
        is_new: nothing has ever been written to the file, by this process or another one.

    Raises:
        UnavailableError: another process or connection has it, or it cannot be reached; or DuckDB
            is of a version that is not known.
        CorruptionError: it is not a DuckDB file, or a damaged one.
        InputError: DuckDB does not take these settings, or no database can have this path.
    """

    def __init__(self, file: Path | None, memory_limit: int | None, threads: int | None) -> None:
        demand_known_duckdb()
        self.file = None if file is None else _resolved(file)
        try:
            self.wal_found = self.wal_bytes()
        except OSError as error:
            raise explained(self.file, error) from error
        self._fd = -1
        self._place: Place | None = None
        self._lock = None if self.file is None else FolderLock(side_folder(self.file))
        if self.file is not None:
            _claim(self.file)
        try:
            self.connection = self._connected(memory_limit or default_memory_limit(), threads)
        except BaseException:
            self._release()
            raise
        try:
            self.catalog = self._opened()
            if self.file is not None:
                self._fd = os.open(self.file, os.O_RDONLY)
                self._place = Place(self.file, self._fd)
            self.is_new = self.file is None or not (self.iteration() or self.wal_bytes())
            self.lock_folder()
        except BaseException:
            self.close()
            raise

    def iteration(self) -> int:
        """The file header's checkpoint counter on disk."""
        return read_iteration(self._fd)

    def wal_bytes(self) -> int:
        """Size of DuckDB's write-ahead log (0 for memory)."""
        return 0 if self.file is None else wal_bytes(self.file)

    def copy_to(self, copy: Path) -> None:
        """Copies the file as it is on disk.

        Raises:
            OSError: the disk refuses.
        """
        with open(self._fd, "rb", closefd=False) as source, open(copy, "xb") as target:
            source.seek(0)
            shutil.copyfileobj(source, target, _COPIED)

    def lock_folder(self) -> None:
        """Locks the side folder for this process, if it is there: again once it is another one.

        Raises:
            UnavailableError: another process has it, or it cannot be read.
        """
        if self._lock is None:
            return
        try:
            self._lock.acquire()
        except BlockingIOError as error:
            raise UnavailableError(_locked(self.file)) from error
        except OSError as error:
            raise explained(self.file, error) from error

    def demand_in_place(self) -> None:
        """Checks that the paths of file and side folder name those that are open here.

        Raises:
            UnavailableError: they were moved, deleted or replaced.
        """
        if self._place is not None:
            self._place.demand()
        if self._lock is not None:
            self._lock.demand_in_place()

    def close(self) -> None:
        """Releases the file, without a checkpoint."""
        self.connection.close()
        if self._fd >= 0:
            os.close(self._fd)
        self._release()

    def _opened(self) -> str:
        """The database's name; of a CSV, JSON or Parquet file DuckDB makes one in memory."""
        ((name, path, kind),) = self.connection.execute(_OPENED).fetchall()
        if self.file is not None and (path is None or kind != "duckdb"):
            raise CorruptionError(
                f"{self.file} is no DuckDB database; it was not changed. Open one under another"
                f" path, and load it there: CREATE TABLE … AS FROM {literal(str(self.file))}."
            )
        return str(name)

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
        if self.file is not None:
            with _open_lock:
                _open_files.pop(self.file, None)

    def _connected(self, memory_limit: int, threads: int | None) -> duckdb.DuckDBPyConnection:
        try:
            try:
                return self._connect(memory_limit, threads)
            except duckdb.IOException as error:
                if self.file is None or not is_too_old(error):
                    raise
                self.lock_folder()  # nobody else opens the file meanwhile
                if not was_closed(self.file):
                    raise
                set_log_aside(self.file)
            self.wal_found = 0
            return self._connect(memory_limit, threads)
        except (duckdb.Error, OSError) as error:
            raise explained(self.file, error) from error

    def _connect(self, memory_limit: int, threads: int | None) -> duckdb.DuckDBPyConnection:
        config: dict[str, str | bool | int | float | list[str]] = {
            "arrow_lossless_conversion": "true",
            "python_enable_replacements": False,  # they would find the variables of our frames
            "memory_limit": f"{memory_limit // 1024}KiB",
            "wal_autocheckpoint": "1TB",
        }
        if threads is not None:
            config["threads"] = threads
        connection = duckdb.connect(str(self.file or ":memory:"), config=config)
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        connection.complete()
        return connection


def wal_bytes(file: Path) -> int:
    """Size of the write-ahead log beside a DuckDB file, 0 if there is none."""
    try:
        return file.with_name(file.name + ".wal").stat().st_size
    except FileNotFoundError:
        return 0


def _resolved(file: Path) -> Path:
    """The one path of a file.

    Raises:
        InputError: DuckDB cannot keep a database there, or has another meaning for the name.
    """
    if "\0" in str(file):
        raise InputError(f"no file can be named {str(file)!r}: give a path without \\0")
    resolved = file.resolve()
    if os.path.isdir(resolved):
        raise InputError(
            f"{resolved} is a folder; a database is a file, such as {resolved / 'shop.duckdb'}"
        )
    if not os.path.exists(resolved.parent):
        raise InputError(
            f"cannot open {resolved}: there is no folder {resolved.parent}; make it first"
        )
    if _is_too_long(segment_path(side_folder(resolved), 0)):
        raise InputError(
            f"{resolved} is too long: beside the file lies a folder with the same name and .ivm"
            " behind it, and the system allows no such path; shorten the name or the path"
        )
    if "?" in str(resolved):
        raise InputError(
            f"{resolved} has a ?, behind which DuckDB reads parameters, and so keeps its"
            " write-ahead log elsewhere: rename the file or the folder"
        )
    if resolved.name.partition(".")[0].lower() == "_ivm":
        raise InputError(
            f"{resolved} would give the database the name of the schema _ivm, in which its own"
            " records are: rename the file"
        )
    return resolved


def _is_too_long(path: Path) -> bool:
    try:
        path.lstat()
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False


def _claim(file: Path) -> None:
    with _open_lock:
        if _open_files.get(file, os.getpid()) != os.getpid():
            raise UnavailableError(OF_THE_PARENT)
        if file in _open_files:
            raise UnavailableError(
                f"{file} is already open in this process: use that Database object, or close it"
                " first."
            )
        _open_files[file] = os.getpid()


def _locked(file: Path | None) -> str:
    served = [] if file is None else read_addresses(side_folder(file))
    if served:
        told = [f"ivm.connect({_url(address)!r})" for address in served if "http" in address]
        found = ", ".join([*served, *told])
        return f"{file} is locked by another process, which serves it: connect to it ({found})."
    return (
        f"{file} is locked by another process: close the database there and try again, or let it "
        "be served by `ivm serve FILE --http …`, to which any number of programs can connect."
    )


def _url(address: str) -> str:
    return re.sub("^http", "ivm", address).replace("://", "://user:password@")


def explained(file: Path | None, error: duckdb.Error | OSError) -> Exception:
    """The error that refuses to open a file or its side folder, sorted by remedy."""
    text = str(error)
    if isinstance(error, OSError):
        return UnavailableError(
            f"{error.filename or file}: {error.strerror}. The log of {file} lies in the folder"
            f" {file}.ivm, which must be readable and writable: mend that and try again."
        )
    if "Could not set lock" in text:
        return UnavailableError(f"{_locked(file)} {text}")
    if isinstance(error, duckdb.ConnectionException):
        return UnavailableError(
            f"{file} is open in this process through DuckDB itself: close that connection and try"
            f" again. {text}"
        )
    if isinstance(error, duckdb.ProgrammingError):
        return InputError(f"DuckDB refuses its settings: {text}. Give it others.")
    torn = "not a valid DuckDB" in text or "Could not read enough bytes" in text
    if torn or not isinstance(error, duckdb.IOException):
        return CorruptionError(
            f"{file} is not a DuckDB database, or a damaged one; it was not changed. Give another"
            f" path, or restore the file. {text}"
        )
    way_out = "mend the cause and try again"
    if "Permission denied" in text:
        way_out = "a database must be writable, and so must its folder; or open a copy of it"
    return UnavailableError(f"{file} cannot be opened: {way_out}. {text}")
