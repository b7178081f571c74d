"""The kinds of sinks."""

from __future__ import annotations

from ivm.cdc.sinks.files import Files
from ivm.cdc.sinks.kafka import Kafka
from ivm.cdc.sinks.target import SinkTo
from ivm.cdc.sources.definition import define
from ivm.engine.feeds.outbox_rows import Sink

KINDS: dict[str, type[SinkTo]] = {"FILES": Files, "KAFKA": Kafka}
"""By their names in SQL."""


def definition_of(sink: Sink) -> SinkTo:
    """The definition of a stored sink."""
    return define(KINDS, sink.target, sink.options)
