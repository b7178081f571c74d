"""What a connector leaves upstream: PostgreSQL's replication slot and publication.

Law: a slot is the source's own if its position tells of it. It is removed before a copy begins
anew, since only a new slot comes with a snapshot to copy from, and when the source is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ivm.cdc.sources.debezium.errors import told_by
from ivm.cdc.sources.debezium.jvm import java
from ivm.cdc.sources.debezium.properties import engine_properties
from ivm.storage.errors import UnavailableError

_POSTGRES = "io.debezium.connector.postgresql."


def remove(slot: str, name: str, properties: Mapping[str, str]) -> None:
    """Removes a slot and the publication of its name, if they are there.

    Args:
        slot: its name.
        name: of the source.
        properties: of the user, secrets included.

    Raises:
        UnavailableError: the upstream does not answer, or refuses; the message says what is left.
    """
    try:
        with _connection(name, properties) as connection:
            there = connection.getReplicationSlotState(slot, "pgoutput") is not None
            if there and not connection.dropReplicationSlot(slot):
                raise _left(slot, "it is not dropped")
            connection.dropPublication(slot)
    except java("java.lang.Exception") as error:
        raise _left(slot, told_by(error)) from error


def _left(slot: str, why: str) -> UnavailableError:
    return UnavailableError(
        f"PostgreSQL's replication slot {slot!r} may be left, which keeps the server's log: {why}. "
        f"When it answers, run there: SELECT pg_drop_replication_slot('{slot}'); "
        f"DROP PUBLICATION IF EXISTS {slot}"
    )


@contextmanager
def _connection(name: str, properties: Mapping[str, str]) -> Iterator[Any]:
    settings = java("java.util.HashMap")()
    for key, value in engine_properties("postgresql", name, properties).items():
        settings.put(key, value)
    config = java(_POSTGRES + "PostgresConnectorConfig")(
        java("io.debezium.config.Configuration").from_(settings)
    )
    found = java(_POSTGRES + "connection.PostgresConnection")(config.getJdbcConfig(), "ivm")
    try:
        yield found
    finally:
        found.close()
