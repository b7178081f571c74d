"""Messages of Kafka as events of tables.

Law: the events of a table stand in the order in which its messages were given, and so those of a
key in that of their partition. A message that is no UTF-8 is a text that is no JSON. One without a
value (a tombstone) is no event, or a deletion of the row of its key, as the format has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.formats.texts import texts_of
from ivm.cdc.sources.json_part import JsonPart
from ivm.cdc.sources.kafka.facts import facts_of
from ivm.cdc.sources.kafka.topics import Partition

Deletion: TypeAlias = Callable[[bytes], bytes]


@dataclass(frozen=True)
class MessagePart(JsonPart):
    """Events of one table that are messages; see `Part`.

    Attributes:
        partitions: of each message.
        topics: of each message.
        offsets: of each message.
        facts: of each message, by the name of the fact; those that were asked for.
    """

    topics: Sequence[str] = ()
    partitions: Sequence[int] = ()
    offsets: Sequence[int] = ()
    facts: Mapping[str, pa.Array] = field(default_factory=dict)

    def places(self, lines: Sequence[int]) -> list[tuple[str, int | None]]:
        """See `Part`."""
        return [
            (Partition(self.topics[line], self.partitions[line]).stream, self.offsets[line])
            for line in lines
        ]


def parts_of(
    messages: Sequence[Message],
    tables: Mapping[str, str],
    envelope: Envelope,
    deletion: Deletion | None,
    asked: Collection[str] = (),
) -> list[MessagePart]:
    """The events of messages, by table.

    Args:
        messages: without errors.
        tables: by topic.
        envelope: of the format.
        deletion: makes a line of the key of a tombstone; None if tombstones are no events.
        asked: the facts of messages that they are to have.
    """
    by_table: dict[str, list[Message]] = {}
    if len({*tables.values()}) == 1:
        by_table = {next(iter(tables.values())): list(messages)}
    else:
        for message in messages:
            by_table.setdefault(tables[message.topic()], []).append(message)
    return [
        _part(table, found, envelope, deletion, asked) for table, found in by_table.items() if found
    ]


def last_of(messages: Sequence[Message]) -> dict[Partition, Message]:
    """The last message of each partition."""
    places = zip(map(Message.topic, messages), map(Message.partition, messages), strict=True)
    last = {place: i for i, place in enumerate(places)}
    return {Partition(topic, number): messages[i] for (topic, number), i in last.items()}


def newest(messages: Sequence[Message]) -> datetime | None:
    """The newest time at which one of the messages was written, if they tell it."""
    times = [message.timestamp() for message in messages]
    known = [milliseconds for kind, milliseconds in times if kind != TIMESTAMP_NOT_AVAILABLE]
    return datetime.fromtimestamp(max(known) / 1000, UTC) if known else None


def _part(
    table: str,
    messages: Sequence[Message],
    envelope: Envelope,
    deletion: Deletion | None,
    asked: Collection[str],
) -> MessagePart:
    values = list(map(Message.value, messages))
    if deletion is not None and None in values:
        for i, message in enumerate(messages):
            if values[i] is None and message.key() is not None:
                values[i] = deletion(message.key())
    return MessagePart(
        table,
        texts_of(pa.array(values, pa.large_binary())),
        envelope,
        "",
        topics=list(map(Message.topic, messages)),
        partitions=list(map(Message.partition, messages)),
        offsets=list(map(Message.offset, messages)),
        facts=facts_of(messages, asked),
    )
