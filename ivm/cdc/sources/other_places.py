"""A part whose events stand elsewhere than it says itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ivm.cdc.formats.events import Decoded
from ivm.cdc.sources.source import Part
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo


@dataclass(frozen=True)
class OtherPlaces(ABC):
    """The events of another part; a subclass gives their payloads and places. See `Part`."""

    part: Part

    @property
    def table(self) -> str:
        """See `Part`."""
        return self.part.table

    @property
    def upstream(self) -> None:
        """See `Part`: they are read as the table is."""
        return None

    @property
    def version(self) -> str:
        """See `Part`."""
        return self.part.version

    @property
    def tables(self) -> tuple[str, ...]:
        """See `Part`."""
        return self.part.tables

    @property
    def is_exact(self) -> bool:
        """See `Part`."""
        return self.part.is_exact

    def __len__(self) -> int:
        return len(self.part)

    def decode(self, cursor: Cursor, info: TableInfo) -> Decoded:
        """See `Part`."""
        return self.part.decode(cursor, info)

    def befores(self, cursor: Cursor, info: TableInfo, lines: Sequence[int]) -> Decoded | None:
        """See `Part`."""
        return self.part.befores(cursor, info, lines)

    def keyed(self, cursor: Cursor, key: TableInfo, lines: Sequence[int]) -> Decoded:
        """See `Part`."""
        return self.part.keyed(cursor, key, lines)

    @abstractmethod
    def payloads(self, lines: Sequence[int]) -> list[str | None]:
        """See `Part`."""

    @abstractmethod
    def places(self, lines: Sequence[int]) -> list[tuple[str, int | None]]:
        """See `Part`."""
