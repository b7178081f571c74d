"""Whether a file, its side folder and its log belong together, and what happened in between.

Law: all checks come before the first change, so a refused opening leaves everything as it was.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from ivm.storage import catalog_store
from ivm.storage.catalog_store import BASE
from ivm.storage.database_file import DatabaseFile
from ivm.storage.duck import Cursor, run
from ivm.storage.errors import CorruptionError
from ivm.storage.log import ChangeLog, sync_folder
from ivm.storage.log_recovery import scan_chain
from ivm.storage.log_segment import segment_paths
from ivm.storage.side_folder import Note, read_note, side_folder, write_note


@dataclass(frozen=True)
class Opening:
    """What an opening found: see `Warehouse`."""

    database_id: str
    log: ChangeLog | None
    foreign_write: bool


def open_log(file: DatabaseFile, sync_interval: float | None) -> Opening:
    """Check the file's records against its side folder, open the log, take possession.

    Raises:
        CorruptionError: they do not belong together; nothing was changed.
    """
    cursor = file.connection.cursor()
    database_id = catalog_store.read_database_id(cursor, file.catalog)
    if file.file is None:
        return Opening(_create(cursor), None, False)
    folder = side_folder(file.file)
    note = read_note(folder)
    if database_id is None:
        _check_leftovers(folder, note)
        database_id = _create(cursor)
        _empty(folder)
        note = Note(database_id, file.iteration(), moving=False, closed=False)
    _check_owner(file.file, folder, note, database_id)
    return _take(file, cursor, database_id, note, sync_interval)


def _take(
    file: DatabaseFile, cursor: Cursor, database_id: str, note: Note | None, interval: float | None
) -> Opening:
    assert file.file is not None
    folder = side_folder(file.file)
    foreign, certain = _moved_by_others(file, note)
    folder.mkdir(exist_ok=True)
    base_epoch = catalog_store.load_epochs(cursor)[BASE]
    if certain:
        _check_log_is_flushed(file.file, folder, database_id, base_epoch)
    log = ChangeLog.open(folder, database_id=database_id, base_epoch=base_epoch, interval=interval)
    write_note(folder, Note(database_id, file.iteration(), moving=False, closed=False))
    return Opening(database_id, log, foreign)


def _moved_by_others(file: DatabaseFile, note: Note | None) -> tuple[bool, bool]:
    """Whether another program may have written to the file, and whether it surely did."""
    if note is None:  # the side folder is gone, and with it what we knew
        return True, False
    step = file.iteration() - note.iteration
    if note.moving and step == 1:  # most likely our own checkpoint, cut off before its note
        return True, False
    foreign = step != 0 or (note.closed and file.opened_with_wal)
    return foreign, foreign


def _create(cursor: Cursor) -> str:
    database_id = uuid.uuid4().hex
    run(cursor, "BEGIN")
    catalog_store.create_schema(cursor, database_id)
    run(cursor, "COMMIT")
    return database_id


def _check_leftovers(folder: Path, note: Note | None) -> None:
    """A file without our records beside a folder that has some."""
    unclosed = bool(segment_paths(folder)) if note is None else not note.closed
    if unclosed:
        raise CorruptionError(
            f"The folder {folder} belongs to another database file and may hold commits of it:"
            " put that file back, or remove the folder to give them up. Nothing was changed."
        )


def _empty(folder: Path) -> None:
    """Remove what a deleted database, closed in good order, has left."""
    for path in segment_paths(folder):
        path.unlink()
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def _check_owner(file: Path, folder: Path, note: Note | None, database_id: str) -> None:
    if note is not None and note.database_id != database_id:
        raise CorruptionError(
            f"The folder {folder} belongs to the database {note.database_id}, but {file} is"
            f" {database_id}: put the two that belong together side by side. Nothing was changed."
        )


def _check_log_is_flushed(file: Path, folder: Path, database_id: str, base_epoch: int) -> None:
    scans = scan_chain(folder, database_id, base_epoch)
    commits = scans[-1][1].last_epoch - base_epoch if scans else 0
    if commits > 0:
        raise CorruptionError(
            f"Another program has written to {file} while its log still held {commits} commits"
            " that are not in it. Nothing was changed; restore the file, or move the log-*.seg"
            f" files away from {folder} to give these commits up."
        )
