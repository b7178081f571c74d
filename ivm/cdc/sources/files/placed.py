"""Events of one table that come out of runs of rows of several files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from ivm.cdc.formats.events import Decoded
from ivm.cdc.sources.source import Part, Upstream
from ivm.storage.warehouse.duck import Cursor
from ivm.storage.warehouse.table_info import TableInfo


class Run(NamedTuple):
    """Rows of one file that follow one another.

    Attributes:
        first: the number of the first one; the first of a file is 1.
    """

    stream: str
    first: int
    length: int


@dataclass(frozen=True)
class Placed:
    """A part whose events stand in files; see `Part`.

    Attributes:
        events: in the order of the runs.
    """

    events: Part
    runs: Sequence[Run]

    @property
    def table(self) -> str:
        return self.events.table

    @property
    def upstream(self) -> Upstream | None:
        return None

    @property
    def version(self) -> str:
        return self.events.version

    def __len__(self) -> int:
        return len(self.events)

    def decode(self, cursor: Cursor, info: TableInfo) -> Decoded:
        """See `Part`."""
        return self.events.decode(cursor, info)

    def payloads(self, lines: Sequence[int]) -> list[str | None]:
        """See `Part`."""
        found = self.events.payloads(lines)
        return [None if text is None else text.rstrip("\r\n") for text in found]

    def places(self, lines: Sequence[int]) -> list[tuple[str, int | None]]:
        """See `Part`."""
        starts = [0, *accumulate(run.length for run in self.runs)]
        runs = [bisect_right(starts, line) - 1 for line in lines]
        return [
            (self.runs[run].stream, self.runs[run].first + line - starts[run])
            for run, line in zip(runs, lines, strict=True)
        ]
