"""What the definition of a source does with its server; importing it imports the drivers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing

import numpy as np

from ivm.cdc.sources.postgres.connections.server import ask, check_dsn, connect
from ivm.cdc.sources.postgres.connections.table_names import TableName
from ivm.cdc.sources.postgres.log import slot as slots
from ivm.cdc.sources.postgres.reader import STREAM, PostgresReader
from ivm.cdc.sources.postgres.rows.parts import PostgresPart
from ivm.cdc.sources.postgres.rows.texts import from_payloads
from ivm.cdc.sources.postgres.settings import Settings
from ivm.cdc.sources.postgres.tables.described import Catalog
from ivm.cdc.sources.source import Part, PartOf, Position
from ivm.storage.errors import IvmError, UnavailableError
from ivm.storage.identifiers import literal, quote

__all__ = ["PostgresReader", "check_dsn", "parts_of", "remove"]

_PATIENCE = 5.0  # seconds for a reader that has ended to let go of its slot


def parts_of(dsn: str, table: str, name: TableName) -> PartOf:
    """What makes parts of one of our tables, as its upstream table is now; see `AsksUpstream`."""
    with closing(Catalog(dsn, table)) as catalog:
        described = catalog.described(catalog.table(name))

    def part(payloads: Sequence[str | None]) -> Part:
        texts = from_payloads([payload or "{}" for payload in payloads])
        return PostgresPart(described, texts, np.arange(len(payloads)))

    return part


def remove(settings: Settings, positions: Mapping[str, Position]) -> None:
    """Removes slot and publication; before the source has begun, they are another's.

    Raises:
        UnavailableError: the server does not answer, or refuses; the message says what is left.
    """
    if STREAM not in positions:
        return
    try:
        _remove(settings)
    except IvmError as error:
        raise UnavailableError(
            f"the source is dropped, but PostgreSQL's replication slot {settings.slot!r} may be "
            f"left, which keeps the server's log: {error}. When it answers, run there: SELECT "
            f"pg_drop_replication_slot({literal(settings.slot)}); DROP PUBLICATION IF EXISTS "
            f"{quote(settings.publication)}"
        ) from error


def _remove(settings: Settings) -> None:
    with closing(connect(settings.dsn)) as connection:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                slots.drop_slot(connection, settings.slot)
                break
            except UnavailableError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
        ask(connection, f"DROP PUBLICATION IF EXISTS {quote(settings.publication)}")
