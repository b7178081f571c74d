"""Batches of rows of the files that have some."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sized
from datetime import UTC, datetime

import pyarrow as pa

from ivm.cdc.sources.files.facts import facts_of
from ivm.cdc.sources.files.folder import Folder
from ivm.cdc.sources.files.identity import Followed
from ivm.cdc.sources.files.open_file import OpenFile, OpenRows
from ivm.cdc.sources.files.placed import Placed, Run
from ivm.cdc.sources.metadata import Metadata
from ivm.cdc.sources.metadata_part import MetadataPart
from ivm.cdc.sources.source import Batch, Part, Position
from ivm.storage.errors import IvmError

_LARGEST = 32 << 20  # bytes of a batch, past which it takes no more rows
_OPEN = 16  # files that are kept open, so that those that grow are not opened again and again
_SHORTEST, _LONGEST = 0.02, 1.0  # seconds between two looks at the folder
_SHARE = 20  # of the time is left between them, for each that a look takes


class FilesReader:
    """See `Reader`.

    Args:
        folder: whose files are read.
        open_rows: of a file.
        part: makes events of rows.
        metadata: which columns get facts of them.
    """

    def __init__(
        self,
        folder: Folder,
        open_rows: OpenRows,
        part: Callable[[pa.Array], Part],
        metadata: Metadata,
    ) -> None:
        self._folder = folder
        self._open_rows = open_rows
        self._part = part
        self._metadata = metadata
        self._pending: list[Followed] = []
        self._open: dict[str, OpenFile] = {}
        self._held: tuple[Followed, pa.Array] | None = None
        self._failed: IvmError | None = None
        self._pause = _SHORTEST
        self._rows = 0
        self._caught_up = False

    def read(self, limit: int, timeout: float) -> Batch | None:
        """See `Reader`."""
        until = time.monotonic() + timeout
        while True:
            if not self._pending:
                self._scan()
            if batch := self._batch(limit):
                left_over = self._pending or self._held or self._failed or self._folder.waits()
                self._caught_up = not left_over  # with all that the last look has found
                return batch
            left = until - time.monotonic()
            if left <= 0:
                return None
            time.sleep(min(self._pause, left))

    def confirm(self, positions: Mapping[str, Position]) -> None:
        """See `Reader`; files are left as they are."""

    def lag(self) -> int | None:
        """See `Reader`."""
        unread, read = self._folder.unread()
        if not unread:
            return 0
        return max(1, unread * self._rows // read) if self._rows and read else None

    def caught_up(self) -> bool:
        """See `Reader`."""
        return self._caught_up

    def close(self) -> None:
        """See `Reader`."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _scan(self) -> None:
        began = time.monotonic()
        self._pending = self._folder.scan()
        self._caught_up = not (self._pending or self._folder.waits())
        for stream, file in list(self._open.items()):
            if not file.is_here():
                self._open.pop(stream).close()
        took = time.monotonic() - began
        self._pause = min(max(_SHORTEST, _SHARE * took), _LONGEST)

    def _batch(self, limit: int) -> Batch | None:
        taken: list[tuple[Followed, pa.Array]] = []
        count = size = 0
        while count < limit and size < _LARGEST and (found := self._next_but(limit - count, taken)):
            if taken and found[1].type != taken[0][1].type:  # the files have other columns
                self._held = found
                break
            taken.append(found)
            count += len(found[1])
            size += found[1].nbytes
        return self._batch_of(taken) if taken else None

    def _batch_of(self, taken: list[tuple[Followed, pa.Array]]) -> Batch:
        runs = []
        last: dict[str, int] = {}
        for file, rows in reversed(taken):
            end = last.get(file.stream, file.rows)
            last[file.stream] = end - len(rows)
            runs.append(Run(file.stream, end - len(rows) + 1, len(rows)))
        rows = [rows for _, rows in taken]
        part = self._part(rows[0] if len(rows) == 1 else pa.concat_arrays(rows))
        self._rows += len(part)
        newest = datetime.fromtimestamp(max(file.changed for file, _ in taken) / 1e9, UTC)
        positions = {file.stream: file.position() for file, _ in taken}
        placed: Part = Placed(part, runs[::-1])
        if self._metadata:
            changed = [file.changed for file, _ in taken]
            facts = facts_of(runs[::-1], changed, self._metadata.asked)
            placed = MetadataPart(placed, self._metadata, facts)
        return Batch([placed], positions, newest)

    def _next_but(self, limit: int, taken: Sized) -> tuple[Followed, pa.Array] | None:
        """The next rows; an error is kept until the rows before it are applied."""
        if self._failed is not None:
            raise self._failed
        try:
            return self._next(limit)
        except IvmError as error:
            if not taken:
                raise
            self._failed = error
            return None

    def _next(self, limit: int) -> tuple[Followed, pa.Array] | None:
        """The next rows of the first file that has some."""
        if found := self._held:
            self._held = None
            return found
        while self._pending:
            file = self._pending[0]
            rows = self._take(file, limit)
            if rows is not None:
                return file, rows
            self._pending.pop(0)
        return None

    def _take(self, file: Followed, limit: int) -> pa.Array | None:
        """The next rows of a file, None if it has none for now."""
        opened = self._open.pop(file.stream, None)
        if opened is None:
            try:
                opened = OpenFile(file, self._open_rows)
            except FileNotFoundError:  # the next look at the folder tells where it is
                return None
        self._open[file.stream] = opened
        if len(self._open) > _OPEN:
            self._open.pop(next(iter(self._open))).close()
        return opened.take(limit)
