"""Recovery of a database whose file and log do not fit each other any more.

Contract: examining changes nothing. Discarded commits are never deleted: the side folder gets
another name. Replaying applies all of the log's commits, or none if they do not fit the tables.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb

from ivm.catalog.functions import Function
from ivm.engine.opening.opening import open_engine
from ivm.open_databases import close_forgotten
from ivm.storage.errors import CorruptionError, InputError
from ivm.storage.warehouse.duckdb.duckdb_errors import Translating
from ivm.storage.warehouse.opening.database_file import DatabaseFile, explained
from ivm.storage.warehouse.opening.opening import examine, unflushed
from ivm.storage.warehouse.opening.side_folder import side_folder


@dataclass(frozen=True)
class Recovery:
    """The findings of `recover`, and its result.

    Attributes:
        path: path of the database file.
        commits: the number of commits that only the log had; None if it cannot be read.
        trouble: why `connect` refuses the file, or None if it does not (any more).
        set_aside: the new path of the side folder with the discarded commits, if there was one.
        done: whether the choice was carried out; False if there was nothing to choose.
    """

    path: Path
    commits: int | None
    trouble: str | None = None
    set_aside: Path | None = None
    done: bool = False


def recover(
    path: str | Path,
    choice: Literal["replay", "give up"] | None = None,
    *,
    functions: Iterable[Function] = (),
) -> Recovery:
    """Examines whether a database file and its log fit each other, or makes them fit.

    Args:
        path: path of a DuckDB file that is not open.
        choice: None only to examine; "replay" to apply the log's commits to the tables although
            another program may have changed them; "give up" to go on with the file's rows, and
            rename its side folder.
        functions: Python functions that the database's views call.

    Raises:
        UnavailableError: another process has it open.
        InputError: there is no such file.
        CorruptionError: the commits do not fit the tables; nothing was changed.
    """
    file = Path(os.path.expanduser(path))
    if not os.path.isfile(file):  # False, too, for a name that none can have
        raise InputError(f"there is no database {file}: give the path of an existing file")
    if choice not in (None, "replay", "give up"):
        raise InputError(f'recover takes "replay" or "give up", not {choice!r}')
    with Translating():
        close_forgotten()  # perhaps of this file
        found = _look(file)
        if choice is None or (found.trouble is None and not found.commits):
            return found
        before = set(_set_aside(file))
        _open_once(file, choice, functions)
    aside = next(iter(set(_set_aside(file)) - before), None)
    return Recovery(file, found.commits, set_aside=aside, done=True)


def _open_once(
    file: Path, choice: Literal["replay", "give up"], functions: Iterable[Function]
) -> None:
    """Opens the database by the choice, and closes it: its file and log then fit each other."""
    engine = open_engine(
        file,
        sync_at_commit=True,
        memory_limit=None,
        threads=None,
        functions=functions,
        choice=choice,
    )
    try:
        engine.close()
    finally:
        engine.warehouse.close()


def _look(path: Path) -> Recovery:
    file = DatabaseFile(path, None, None)
    trouble, commits = None, None
    try:
        try:
            examine(file)
        except CorruptionError as error:
            trouble = str(error)
        with contextlib.suppress(CorruptionError):
            commits = unflushed(file)
    except (duckdb.Error, OSError) as error:
        raise explained(path, error) from error
    finally:
        file.close()
    return Recovery(path, commits, trouble)


def _set_aside(file: Path) -> list[Path]:
    folder = side_folder(file.resolve())
    return list(folder.parent.glob(f"{folder.name}.given-up-*"))
