"""Debezium's JSON events, as Kafka Connect writes them with and without their schema.

https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-events
"""

from __future__ import annotations

from ivm.cdc.formats.events import DELETE, INSERT, UPDATE
from ivm.cdc.formats.json_statement import IGNORED, TRUNCATE, Envelope

_OPERATIONS = {
    **{"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE},
    **{"t": TRUNCATE, "m": IGNORED},
}


def debezium(*, schema: bool = False, digits: int = 6) -> Envelope:
    """The envelope of Debezium's events.

    Args:
        schema: each event comes with its schema (`schemas.enable`), and is in its `payload`.
        digits: of the fraction of a second in numbers that are times: 6 in PostgreSQL's events, 3
            where `time.precision.mode` is `connect`.
    """
    top = ("payload",) if schema else ()
    return Envelope((*top, "after"), (*top, "before"), (*top, "op"), _OPERATIONS, digits=digits)
