"""Files of events: those there are, as they grow, and those that come."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from ivm.cdc.formats.envelopes import envelope_of
from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.sources.files.folder import Folder
from ivm.cdc.sources.files.lines import Lines
from ivm.cdc.sources.files.reader import FilesReader
from ivm.cdc.sources.json_part import JsonPart
from ivm.cdc.sources.source import Into, Limits, Part, Position, Reader


@dataclass(frozen=True)
class Files(Limits):
    """Files that match a pattern, followed as they grow and as new ones come.

    Args:
        path: of one file, or a pattern with `*`, `?`, `[…]` and `**`; a relative one is taken from
            the folder of the process that creates the source, and kept as an absolute one.
        format: of the events, see `Database.ingest`.
        times, decimals: see `Database.ingest`.
        settle: seconds that a file must not have changed for its last line to be taken without an
            end of line.
        skip_lost: go on without the rows of files that were gone before they were read to the end.

    Raises:
        InputError: there is no such format, or it does not go with the other options.
    """

    kind: ClassVar[str] = "FILES"
    into: ClassVar[Into] = "required"

    path: str
    format: str
    times: str | None = None
    decimals: str | None = None
    settle: float = 5.0
    skip_lost: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.path.abspath(os.path.expanduser(self.path)))
        self._envelope()

    def open(self, name: str, into: str | None, positions: Mapping[str, Position]) -> Reader:
        """See `Source`."""
        folder = Folder(self.path, self.settle, self.skip_lost, positions)
        return FilesReader(folder, Lines, lambda rows: self._part(into or "", rows))

    def part(self, table: str, payloads: Sequence[str | None]) -> Part:
        """See `Source`."""
        return self._part(table, pa.array(payloads, pa.large_string()))

    def forget(self, name: str) -> None:
        """See `Source`; files keep nothing of it."""

    def _part(self, table: str, lines: pa.Array) -> Part:
        return JsonPart(table, lines, self._envelope(), "")

    def _envelope(self) -> Envelope:
        return envelope_of(self.format, self.times, self.decimals, self.version)
