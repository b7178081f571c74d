"""The files that match a pattern, and those that were moved out of it."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable

from ivm.cdc.sources.source import SourceError

Inode = tuple[int, int]


def matches(pattern: str) -> dict[str, os.stat_result]:
    """The regular files that a pattern matches, in the order of their paths.

    A file whose name is the pattern itself matches too, whatever signs it has.

    Raises:
        SourceError: it names a folder, or one that may not be read.
    """
    if os.path.isdir(pattern):
        raise SourceError(f"{pattern!r} is a folder: name its files, as in {pattern + '/*'!r}")
    found = {*glob.glob(pattern, recursive=True)}
    if glob.has_magic(pattern) and os.path.lexists(pattern):
        found.add(pattern)
    if not found:
        _demand_readable(os.path.dirname(pattern))
    known = {path: status_of(path) for path in sorted(found)}
    return {path: status for path, status in known.items() if status and _is_file(status)}


def moved(folders: Iterable[str]) -> dict[Inode, str]:
    """The files in folders by their device and inode."""
    found: dict[Inode, str] = {}
    for folder in sorted(set(folders)):
        if not os.path.isdir(folder):
            continue
        with os.scandir(folder) as entries:
            for entry in entries:
                status = status_of(entry.path)
                if status and _is_file(status):
                    found[inode_of(status)] = entry.path
    return found


def inode_of(status: os.stat_result) -> Inode:
    """The device and the inode."""
    return status.st_dev, status.st_ino


def forbidden(path: str) -> SourceError:
    """A file or folder that may not be read."""
    return SourceError(f"{path!r} may not be read: allow it (chmod, chown), then RESUME SOURCE")


def _demand_readable(folder: str) -> None:
    """Tells a folder that may not be read from one without such files, which `glob` does not."""
    while glob.has_magic(folder):
        folder = os.path.dirname(folder)
    try:
        os.scandir(folder).close()
    except PermissionError:
        raise forbidden(folder) from None
    except OSError:  # there is none yet
        return


def status_of(path: str) -> os.stat_result | None:
    """What the file system tells of a path; None if there is nothing."""
    try:
        return os.stat(path)
    except PermissionError:
        raise forbidden(path) from None
    except OSError:  # gone meanwhile, or a link to nothing
        return None


def _is_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode)
