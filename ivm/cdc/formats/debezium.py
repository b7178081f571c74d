"""Debezium's JSON events, as Kafka Connect writes them with and without their schema.

https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-events
"""

from __future__ import annotations

from ivm.cdc.formats.events import DELETE, INSERT, UPDATE
from ivm.cdc.formats.json_statement import IGNORED, TRUNCATE, Envelope
from ivm.cdc.formats.json_values import Encoding

_OPERATIONS = {
    **{"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE},
    **{"t": TRUNCATE, "m": IGNORED},
}


_ENCODING = Encoding(base64=None, json_texts=True, durations=6)  # in any time.precision.mode
DEBEZIUM = Envelope(("after",), ("before",), ("op",), _OPERATIONS, _ENCODING)
"""Of events without their schema, which do not tell how decimals and times are written."""

WITH_SCHEMA = Envelope(
    ("payload", "after"), ("payload", "before"), ("payload", "op"), _OPERATIONS, schema=("schema",)
)
"""Of events that come with their schema (`schemas.enable`), and are in its `payload`."""
