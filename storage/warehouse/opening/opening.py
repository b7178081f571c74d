"""The checks of an opening: whether a file, its side folder and its log belong together.

Contract: all checks come before the first change, so a refused opening leaves everything as it was.
The note is not touched before the log has been replayed and every view that needs it filled anew
(`Warehouse.take`): an opening that is cut off is done again from its start.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ivm.storage.durable_files import sync_folder
from ivm.storage.errors import CorruptionError
from ivm.storage.log.change_log import ChangeLog
from ivm.storage.log.recovery import scan_chain
from ivm.storage.log.segment import segment_paths
from ivm.storage.state.header import remove_states
from ivm.storage.warehouse.duckdb.duck import Cursor, run
from ivm.storage.warehouse.opening.crash_state import as_at_the_crash
from ivm.storage.warehouse.opening.database_file import DatabaseFile
from ivm.storage.warehouse.opening.side_folder import (
    Note,
    be_sure,
    is_unsure,
    read_note,
    set_aside,
    side_folder,
    write_addresses,
)
from ivm.storage.warehouse.opening.wal_witness import left
from ivm.storage.warehouse.tables import system_tables
from ivm.storage.warehouse.tables.system_tables import BASE, FLUSHES

Choice = Literal["refuse", "replay", "give up"]
"""The choice for commits in the log where another program has written to the file: refuse to open,
which is the default; replay them all the same; or go on without them (and without any side folder
that does not fit), which are set aside."""


@dataclass(frozen=True)
class Opening:
    """The result of opening a file: see `Warehouse`."""

    database_id: str
    log: ChangeLog | None = None
    foreign_write: bool = False
    mark: str = ""


def open_log(file: DatabaseFile, sync_interval: float | None, choice: Choice) -> Opening:
    """Checks the file's records against its side folder and opens the log.

    Raises:
        CorruptionError: they do not belong together; nothing was changed.
    """
    cursor = file.connection.cursor()
    if file.file is None:
        return Opening(_create(file, cursor))
    database_id = system_tables.read_database_id(cursor, file.catalog)
    folder = side_folder(file.file)
    if choice == "give up":
        _give_up(folder, cursor, database_id)
    if database_id is None:
        _check_leftovers(folder)
        _clear(folder)
        database_id, foreign = _create(file, cursor), False
    else:
        foreign = _check(file, cursor, database_id, choice)
    folder.mkdir(exist_ok=True)
    file.lock_folder()
    write_addresses(folder, [])  # of a server that was killed
    sync_folder(folder.parent)
    base_epoch = system_tables.load_epochs(cursor)[BASE]
    log = ChangeLog.open(
        folder, database_id=database_id, base_epoch=base_epoch, interval=sync_interval
    )
    return Opening(database_id, log, foreign, system_tables.read_mark(cursor) or uuid.uuid4().hex)


def examine(file: DatabaseFile) -> None:
    """Makes the checks of an opening, and changes nothing.

    Raises:
        CorruptionError: file, side folder and log do not fit each other.
    """
    assert file.file is not None
    cursor = file.connection.cursor()
    database_id = system_tables.read_database_id(cursor, file.catalog)
    if database_id is None:
        _check_leftovers(side_folder(file.file))
    else:
        _check(file, cursor, database_id, "refuse")
        unflushed(file)


def unflushed(file: DatabaseFile) -> int:
    """The number of commits in the log alone.

    Raises:
        CorruptionError: the log is damaged, or that of another database.
    """
    assert file.file is not None
    cursor = file.connection.cursor()
    database_id = system_tables.read_database_id(cursor, file.catalog)
    if database_id is None:
        return 0
    base_epoch = system_tables.load_epochs(cursor)[BASE]
    return _commits(side_folder(file.file), database_id, base_epoch)


def _give_up(folder: Path, cursor: Cursor, database_id: str | None) -> None:
    """Detaches the file from its log; the views are filled anew, now or by the next opening."""
    set_aside(folder)
    if database_id is not None:
        system_tables.mark_closed(cursor)


def _check(file: DatabaseFile, cursor: Cursor, database_id: str, choice: Choice) -> bool:
    """Returns whether another program may have written to the file: then no view can be trusted."""
    assert file.file is not None
    folder = side_folder(file.file)
    note = read_note(folder)
    _check_owner(file.file, folder, note, database_id)
    _check_folder(file.file, folder, note, system_tables.read_mark(cursor))
    epochs = system_tables.load_epochs(cursor)
    foreign, certain = _moved_by_others(file, note, epochs)
    if certain and choice == "refuse":
        commits = _commits(folder, database_id, epochs[BASE])
        if commits and not (note and as_at_the_crash(file, folder, note.iteration)):
            held = "1 commit" if commits == 1 else f"{commits} commits"
            what = f"Another program has written to {file.file} while its log still held"
            if note is not None and file.iteration() < note.iteration:
                what = f"{file.file} is older than its folder {folder}, whose log holds"
            raise CorruptionError(f"{what} {held} that it lacks. {_ways(folder)}")
    return foreign


def _moved_by_others(
    file: DatabaseFile, note: Note | None, epochs: dict[str, int]
) -> tuple[bool, bool]:
    """Returns whether another program may have written to the file, and whether it moved it on."""
    if note is None:  # the side folder is gone, and with it the note
        return True, False
    assert file.file is not None
    folder = side_folder(file.file)
    step = file.iteration() - note.iteration
    if note.moving and step == 1:  # most likely our own checkpoint, cut off before its note
        return True, False
    if step != 0 or (note.closed and file.wal_found > 0):
        return True, True
    if is_unsure(folder):  # the flushes of an opening that was cut off hide what follows
        return True, False
    was, reached = left(folder), (epochs[BASE], epochs.get(FLUSHES, 0))
    ours = was.size if was is not None and (was.epoch, was.flushes) == reached else 0
    return file.wal_found > ours, False  # a log longer than we saw it: in doubt another's


def _create(file: DatabaseFile, cursor: Cursor) -> str:
    database_id = uuid.uuid4().hex
    run(cursor, "BEGIN")
    system_tables.create_schema(cursor, file.catalog, database_id)
    run(cursor, "COMMIT")
    return database_id


def _check_leftovers(folder: Path) -> None:
    """Checks a file without our records whose side folder has some."""
    note = read_note(folder)
    unclosed = bool(segment_paths(folder)) if note is None else not note.closed
    if unclosed:
        raise CorruptionError(
            f"The folder {folder} belongs to another database file and may hold commits of it:"
            f" put that file back, or set the folder aside. {_ways(folder)}"
        )


def _clear(folder: Path) -> None:
    """Removes the files of a deleted database that was closed in good order, its note last."""
    for path in (*segment_paths(folder), folder / "note.json"):
        path.unlink(missing_ok=True)
    remove_states(folder)
    be_sure(folder)
    if folder.exists():
        sync_folder(folder)


def _check_owner(file: Path, folder: Path, note: Note | None, database_id: str) -> None:
    if note is not None and note.database_id != database_id:
        raise CorruptionError(
            f"The folder {folder} belongs to the database {note.database_id}, but {file} is"
            f" {database_id}: put the two that belong together side by side. {_ways(folder)}"
        )


def _check_folder(file: Path, folder: Path, note: Note | None, mark: str | None) -> None:
    """Checks that a file that was not closed has the side folder with which it was left."""
    if mark is None or (note is not None and note.mark == mark and segment_paths(folder)):
        return
    what = "an older state of it" if note is not None and note.mark != mark else "not there"
    raise CorruptionError(
        f"{file} was not closed, and the folder {folder}, which may hold commits that are not in"
        f" the file, is {what}: put it back beside the file. {_ways(folder)}"
    )


def _commits(folder: Path, database_id: str, base_epoch: int) -> int:
    """The number of commits that the log holds and the tables do not."""
    scans = scan_chain(folder, database_id, base_epoch)
    return max(scans[-1][1].last_epoch - base_epoch, 0) if scans else 0


def _ways(folder: Path) -> str:
    file = folder.with_name(folder.name.removesuffix(".ivm"))
    return f"Nothing was changed. `ivm recover {file}` says what there is, and what can be done."
