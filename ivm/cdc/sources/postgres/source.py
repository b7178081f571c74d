"""PostgreSQL as a source: `CREATE SOURCE shop FROM POSTGRES (dsn '…', tables '…')`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import ClassVar

from ivm.cdc.sources.metadata import Facts, Metadata, parse_metadata
from ivm.cdc.sources.postgres.connections.table_names import TableName, listed, table_names
from ivm.cdc.sources.postgres.rows.facts import FACTS
from ivm.cdc.sources.postgres.settings import Settings
from ivm.cdc.sources.source import Into, Limits, Part, PartOf, Position, Reader
from ivm.storage.errors import InputError
from ivm.storage.identifiers import fold


@dataclass(frozen=True, kw_only=True)
class Postgres(Limits):
    """Tables of a PostgreSQL database, by logical replication.

    Attributes:
        dsn: of the database, as libpq reads it; without a password.
        tables: upstream, `public.orders, "Odd schema"."Odd name"`.
        slot: the replication slot, `ivm_<source>` by default.
        publication: its name, the slot's by default.
        create_slot: makes slot and publication, and removes them when the source is dropped; else
            they are there, and stay.
        streaming: large transactions are sent before their commits.
        copies: how many tables are copied at a time.
        metadata: which columns get facts of a change, see `parse_metadata` and `FACTS`.
    """

    kind: ClassVar[str] = "POSTGRES"
    into: ClassVar[Into] = "optional"
    stays: ClassVar[str] = (
        "PostgreSQL's slot cannot go back, and the changes that it passed over would be lost. To "
        "have a table copied anew, ALTER SOURCE … DROP TABLE, RESUME SOURCE, and ADD TABLE"
    )
    facts: ClassVar[Facts] = FACTS

    dsn: str
    tables: str
    slot: str = ""
    publication: str = ""
    create_slot: bool = True
    streaming: bool = True
    copies: int = 2
    metadata: str = ""

    def __post_init__(self) -> None:
        _upstream().check_dsn(self.dsn)
        table_names(self.tables)
        self.told()
        if self.copies < 1:
            raise InputError(f"the option 'copies' is at least 1, not {self.copies}")

    def open(self, name: str, into: str | None, positions: Mapping[str, Position]) -> Reader:
        """See `Source`."""
        reader: Reader = _upstream().PostgresReader(self._settings(name, into), positions)
        return reader

    def part(self, table: str, payloads: Sequence[str | None]) -> Part:
        """See `Source`."""
        return self.asked(table)(payloads)

    def asked(self, table: str) -> PartOf:
        """See `AsksUpstream`."""
        found: PartOf = _upstream().parts_of(self.dsn, table, self._named(table))
        return found

    def told(self) -> Metadata:
        """See `TellsFacts`."""
        return parse_metadata(self.metadata, FACTS, appends=False)

    def tables_of(self, into: str | None) -> list[str]:
        """See `TellsFacts`."""
        return [*self.ours()] if into is None else [into]

    def ours(self) -> Sequence[str]:
        """See `OfTables`."""
        return [name.canonical for name in table_names(self.tables)]

    def with_tables(self, tables: str, *, add: bool) -> Postgres:
        """See `OfTables`."""
        names = table_names(self.tables)
        for table in table_names(tables):
            if (table in names) == add:
                raise InputError(f"the source has {'' if add else 'no '}table {table.sql}")
            names = [*names, table] if add else [name for name in names if name != table]
        return replace(self, tables=listed(names))

    def forget(self, name: str, positions: Mapping[str, Position]) -> None:
        """See `Source`; before it has begun, a slot of its name is another's."""
        if self.create_slot:
            _upstream().remove(self._settings(name, None), positions)

    def _settings(self, name: str, into: str | None) -> Settings:
        tables = tuple(table_names(self.tables))
        if into is not None and len(tables) > 1:
            raise InputError("INTO names one table, and the option 'tables' several")
        slot = self.slot or "ivm_" + re.sub("[^a-z0-9_]", "_", name)
        return Settings(
            *(self.dsn, tables, into, slot, self.publication or slot),
            *(self.create_slot, self.streaming, self.copies, self.told()),
        )

    def _named(self, table: str) -> TableName:
        """The upstream table of ours, by our table's canonical name."""
        names = table_names(self.tables)
        found = [name for name in names if fold(name.canonical) == fold(table)]
        return found[0] if found else names[0]  # the only one, if INTO names ours


def _upstream() -> ModuleType:
    """The module that needs the drivers, which take long to import."""
    from ivm.cdc.sources.postgres import upstream

    return upstream
