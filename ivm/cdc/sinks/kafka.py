"""Sinks to KAFKA: lines as messages of one topic."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from ivm.cdc.sinks.encode import demand_format
from ivm.cdc.sinks.target import SinkTo, Target
from ivm.cdc.sources.kafka.options import demand_client, demand_topic
from ivm.cdc.sources.kafka.properties import parse_properties
from ivm.storage.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Kafka:
    """A sink to a topic of Kafka.

    Attributes:
        brokers: `host:port`, several parted by commas.
        topic: its name; it must be there when the sink runs.
        format: `debezium` or `jsonl`.
        snapshot: whether it begins with the rows that the view has.
        tombstones: whether a message without a value follows each event that deletes a row, for
            topics that are compacted.
        properties: for Kafka's client, see `parse_properties`.
        identity: of this sink among all that write to these brokers: the name of its transactions
            and of its consumer group. It is made up if none is given.
    """

    kind: ClassVar[str] = "KAFKA"
    keyed: ClassVar[bool] = True
    brokers: str
    topic: str
    format: str = "debezium"
    snapshot: bool = True
    tombstones: bool = False
    properties: str = ""
    identity: str = ""

    def prepared(self, others: Iterable[SinkTo]) -> Kafka:
        """See `SinkTo`; the sink gets its identity."""
        demand_format(self.format)
        demand_topic(self.topic)
        parse_properties(self.properties, taken=("group.id",))
        if self.tombstones and self.format != "debezium":
            raise InputError("tombstones follow the deletions of format 'debezium' alone")
        same = (self.brokers, self.topic)
        if any(isinstance(o, Kafka) and (o.brokers, o.topic) == same for o in others):
            raise InputError(f"another sink writes to topic {self.topic!r}: choose another topic")
        return replace(self, identity=self.identity or f"ivm-{uuid.uuid4()}")

    def target(self) -> Target:
        """See `SinkTo`."""
        with demand_client():
            from ivm.cdc.sinks.kafka_target import KafkaTarget
        return KafkaTarget(self)
