"""All files of a source as they stand now: which are new, which have grown, which are gone.

Contract: a file that has been begun is read on before one that is new, so a log that was renamed
ends before the one that now has its name begins; new files are begun in the order of their paths.
A file of which rows were not read and which is gone is an error.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from ivm.cdc.sources.files.copies import Copies, compressed_copies
from ivm.cdc.sources.files.identity import Followed
from ivm.cdc.sources.files.listing import (
    Inode,
    forbidden,
    inode_of,
    matches,
    moved,
    status_of,
)
from ivm.cdc.sources.source import Position, SourceError

_Found = dict[str, os.stat_result]


class Folder:
    """The files of a pattern.

    Args:
        pattern: see `matches`.
        settle: seconds without a change after which an unfinished line may be read.
        skip_lost: lost rows are no error.
        positions: that were stored.
    """

    def __init__(
        self, pattern: str, settle: float, skip_lost: bool, positions: Mapping[str, Position]
    ) -> None:
        self._pattern = pattern
        self._settle = settle
        self._skip_lost = skip_lost
        self._files = [Followed.stored(*each) for each in sorted(positions.items())]
        self._streams = set(positions)
        self._copies = Copies()

    def scan(self) -> list[Followed]:
        """The files that have something to read, in the order in which they are read.

        Raises:
            SourceError: one with unread rows is gone, or one may not be read.
        """
        left = matches(self._pattern)
        listed = {path: inode_of(status) for path, status in left.items()}
        missing = self._find_at_their_paths(left, self._find_by_inode(left))
        gone = self._find_copied(left, self._find_outside(missing))
        for copy in compressed_copies(left, self._files):
            del left[copy]
        if (gone or left) and self._is_as(listed):
            self._part_with(gone)
            for path, status in left.items():
                new = Followed(self._stream(path), path, *inode_of(status))
                new.look(path, status)
                self._files.append(new)
        pending = [file for file in self._files if self._has_more(file)]
        return sorted(pending, key=lambda file: "" if file.at else file.path)

    def _is_as(self, listed: Mapping[str, Inode]) -> bool:
        """Whether files have kept their names since they were listed.

        While they are renamed, one may be missing in the list, or there twice: what is gone, and
        what is new, is then for the next look to tell.
        """
        now = {path: inode_of(status) for path, status in matches(self._pattern).items()}
        return all(now.get(path) == inode for path, inode in listed.items())

    def _part_with(self, gone: list[Followed]) -> None:
        for file in gone:
            if file.at and file.is_unread() and not self._skip_lost:
                raise _lost(file)
            self._leave(file)

    def waits(self) -> bool:
        """Whether a last line will be taken without its end, if nothing is added to it."""
        return any(file.here and file.waits for file in self._files)

    def unread(self) -> tuple[int, int]:
        """Bytes of files that have not been read, and those that have, about."""
        here = [file for file in list(self._files) if file.here]
        read = sum(file.passed for file in here)
        return max(0, sum(file.size for file in here) - read), read

    def _leave(self, file: Followed) -> None:
        """Notes that a file is gone; one of which nothing was read could not be known again."""
        file.here = False
        if not file.at:
            self._files.remove(file)
            self._streams.remove(file.stream)

    def _leave_unread(self, path: str) -> None:
        """Leaves the file that was found at a path by its inode alone, which is another's now."""
        for file in [file for file in self._files if file.path == path and not file.seen]:
            self._leave(file)

    def _find_by_inode(self, left: _Found) -> list[Followed]:
        """Finds files again, and takes them out of those that are left; returns the others."""
        paths: dict[tuple[int, int], list[str]] = {}
        for path, status in left.items():
            paths.setdefault(inode_of(status), []).append(path)
        missing = []
        for file in self._files:
            names = paths.get((file.device, file.inode), [])  # several if there are links
            if names and _same(file, names[0], left[names[0]]):
                file.look(names[0], left[names[0]])
                paths[file.device, file.inode] = []
                for name in names:
                    del left[name]
            else:
                missing.append(file)
        for names in paths.values():  # links to one new file
            for name in names[1:]:
                del left[name]
        return missing

    def _find_at_their_paths(self, left: _Found, files: list[Followed]) -> list[Followed]:
        """Files that were copied back: they have another inode, and the same bytes."""
        missing = []
        for file in files:
            status = left.get(file.path)
            if status and _same(file, file.path, status):
                file.look(file.path, left.pop(file.path))
            else:
                missing.append(file)
        return missing

    def _find_outside(self, files: list[Followed]) -> list[Followed]:
        """Files that were renamed to what the pattern does not match, as logs are."""
        lost = [file for file in files if file.here and not _still_there(file)]
        for _ in range(
            2
        ):  # a file that is renamed meanwhile may be missing in a list of its folder
            lost = _not_moved(lost)
        return lost

    def _find_copied(self, left: _Found, files: list[Followed]) -> list[Followed]:
        """Files that were copied or compressed, whether the pattern matches the new name or not."""
        there = moved(os.path.dirname(file.path) for file in files)
        here = {file for file in self._files if file.here and file.seen} - {*files}
        known = {(file.device, file.inode) for file in here}  # of others, inodes are used again
        paths = {path: inode for inode, path in there.items() if inode not in known}
        gone = []
        for file in files:
            if path := self._copies.become(file, paths):
                del paths[path]
                left.pop(path, None)
                self._leave_unread(path)
            else:
                gone.append(file)
        return gone

    def _stream(self, path: str) -> str:
        name, number = path, 1
        while name in self._streams:
            number += 1
            name = f"{path} ({number})"
        self._streams.add(name)
        return name

    def _has_more(self, file: Followed) -> bool:
        if not file.here:
            return False
        file.settled = time.time() - file.changed / 1e9 >= self._settle
        return (file.waits and file.settled) or (file.size, file.changed) != file.drained


def _not_moved(files: list[Followed]) -> list[Followed]:
    inodes = moved(os.path.dirname(file.path) for file in files)
    gone = []
    for file in files:
        path = inodes.get((file.device, file.inode), "")
        status = status_of(path) if path else None
        if status and _same(file, path, status):
            file.look(path, status)
        else:
            gone.append(file)
    return gone


def _still_there(file: Followed) -> bool:
    status = status_of(file.path)
    if status is None or inode_of(status) != (file.device, file.inode):
        return False
    if not _same(file, file.path, status):
        return False
    file.look(file.path, status)
    return True


def _same(file: Followed, path: str, status: os.stat_result) -> bool:
    """Whether the file at a path is one that was read; it is opened if it has changed."""
    if (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns) == (
        *(file.device, file.inode),
        *(file.size, file.changed),
    ):
        return True
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        raise forbidden(path) from None
    except OSError:  # gone meanwhile
        return False
    try:
        return file.is_in(descriptor)
    finally:
        os.close(descriptor)


def _lost(file: Followed) -> SourceError:
    return SourceError(
        f"the file {file.path!r} is gone, or was truncated or replaced, after {file.rows} of its "
        "rows were read and before the others were: put it back, or ALTER SOURCE … SET "
        "(skip_lost true); then RESUME SOURCE"
    )
