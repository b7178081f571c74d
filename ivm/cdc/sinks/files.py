"""Sinks to FILES: lines appended to one file.

Law: the file's epochs ascend. Opening it cuts off what comes after the last acknowledged epoch, and
a torn last line; both are written again. So each epoch is in the file once, whole.
Limit: a file that was moved away is begun anew, with the epochs from there on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from ivm.cdc.sinks.encode import FORMATS, demand_format
from ivm.cdc.sinks.target import SinkTo
from ivm.storage.durable_files import sync_data, sync_folder, write_all
from ivm.storage.errors import InputError, UnavailableError
from ivm.storage.file_modes import share

_BLOCK = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Files:
    """A sink to a file of JSON lines.

    Attributes:
        path: of the file, made if it is not there.
        format: `jsonl` or `debezium`.
        snapshot: whether it begins with the rows that the view has.
    """

    kind: ClassVar[str] = "FILES"
    keyed: ClassVar[bool] = False
    path: str
    format: str = "jsonl"
    snapshot: bool = True

    def prepared(self, others: Iterable[SinkTo]) -> Files:
        """See `SinkTo`: the path becomes absolute."""
        demand_format(self.format)
        path = Path(self.path).absolute()
        if not path.parent.is_dir():
            raise InputError(f"there is no folder {path.parent}: make it first")
        if any(isinstance(other, Files) and _is_one_file(other.path, path) for other in others):
            raise InputError(f"another sink writes to {path}: choose another file")
        if path.exists() and not (path.is_file() and path.stat().st_size == 0):
            raise InputError(f"{path} is there already: a sink begins a new file; choose another")
        return replace(self, path=str(path))

    def target(self) -> FilesTarget:
        """See `SinkTo`."""
        return FilesTarget(Path(self.path), FORMATS[self.format].epoch_of)


def _is_one_file(one: str, other: Path) -> bool:
    """Whether two names lead to one file, through `..` and links too."""
    return os.path.realpath(one) == os.path.realpath(other)


class FilesTarget:
    """One file that lines are appended to.

    Args:
        path: of the file; its folder exists.
        epoch_of: the epoch of a line that was read as JSON.
    """

    def __init__(self, path: Path, epoch_of: Callable[[Any], int]) -> None:
        self._path = path
        self._epoch_of = epoch_of
        self._fd = -1
        self._epoch = 0
        self._end = 0  # of the file, as this sink has written it
        self._is_flushed = True

    def open(self, last_epoch: int) -> None:
        """See `Target`.

        Raises:
            UnavailableError: a line of the file is not one of this sink.
        """
        fresh = not self._path.exists()
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        if fresh:
            share(self._fd, 0o644)
            sync_folder(self._path.parent)
        end = self._end_of(last_epoch)
        if end < os.fstat(self._fd).st_size:
            os.ftruncate(self._fd, end)
            sync_data(self._fd)
        self._epoch, self._end = last_epoch, end

    def write(self, epoch: int, lines: pa.Array, keys: pa.Array | None) -> None:
        """See `Target`.

        Raises:
            UnavailableError: the file is no longer there, or not as this sink has written it.
        """
        if self._is_flushed:
            self._demand_own()
        self._epoch, self._is_flushed = epoch, False
        ended = pc.binary_join_element_wise(lines, "\n", "").cast(pa.large_string())
        _, offsets, data = ended.buffers()
        if len(ended):
            ends = memoryview(offsets).cast("q")
            first, last = ends[ended.offset], ends[ended.offset + len(ended)]
            write_all(self._fd, [memoryview(data)[first:last]])
            self._end += last - first

    def flush(self) -> int:
        """See `Target`.

        Raises:
            UnavailableError: as `write`; what was written is to be written again.
        """
        sync_data(self._fd)
        self._demand_own()
        self._is_flushed = True
        return self._epoch

    def close(self) -> None:
        """See `Target`."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _demand_own(self) -> None:
        own = os.fstat(self._fd)
        try:
            is_there = os.path.samestat(self._path.stat(), own)
        except FileNotFoundError:
            is_there = False
        if not is_there or own.st_size != self._end:
            raise UnavailableError(f"{self._path} was moved away or changed: it is opened again")

    # -- finding the end ------------------------------------------------------------------------

    def _end_of(self, last_epoch: int) -> int:
        """The offset behind the last whole line of an epoch up to this one, by bisection."""
        low, high = 0, os.fstat(self._fd).st_size  # all lines before low are kept, none from high
        while low < high:
            start, end = self._line_at((low + high) // 2, low)
            line = os.pread(self._fd, end - start, start)
            if line.endswith(b"\n") and self._epoch_in(line, start) <= last_epoch:
                low = end
            else:
                high = start
        return low

    def _line_at(self, offset: int, low: int) -> tuple[int, int]:
        """Where the line that holds a byte begins and ends; a line begins at `low`."""
        start = offset
        while start > low:
            begin = max(low, start - _BLOCK)
            at = os.pread(self._fd, start - begin, begin).rfind(b"\n")
            if at >= 0:
                start = begin + at + 1
                break
            start = begin
        end = offset
        while block := os.pread(self._fd, _BLOCK, end):
            at = block.find(b"\n")
            if at >= 0:
                return start, end + at + 1
            end += len(block)
        return start, end

    def _epoch_in(self, line: bytes, start: int) -> int:
        try:
            return self._epoch_of(json.loads(line))
        except (ValueError, LookupError, TypeError) as error:
            raise UnavailableError(
                f"{self._path} has a line at byte {start} that this sink has not written: move the "
                "file away, and the sink begins a new one; or DROP SINK"
            ) from error
