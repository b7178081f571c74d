"""A source of the messages of Kafka's topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from ivm.cdc.formats.envelopes import envelope_of
from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.sources.json_part import JsonPart
from ivm.cdc.sources.kafka.facts import FACTS
from ivm.cdc.sources.kafka.options import demand_client, demand_topic
from ivm.cdc.sources.kafka.properties import parse_properties
from ivm.cdc.sources.kafka.start_option import Start, parse_start
from ivm.cdc.sources.kafka.tombstones import deletion
from ivm.cdc.sources.metadata import Facts, Metadata, parse_metadata
from ivm.cdc.sources.source import Into, Limits, Part, Position, Reader
from ivm.storage.errors import InputError
from ivm.storage.identifiers import quote


@dataclass(frozen=True)
class Kafka(Limits):
    """Topics whose messages are events, each of one table.

    Args:
        brokers: `host:port`, several parted by commas; any one of the cluster will do.
        topic: its name, or several parted by commas. Without INTO, the events of a topic go into
            the table that the last part of its name names, as `clicks` in `shop.public.clicks`.
        format, times, decimals, tables: see `Database.ingest`; of several topics all tables are
            meant, unless `tables` names some.
        key: the column that the keys of the messages are, where these are no JSON objects; it is
            needed for tombstones of format `json upserts` alone.
        follow: whether the table gets the columns of which the events' schema tells, in format
            `debezium with schema`.
        start: where a topic is begun that is new to the source, see `parse_start`.
        properties: for Kafka's client, see `parse_properties`.
        metadata: which columns get facts of a message, see `parse_metadata` and `FACTS`.

    Raises:
        InputError: an option does not mean anything, or a secret is among the properties.
    """

    kind: ClassVar[str] = "KAFKA"
    into: ClassVar[Into] = "optional"
    stays: ClassVar[str] = ""
    facts: ClassVar[Facts] = FACTS

    brokers: str
    topic: str
    format: str = "debezium"
    times: str | None = None
    decimals: str | None = None
    tables: str = ""
    key: str | None = None
    follow: bool = True
    start: str = "earliest"
    properties: str = ""
    metadata: str = ""

    def __post_init__(self) -> None:
        for topic in self.topics:
            demand_topic(topic)
        parse_start(self.start, self.topics)
        parse_properties(self.properties)
        self.envelope()
        self.told()

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics."""
        return tuple(dict.fromkeys(topic.strip() for topic in self.topic.split(",")))

    def group(self, name: str) -> str:
        """The consumer group by which brokers know the source; they keep nothing of it.

        Args:
            name: of the source.
        """
        return f"ivm-{name}"

    def begin(self) -> Start:
        """Where topics are begun."""
        return parse_start(self.start, self.topics)

    def envelope(self) -> Envelope:
        """Of the format."""
        envelope = envelope_of(self.format, self.times, self.decimals, self.version, self.tables)
        several = len(self.topics) > 1 and not self.tables
        return replace(envelope, origin=()) if several else envelope

    def deletion(self) -> Callable[[bytes], bytes] | None:
        """Makes a line of the key of a message without a value, if that is an event."""
        if self.format != "json upserts":
            return None
        return lambda key: deletion(key, self.key)

    def targets(self, into: str | None) -> dict[str, str]:
        """The tables of the topics.

        Raises:
            InputError: two topics have one table, and no INTO says that this is meant.
        """
        if into is not None:
            return dict.fromkeys(self.topics, into)
        tables = {topic: quote(topic.rpartition(".")[2]) for topic in self.topics}
        if len({*tables.values()}) < len(tables):
            raise InputError(
                f"several of the topics {', '.join(tables)} would go into one table by their "
                "names: say that it is meant with INTO table, or create a source for each"
            )
        return tables

    def told(self) -> Metadata:
        """See `TellsFacts`."""
        return parse_metadata(self.metadata, FACTS, appends=self.envelope().operation is None)

    def tables_of(self, into: str | None) -> list[str]:
        """See `TellsFacts`."""
        return [*dict.fromkeys(self.targets(into).values())]

    def open(self, name: str, into: str | None, positions: Mapping[str, Position]) -> Reader:
        """See `Source`."""
        with demand_client():
            from ivm.cdc.sources.kafka.reader import KafkaReader
        return KafkaReader(self, name, self.targets(into), positions)

    def moved(
        self, name: str, place: str, positions: Mapping[str, Position]
    ) -> Mapping[str, Position]:
        """See `Movable`; a place is written as the option `start`."""
        there = parse_start(place, self.topics)
        with demand_client():
            from ivm.cdc.sources.kafka.moves import moved
        return moved(self, name, there, positions)

    def table_of(self, stream: str, into: str | None) -> str | None:
        """See `Movable`."""
        return self.targets(into).get(stream.rpartition("/")[0])

    def part(self, table: str, payloads: Sequence[str | None]) -> Part:
        """See `Source`."""
        return JsonPart(table, pa.array(payloads, pa.large_string()), self.envelope(), "")

    def forget(self, name: str, positions: Mapping[str, Position]) -> None:
        """See `Source`; Kafka keeps nothing of it."""
