"""Changes of one table in a batch of a PostgreSQL source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ivm.cdc.formats.events import Decoded
from ivm.cdc.sources.postgres.connections.types import Reading
from ivm.cdc.sources.postgres.log import messages as wire
from ivm.cdc.sources.postgres.rows.decode import decode
from ivm.cdc.sources.postgres.rows.texts import Texts
from ivm.cdc.sources.source import SourceError, Upstream
from ivm.storage.identifiers import fold
from ivm.storage.values.column import Indexes
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.tables.table_info import TableInfo


@dataclass(frozen=True)
class Described:
    """An upstream table as its rows are sent.

    Attributes:
        ours: the name of our table, in SQL.
        upstream: its columns and key.
        readings: how the columns' values are read, by name.
        found_by: the columns by which updates and deletes tell their rows; None if by all.
        before: the texts of the values that rows have which are older than a column, by column.
    """

    ours: str
    upstream: Upstream
    readings: Mapping[str, Reading]
    found_by: frozenset[str] | None
    before: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PostgresPart:
    """Changes in order; see `Part`.

    Attributes:
        described: their table.
        texts: the changes.
        lines: int64[n], their numbers in the batch.
        truncates: the numbers of the changes that empty the table.
        stream: from which they come.
        position: of the batch in the stream.
    """

    described: Described
    texts: Texts
    lines: Indexes
    truncates: list[int] = field(default_factory=list)
    stream: str = ""
    position: int | None = None

    @property
    def table(self) -> str:
        """See `Part`."""
        return self.described.ours

    @property
    def version(self) -> str:
        """See `Part`: the order is that of the commits, and nothing comes late."""
        return ""

    @property
    def upstream(self) -> Upstream:
        """See `Part`."""
        return self.described.upstream

    def __len__(self) -> int:
        return len(self.texts) + len(self.truncates)

    def decode(self, cursor: Cursor, info: TableInfo) -> Decoded:
        """See `Part`.

        Raises:
            SourceError: the changes do not tell which rows of our table they change.
        """
        if (self.texts.kinds != wire.INSERT).any():
            self._demand_key(info)
        decoded = decode(cursor, self.texts, self.described.readings, info, self.lines)
        return replace(decoded, truncates=self.truncates)

    @property
    def tables(self) -> tuple[str, ...]:
        """See `Part`."""
        return ()

    @property
    def is_exact(self) -> bool:
        """See `Part`."""
        return self.described.found_by is None

    def befores(self, cursor: Cursor, info: TableInfo, lines: Sequence[int]) -> Decoded | None:
        """See `Part`."""
        if not self.is_exact:
            return None
        rows = self.texts.before(np.searchsorted(self.lines, lines))
        return decode(cursor, rows, self.described.readings, info, np.arange(len(rows)))

    def keyed(self, cursor: Cursor, key: TableInfo, lines: Sequence[int]) -> Decoded:
        """See `Part`."""
        rows = self.texts.some(np.searchsorted(self.lines, lines))
        return decode(cursor, rows, self.described.readings, key, np.arange(len(rows)))

    def payloads(self, lines: Sequence[int]) -> list[str | None]:
        """See `Part`."""
        return [*self.texts.payloads(np.searchsorted(self.lines, lines).tolist())]

    def places(self, lines: Sequence[int]) -> list[tuple[str, int | None]]:
        """See `Part`."""
        return [(self.stream, self.position) for _ in lines]

    def _demand_key(self, info: TableInfo) -> None:
        told = self.described.found_by
        if told is None:
            return
        ours = [info.schema[i][0] for i in info.primary_key]
        if not ours or not {fold(name) for name in ours} <= {fold(name) for name in told}:
            key = f"the primary key ({', '.join(ours)})" if ours else "no primary key"
            raise SourceError(
                f"table {info.name!r} has {key}, but the changes of PostgreSQL tell their rows by "
                f"({', '.join(sorted(told))}). Run in PostgreSQL: ALTER TABLE … REPLICA IDENTITY "
                "FULL, or let both have the same key"
            )
