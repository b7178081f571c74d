"""The backlog of one sink: which rows of the outbox are its own, and the payloads of the last ones.

Invariant: the keys are all the sink's rows of the outbox, ascending; the payloads in memory are
those of the last of them, of `MOST_BYTES` together. A sink that lags behind reads the table.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque

from ivm.engine.feeds.outbox_rows import Part

MOST_BYTES = 16 << 20
"""Of the payloads that are kept in memory for a sink."""


class Backlog:
    """The rows of one sink; the caller sees to it that one thread uses it at a time."""

    def __init__(self) -> None:
        self.epochs, self.parts, self.counts = array("q"), array("q"), array("q")
        self._recent: deque[Part] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self.epochs)

    @property
    def rows(self) -> int:
        """Rows of all deltas."""
        return sum(self.counts)

    def keys(self, through: int | None = None) -> list[tuple[int, int]]:
        """Epoch and part of all rows, or of those of the epochs up to one."""
        count = len(self) if through is None else bisect_right(self.epochs, through)
        return list(zip(self.epochs[:count], self.parts[:count], strict=True))

    def rows_of(self, after: int, last: int) -> int:
        """Rows of the deltas after one epoch up to another one."""
        first, end = bisect_right(self.epochs, after), bisect_right(self.epochs, last)
        return sum(self.counts[first:end])

    def add(self, epoch: int, part: int, rows: int) -> None:
        """Appends a row whose payload is in the table alone."""
        self.epochs.append(epoch)
        self.parts.append(part)
        self.counts.append(rows)

    def put(self, part: Part) -> None:
        """Appends a row of the epoch that has just been committed."""
        self.add(part.epoch, part.part, part.rows)
        self._recent.append(part)
        self._bytes += len(part.payload)
        while self._bytes > MOST_BYTES:
            self._bytes -= len(self._recent.popleft().payload)

    def drop(self, through: int) -> None:
        """Removes the rows of the epochs up to and including this one."""
        count = bisect_right(self.epochs, through)
        for values in (self.epochs, self.parts, self.counts):
            del values[:count]
        while self._recent and self._recent[0].epoch <= through:
            self._bytes -= len(self._recent.popleft().payload)

    def recent(self, after: int, most: int) -> list[Part] | None:
        """The first rows after an epoch, whole epochs of at least `most` rows in all.

        Args:
            after: an epoch.
            most: rows of deltas, beyond which no further epoch is begun.

        Returns:
            None if their payloads are not all in memory.
        """
        first = bisect_right(self.epochs, after)
        if first == len(self):
            return []
        ahead = self._recent[0] if self._recent else None
        if ahead is None or (ahead.epoch, ahead.part) > (self.epochs[first], self.parts[first]):
            return None
        last = self.last_of(after, most)
        return [part for part in self._recent if after < part.epoch <= last]

    def last_of(self, after: int, most: int) -> int:
        """The last epoch of the batch that `recent` describes."""
        at, rows = bisect_right(self.epochs, after), 0
        last = after
        while at < len(self) and (rows < most or self.epochs[at] == last):
            last = self.epochs[at]
            rows += self.counts[at]
            at += 1
        return last
