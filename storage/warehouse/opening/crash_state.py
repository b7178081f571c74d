"""The proof that tables are unchanged since a crash, though another program has opened the file.

Opening a file with DuckDB moves its write-ahead log into it, even if nothing is then changed: the
file alone does not distinguish a read from a change.

Contract: the answer is yes only if a copy of the file, restored to the state of the crash, has the
same tables with the same rows. The state is restored by the file's older header, whose blocks the
next checkpoint leaves alone, and by the write-ahead log that the side folder kept (`wal_witness`).
The file is copied only if another program has read it after a crash and the log holds commits.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path as FilePath

import duckdb

from ivm.storage.errors import UnavailableError
from ivm.storage.identifiers import Path, literal, quote
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run
from ivm.storage.warehouse.opening.database_file import DatabaseFile
from ivm.storage.warehouse.opening.side_folder import HEADERS_AT, headers
from ivm.storage.warehouse.opening.wal_witness import kept_log, left, wal_of
from ivm.storage.warehouse.tables.table_info import read_schemas

_CRASHED = "_ivm_crashed"
_PAGE = 4096
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def as_at_the_crash(file: DatabaseFile, folder: FilePath, iteration: int) -> bool:
    """Returns whether the tables are unchanged, as far as that can be proven.

    Args:
        file: open.
        folder: its side folder.
        iteration: of its header at the crash.

    Raises:
        UnavailableError: the disk has no room for the copy, so nothing is known.
    """
    try:
        with _put_back(file, folder, iteration) as copy, _attached(file, copy) as cursor:
            return _same(cursor, file.catalog)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            return False
        raise UnavailableError(
            f"another program has opened {file.file} after a crash, and a copy of it tells whether"
            f" it changed the tables, but cannot be written: {error}. Nothing was changed; free"
            " some disk space and try again"
        ) from error
    except (duckdb.Error, LookupError):
        return False


@contextlib.contextmanager
def _put_back(file: DatabaseFile, folder: FilePath, iteration: int) -> Iterator[FilePath]:
    """A copy of the file as of the crash."""
    was = left(folder)
    if was is None:
        raise LookupError("nobody wrote down how the write-ahead log was left")
    scratch = folder / "crash"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    copy = scratch / "copy.duckdb"
    try:
        file.copy_to(copy)
        _set_header(copy, iteration)
        with open(kept_log(folder), "rb") as log:
            wal_of(copy).write_bytes(log.read(was.size))
        yield copy
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _set_header(copy: FilePath, iteration: int) -> None:
    """Makes both headers the one of that iteration; LookupError if neither is."""
    with open(copy, "r+b") as data:
        start = HEADERS_AT[headers(data.fileno()).index(iteration)]
        data.seek(start)
        page = data.read(_PAGE)
        for at in HEADERS_AT:
            data.seek(at)
            data.write(page)


@contextlib.contextmanager
def _attached(file: DatabaseFile, copy: FilePath) -> Iterator[Cursor]:
    with contextlib.closing(file.connection.cursor()) as cursor:
        run(cursor, f"ATTACH {literal(str(copy))} AS {_CRASHED} (READ_ONLY)")
        try:
            yield cursor
        finally:
            run(cursor, f"DETACH {_CRASHED}")


def _same(cursor: Cursor, catalog: str) -> bool:
    now, then = _tables(cursor, catalog), _tables(cursor, _CRASHED)
    return now == then and all(
        _digest(cursor, catalog, name) == _digest(cursor, _CRASHED, name) for name in now
    )


def _tables(cursor: Cursor, catalog: str) -> dict[Path, str]:
    """The definitions of all tables."""
    schemas = read_schemas(cursor, catalog)
    found = rows(
        cursor,
        "SELECT schema_oid, table_name, sql FROM system.main.duckdb_tables()"
        " WHERE database_name = $1",
        [catalog],
    )
    return {(*schemas[schema], name): sql for schema, name, sql in found}


def _digest(cursor: Cursor, catalog: str, path: Path) -> object:
    """A digest of the rows of a table, whatever their order."""
    table = ".".join([quote(name) for name in (catalog, *path)])
    hashed = "system.main.sum(system.main.hash(_ivm_row))"
    return rows(cursor, f"SELECT {hashed}, system.main.count(*) FROM {table} AS _ivm_row")
