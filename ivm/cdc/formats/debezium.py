"""Debezium's JSON events, as Kafka Connect writes them with and without their schema.

https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-events
"""

from __future__ import annotations

from ivm.cdc.formats.events import DELETE, INSERT, UPDATE
from ivm.cdc.formats.json_statement import IGNORED, TRUNCATE, Envelope, json_path
from ivm.cdc.formats.json_values import Encoding

_TOLD = "ts_ms", "id", "event_count", "ddl", "databaseName"
_OPERATIONS = {
    **{"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE},
    **{"t": TRUNCATE, "m": IGNORED},
}
_ENCODING = Encoding(base64=None, json_texts=True, durations=6)  # in any time.precision.mode
_ORIGIN = "db", "schema", "table"
_TRANSACTION = "txId", "gtid", "commit_lsn", "ts_ms"  # the last one is that of a statement at least


def _messages(*path: str) -> str:
    """SQL of whether a line is a tombstone, or a message that tells of no row.

    These are heartbeats, begins and ends of transactions, and changes of a schema.
    """
    keys = f"system.main.json_keys(text, {json_path(path)})"
    status = f"system.main.json_extract_string(text, {json_path((*path, 'status'))})"
    has = {key: f"system.main.list_contains({keys}, '{key}')" for key in _TOLD}
    whole = "system.main.list_has_all(['schema', 'payload'], system.main.json_keys(text))"
    return (
        f"({whole} AND system.main.json_type(text, '$.payload') = 'NULL')"
        f" OR ({has['ts_ms']} AND system.main.list_has_all(['ts_ms', 'ts_us', 'ts_ns'], {keys}))"
        f" OR ({has['id']} AND {has['event_count']} AND {status} IN ('BEGIN', 'END'))"
        f" OR ({has['ddl']} AND {has['databaseName']})"
    )


DEBEZIUM = Envelope(
    ("after",),
    ("before",),
    ("op",),
    _OPERATIONS,
    _ENCODING,
    origin=tuple([("source", name) for name in _ORIGIN]),
    transaction=tuple([("source", name) for name in _TRANSACTION]),
    messages=_messages(),
)
"""Of events without their schema, which do not tell how decimals and times are written."""

WITH_SCHEMA = Envelope(
    ("payload", "after"),
    ("payload", "before"),
    ("payload", "op"),
    _OPERATIONS,
    schema=("schema",),
    origin=tuple([("payload", "source", name) for name in _ORIGIN]),
    transaction=tuple([("payload", "source", name) for name in _TRANSACTION]),
    messages=_messages("payload"),
)
"""Of events that come with their schema (`schemas.enable`), and are in its `payload`."""
