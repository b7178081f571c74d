"""The side folder `<file>.ivm/`, and its note on the state of the database file when last seen.

Invariant: the note is written in one piece (draft, sync, rename). Before a checkpoint it says that
the file's iteration counter is about to move, after it the counter's value; so a counter with
another value was moved by another program.
"""

from __future__ import annotations

import itertools
import json
import os
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ivm.storage.durable_files import sync_folder
from ivm.storage.errors import CorruptionError

HEADERS_AT = (4096, 8192)
_UNSURE = "refill"
_SERVED = "served"
_ITERATION = struct.Struct("<8xQ")  # behind the header's checksum


@dataclass(frozen=True)
class Note:
    """The state of the database file when it was last seen.

    Attributes:
        database_id: of the file this folder belongs to.
        iteration: its header's checkpoint counter.
        moving: a checkpoint of ours was under way, so the counter may be one higher.
        closed: the database was closed after a checkpoint; there is no write-ahead log.
        mark: of the opening; the file has the same one until it is closed, by which the folder
            that belongs to it is recognised.
    """

    database_id: str
    iteration: int
    moving: bool
    closed: bool
    mark: str = ""


def side_folder(file: Path) -> Path:
    """The folder that belongs to a database file."""
    return file.with_name(file.name + ".ivm")


def set_aside(path: Path) -> Path | None:
    """Gives a folder or file another name, under which nothing looks for it, and returns that."""
    if not path.exists():
        return None
    names = (path.with_name(f"{path.name}.given-up-{n}") for n in itertools.count(1))
    aside = next(name for name in names if not name.exists())
    path.rename(aside)
    sync_folder(path.parent)
    return aside


def read_iteration(fd: int) -> int:
    """The checkpoint counter of an open DuckDB file: the larger of its two headers'."""
    return max(headers(fd))


def headers(fd: int) -> list[int]:
    """The checkpoint counter in each of the file's headers."""
    found = [os.pread(fd, _ITERATION.size, at) for at in HEADERS_AT]
    return [int(_ITERATION.unpack(header)[0]) for header in found]


def read_note(folder: Path) -> Note | None:
    """The note of a side folder, or None if there is none.

    Raises:
        CorruptionError: it is not one of ours.
    """
    path = folder / "note.json"
    try:
        return Note(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise CorruptionError(
            f"{path} is damaged ({error}). Nothing was changed; restore the database file and its"
            " side folder from one backup."
        ) from error


def is_unsure(folder: Path) -> bool:
    """Returns whether an opening has begun to replay the log below views that it cannot trust."""
    return (folder / _UNSURE).exists()


def be_unsure(folder: Path) -> None:
    """Records durably that no view can be trusted until an opening has ended."""
    (folder / _UNSURE).touch()
    sync_folder(folder)


def be_sure(folder: Path) -> None:
    """Removes the record: every view has been filled anew."""
    (folder / _UNSURE).unlink(missing_ok=True)


def write_addresses(folder: Path, addresses: Sequence[str]) -> None:
    """Tells other processes where the one that has the database open serves it; [] for nowhere."""
    if addresses:
        (folder / _SERVED).write_text("\n".join(addresses))
    else:
        (folder / _SERVED).unlink(missing_ok=True)


def read_addresses(folder: Path) -> list[str]:
    """Where the process that has the database open serves it."""
    try:
        return (folder / _SERVED).read_text().splitlines()
    except OSError:
        return []


def write_note(folder: Path, note: Note) -> None:
    """Replaces the folder's note durably."""
    draft = folder / "note.new"
    with open(draft, "w") as file:
        json.dump(asdict(note), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, folder / "note.json")
    sync_folder(folder)
