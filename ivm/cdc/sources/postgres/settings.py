"""What a reader of a PostgreSQL source is told."""

from __future__ import annotations

from dataclasses import dataclass

from ivm.cdc.sources.metadata import Metadata
from ivm.cdc.sources.postgres.connections.table_names import TableName


@dataclass(frozen=True)
class Settings:
    """The options of a source, read.

    Attributes:
        dsn: of the database.
        tables: upstream.
        into: the name of our table, if it is not the only upstream table's own.
        slot: its name.
        publication: its name.
        create_slot: slot and publication are made where they are lacking.
        streaming: large transactions are sent before their commits.
        copies: how many tables are copied at a time.
        metadata: which columns get facts of changes.
    """

    dsn: str
    tables: tuple[TableName, ...]
    into: str | None
    slot: str
    publication: str
    create_slot: bool
    streaming: bool
    copies: int
    metadata: Metadata
