"""Events of one table that come out of runs of rows of several files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from ivm.cdc.sources.other_places import OtherPlaces


class Run(NamedTuple):
    """Rows of one file that follow one another.

    Attributes:
        first: the number of the first one; the first of a file is 1.
    """

    stream: str
    first: int
    length: int


@dataclass(frozen=True)
class Placed(OtherPlaces):
    """Events that stand in files, in the order of the runs; see `Part`."""

    runs: Sequence[Run]

    def payloads(self, lines: Sequence[int]) -> list[str | None]:
        """See `Part`."""
        found = self.part.payloads(lines)
        return [None if text is None else text.rstrip("\r\n") for text in found]

    def places(self, lines: Sequence[int]) -> list[tuple[str, int | None]]:
        """See `Part`."""
        starts = [0, *accumulate(run.length for run in self.runs)]
        runs = [bisect_right(starts, line) - 1 for line in lines]
        return [
            (self.runs[run].stream, self.runs[run].first + line - starts[run])
            for run, line in zip(runs, lines, strict=True)
        ]
