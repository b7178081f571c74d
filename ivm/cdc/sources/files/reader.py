"""Batches of rows of the files that have some."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import pyarrow as pa

from ivm.cdc.sources.files.folder import Folder
from ivm.cdc.sources.files.identity import Followed
from ivm.cdc.sources.files.open_file import OpenFile, OpenRows
from ivm.cdc.sources.files.placed import Placed, Run
from ivm.cdc.sources.source import Batch, Part, Position

_OPEN = 16  # files that are kept open, so that those that grow are not opened again and again
_SHORTEST, _LONGEST = 0.02, 1.0  # seconds between two looks at the folder
_SHARE = 20  # of the time is left between them, for each that a look takes


class FilesReader:
    """See `Reader`.

    Args:
        folder: whose files are read.
        open_rows: of a file.
        part: makes events of rows.
    """

    def __init__(
        self, folder: Folder, open_rows: OpenRows, part: Callable[[pa.Array], Part]
    ) -> None:
        self._folder = folder
        self._open_rows = open_rows
        self._part = part
        self._pending: list[Followed] = []
        self._open: dict[str, OpenFile] = {}
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
                self._caught_up = False
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
        runs: list[Run] = []
        rows: list[pa.Array] = []
        reached: dict[str, Followed] = {}
        count = 0
        while self._pending and count < limit:
            file = self._pending[0]
            found = self._take(file, limit - count)
            if found is None:
                self._pending.pop(0)
                continue
            runs.append(Run(file.stream, file.rows - len(found) + 1, len(found)))
            rows.append(found)
            reached[file.stream] = file
            count += len(found)
        if not rows:
            return None
        self._rows += count
        part = Placed(self._part(rows[0] if len(rows) == 1 else pa.concat_arrays(rows)), runs)
        positions = {stream: file.position() for stream, file in reached.items()}
        newest = max(file.changed for file in reached.values())
        return Batch([part], positions, datetime.fromtimestamp(newest / 1e9, UTC))

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
