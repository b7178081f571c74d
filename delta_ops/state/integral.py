"""An integral: an immutable sum of Z-sets to be read as a whole, without an index.

Law: the batches add up to the sum of the deltas appended; each is at least twice as long as all
newer ones, so there are few of them, and rows that cancel vanish when batches are merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import ColumnType
from ivm.storage.values.zset import ZSet, add


class Integral:
    """Rows of `types` with net weights."""

    __slots__ = ("_types", "batches")

    def __init__(self, types: Sequence[ColumnType], batches: tuple[ZSet, ...] = ()) -> None:
        self._types = tuple(types)
        self.batches = batches

    @staticmethod
    def build(types: Sequence[ColumnType], chunks: Iterable[ZSet]) -> Integral:
        """The integral of the chunks' sum."""
        kept = [c for c in chunks if len(c)]
        return Integral(types, (consolidate(add(kept), types),) if kept else ())

    def append(self, delta: ZSet) -> Integral:
        """The integral with a delta added; this one stays as it is."""
        if not len(delta):
            return self
        batches = [*self.batches, delta]
        while len(batches) > 1 and len(batches[-2]) < 2 * len(batches[-1]):
            merged = consolidate(add(batches[-2:]), self._types)
            batches[-2:] = [merged] if len(merged) else []
        return Integral(self._types, tuple(batches))

    @property
    def row_count(self) -> int:
        return sum(len(b) for b in self.batches)

    @property
    def nbytes(self) -> int:
        return sum(b.nbytes for b in self.batches)
