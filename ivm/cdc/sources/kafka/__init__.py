"""Topics of Kafka."""

from ivm.cdc.sources.kafka.kafka import Kafka

__all__ = ["Kafka"]
