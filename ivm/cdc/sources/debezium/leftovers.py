"""What a connector leaves upstream: PostgreSQL's replication slot and publication.

Law: a slot is the source's own if its name was not given by the user, and the source has begun. It
is removed before a copy begins anew, since only a new slot comes with a snapshot to copy from, and
when the source is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ivm.cdc.sources.debezium.errors import meaning
from ivm.cdc.sources.debezium.jvm import java
from ivm.cdc.sources.debezium.properties import engine_properties, prefix_of
from ivm.cdc.sources.source import SourceError

_POSTGRES = "io.debezium.connector.postgresql."


def demand_none(connector: str, name: str, properties: Mapping[str, str]) -> None:
    """Refuses a slot that is there before a source has begun: it may be another's.

    Raises:
        UnavailableError: the upstream does not answer.
        SourceError: there is one.
    """
    if not _has_own(connector, properties):
        return
    slot = prefix_of(name)
    with _connection(name, properties) as connection:
        found = connection.getReplicationSlotState(slot, "pgoutput")
    if found is not None:
        raise SourceError(
            f"PostgreSQL has a replication slot {slot!r} already, which may be another source's: "
            f"drop it there (SELECT pg_drop_replication_slot('{slot}')), or give this source "
            "another name"
        )


def remove(connector: str, name: str, properties: Mapping[str, str]) -> None:
    """Removes what the source has left upstream.

    Raises:
        UnavailableError: the upstream does not answer.
        SourceError: it refuses.
    """
    if not _has_own(connector, properties):
        return
    slot = prefix_of(name)
    with _connection(name, properties) as connection:
        there = connection.getReplicationSlotState(slot, "pgoutput") is not None
        if there and not connection.dropReplicationSlot(slot):
            raise SourceError(
                f"the replication slot {slot!r} cannot be dropped: drop it in PostgreSQL "
                f"(SELECT pg_drop_replication_slot('{slot}'))"
            )
        connection.dropPublication(slot)


def _has_own(connector: str, properties: Mapping[str, str]) -> bool:
    return connector == "postgresql" and "slot.name" not in properties


@contextmanager
def _connection(name: str, properties: Mapping[str, str]) -> Iterator[Any]:
    given = engine_properties("postgresql", name, properties, {})
    settings = java("java.util.HashMap")()
    for key, value in given.items():
        settings.put(key, value)
    try:
        config = java(_POSTGRES + "PostgresConnectorConfig")(
            java("io.debezium.config.Configuration").from_(settings)
        )
        found = java(_POSTGRES + "connection.PostgresConnection")(config.getJdbcConfig(), "ivm")
        try:
            yield found
        finally:
            found.close()
    except java("java.lang.Exception") as error:
        raise meaning(error, "PostgreSQL cannot be asked for the slot") from error
