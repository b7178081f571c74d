"""The properties of Debezium's engine: those a user gives, and those that are the source's own."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from ivm.cdc.sources.secrets import demand_no_secret
from ivm.storage.errors import InputError

CONNECTORS = {
    "mysql": "io.debezium.connector.mysql.MySqlConnector",
    "postgresql": "io.debezium.connector.postgresql.PostgresConnector",
    "sqlserver": "io.debezium.connector.sqlserver.SqlServerConnector",
    "oracle": "io.debezium.connector.oracle.OracleConnector",
    "db2": "io.debezium.connector.db2.Db2Connector",
}
"""The connectors by their names in SQL."""

_KEPT = "positions and the history of the schema are kept in the database"
_FORM = "it would change what the events look like"
_LOST = "changes could be lost"
_OWN = {
    "connector.class": "the option connector names it",
    "tasks.max": "a source is one task",
    "topic.": "the source's name is the prefix, and tables keep their names",
    "offset.": _KEPT,
    "schema.history.internal": _KEPT,
    "include.schema.changes": "columns come with the events",
    "provide.transaction.metadata": "transactions are never split",
    "transaction.": "transactions are never split",
    "tombstones.on.delete": _FORM,
    "unavailable.value.placeholder": _FORM,
    **dict.fromkeys(("transforms.", "predicates.", "converter.", "key.", "value."), _FORM),
    **dict.fromkeys(("schema.name.adjustment.mode", "field.name.adjustment.mode"), _FORM),
    **dict.fromkeys(("errors.", "event.", "skipped.operations", "slot.drop.on.stop"), _LOST),
    "record.processing.": "the source reads the events in their order",
    **dict.fromkeys(("signal.", "notification.", "incremental."), "the source copies by itself"),
    "custom.metric.tags": "they tell the engines of this process apart",
}
"""By the beginnings of the names of properties, why they cannot be set."""
_MODES = ("initial", "no_data")
_LISTS = re.compile(
    r"(database|schema|table|column)\.(include|exclude)\.list|database\.(names|dbname)"
)
_IN_URL = re.compile(r"://[^/@\s]*:[^/@\s]+@|password=", re.IGNORECASE)

_NONE: dict[str, str] = {}
_ALWAYS = {
    "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
    "offset.flush.interval.ms": "0",
    "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
    "include.schema.changes": "false",
    "provide.transaction.metadata": "true",
    "tombstones.on.delete": "false",
    "skipped.operations": "none",
    "converter.schemas.enable": "false",
    "errors.max.retries": "0",
}
_DEFAULTS = {
    "snapshot.mode": "initial",
    "max.batch.size": "2048",
    "max.queue.size": "8192",
    "max.queue.size.in.bytes": str(32 << 20),
    "poll.interval.ms": "50",
    "heartbeat.interval.ms": "5000",
    "retriable.restart.connector.wait.ms": "100",
    "schema.history.internal.store.only.captured.tables.ddl": "true",
}


def demand_allowed(properties: Mapping[str, str]) -> None:
    """Refuses properties that are the source's own, and secrets.

    Raises:
        InputError: there is one.
    """
    for name, value in properties.items():
        if "." not in name:
            raise InputError(f"there is no property {name!r}: {_FORM}, or it is an option")
        for own, why in _OWN.items():
            if name == own or name.startswith(own if own.endswith(".") else own + "."):
                raise InputError(f"the property {name!r} cannot be set: {why}")
        demand_no_secret(name, value, "'{name}' '{value}'")
        if _IN_URL.search(value):
            raise InputError(
                f"the property {name!r} has a password in it, which would rest in the file: set an "
                f"environment variable to the whole value, and write '{name}' 'env:VARIABLE'"
            )
    if properties.get("snapshot.mode", _MODES[0]) not in _MODES:
        raise InputError(f"snapshot.mode is one of {', '.join(_MODES)}: {_LOST} in another")
    if "," in properties.get("database.names", ""):
        raise InputError("database.names names one database: create a source for each")


def captured(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that say which tables and columns there are."""
    return {name: value for name, value in sorted(properties.items()) if _LISTS.fullmatch(name)}


def prefix_of(name: str) -> str:
    """What the engine calls a source."""
    return "ivm_" + re.sub(r"[^a-z0-9_]", "_", name)


def slot_of(name: str, token: str) -> str:
    """The name of PostgreSQL's slot and publication for a source: they are made of letters."""
    return f"{prefix_of(name)[:40]}_{token}"


def leaves(connector: str, properties: Mapping[str, str]) -> bool:
    """Whether a connector makes a slot that is the source's own."""
    return connector == "postgresql" and "slot.name" not in properties


def engine_properties(
    connector: str, name: str, properties: Mapping[str, str], more: Mapping[str, str] = _NONE
) -> dict[str, str]:
    """All properties of an engine.

    Args:
        connector: one of `CONNECTORS`.
        name: of the source.
        properties: of the user, secrets included.
        more: further ones, where the user gives none.
    """
    prefix = prefix_of(name)
    return {
        **_DEFAULTS,
        **_defaults_of(connector),
        **more,
        **properties,
        **_ALWAYS,
        "name": prefix,
        "topic.prefix": prefix,
        "connector.class": CONNECTORS[connector],
    }


def slot_properties(slot: str, *, copies: bool) -> dict[str, str]:
    """The properties that name PostgreSQL's slot and publication.

    Args:
        slot: its name.
        copies: whether the source copies the tables; later the publication stays as it is, since
            a table that came into it then would lack its older rows.
    """
    mode = "filtered" if copies else "disabled"
    return {"slot.name": slot, "publication.name": slot, "publication.autocreate.mode": mode}


def _defaults_of(connector: str) -> dict[str, str]:
    if connector == "postgresql":
        return {"plugin.name": "pgoutput", "slot.retry.delay.ms": "1000"}
    if connector == "mysql":  # of two clients with one number, the server drops the older
        number = str(random.randrange(10_000, 1 << 31))
        # A connection that is lost is made anew by us, from the committed place.
        return {"database.server.id": number, "connect.keep.alive": "false"}
    return {}
