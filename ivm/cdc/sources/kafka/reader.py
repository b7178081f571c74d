"""Reads the messages of all partitions of a source's topics.

Law: a stream is a partition, its position the offset of the next message and the identity of the
topic. The partitions are assigned to the consumer from these; no consumer group has a say. Offsets
that are missing between two messages are no gap (compaction, aborted transactions, marks of the
brokers); that the partition no longer begins at or before our position is one.

A batch is given only if the topics are still those that were opened: the client itself goes on at
the same offset in a topic that was deleted and created again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from confluent_kafka import Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as Assigned

from ivm.cdc.sources.kafka.client import Cluster
from ivm.cdc.sources.kafka.kafka import Kafka
from ivm.cdc.sources.kafka.messages import last_of, newest, parts_of
from ivm.cdc.sources.kafka.schemas import Schemas
from ivm.cdc.sources.kafka.starts import demand_same, gap, starts
from ivm.cdc.sources.kafka.topics import Ends, Looking, MissingTopicError, Partition, look_patiently
from ivm.cdc.sources.metadata_part import MetadataPart
from ivm.cdc.sources.source import Batch, Position
from ivm.storage.errors import IvmError, UnavailableError

LOOK = 1.0
"""Seconds between looks at the topics: where do they end, have they new partitions?"""
_BYTES = 32 << 20  # of a batch, about
_CHUNK = 2_000  # messages
_OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
READING = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    # Read ahead is bounded by this; a full queue is looked at again so soon, not after a second.
    "queued.max.messages.kbytes": 32 << 10,
    "fetch.queue.backoff.ms": 10,
}
"""The settings of the consumer: only what is committed is read, and no offset but ours counts."""


class KafkaReader:
    """See `Reader`.

    Args:
        source: the definition.
        name: of the source.
        tables: by topic.
        positions: as they were committed.
    """

    def __init__(
        self, source: Kafka, name: str, tables: Mapping[str, str], positions: Mapping[str, Position]
    ) -> None:
        self._tables = tables
        self._source = source
        self._metadata = source.told()
        self._cluster = Cluster.read_by(source.group(name), source.brokers, source.properties)
        look = look_patiently(self._cluster, source.topics)
        self._identities = look.identities
        self._next = starts(self._cluster, look, positions, source.begin())
        self._moved = {each for each in self._next if each.stream not in positions}
        self._begun = not self._moved
        self._ends: Mapping[Partition, int] = {}  # not long ago
        self._caught_up = False
        self._schemas = Schemas(tables, source.envelope())
        self._held: list[Message] = []  # that wait for another batch
        self._left_out: dict[Partition, int] = {}  # up to where there are marks of the brokers
        self._asked: tuple[Looking, Ends] | None = None
        self._looked = 0.0
        self._consumer: Consumer = self._cluster.consumer(READING)
        self._consumer.assign([Assigned(*each, offset) for each, offset in self._next.items()])

    def read(self, limit: int, timeout: float) -> Batch | None:
        """See `Reader`."""
        if not self._begun:  # from now on it is known where, whatever comes first
            self._begun = True
            return self._batch([])
        messages = self._held or self._consume(limit, timeout)
        run = self._schemas.run(messages)
        messages, self._held = messages[:run], messages[run:]
        self._advance(messages)
        if messages:
            self._take(Looking(self._cluster, list(self._tables)))
        looked = self._look()
        self._caught_up = self._at_ends()
        if messages or (looked and self._moved):  # marks alone are not worth a batch each
            return self._batch(messages)
        return None

    def confirm(self, positions: Mapping[str, Position]) -> None:
        """See `Reader`; the brokers need not know."""

    def lag(self) -> int | None:
        """See `Reader`."""
        try:
            return sum(self._behind(*each) for each in list(self._next.items()))
        except RuntimeError:  # closed by another thread
            return None

    def caught_up(self) -> bool:
        """See `Reader`."""
        return self._caught_up

    def close(self) -> None:
        """See `Reader`."""
        self._consumer.close()

    def _consume(self, limit: int, timeout: float) -> list[Message]:
        """Messages without the client's errors, as soon as there are any."""
        found = self._without_errors(self._consumer.consume(1, timeout))
        size = 0
        while len(found) < limit and size < _BYTES:
            chunk = self._consumer.consume(min(_CHUNK, limit - len(found)), 0)
            if not chunk:
                break
            good = self._without_errors(chunk)
            size += sum(map(len, good))
            found += good
        return found

    def _without_errors(self, messages: list[Message]) -> list[Message]:
        good = [message for message in messages if message.error() is None]
        if len(good) < len(messages):
            for message in messages:
                if message.error() is not None:
                    self._meet(message)
        return good

    def _meet(self, message: Message) -> None:
        """The end of a partition, or an error of one."""
        error, partition = message.error(), Partition(message.topic(), message.partition())
        if error.code() != KafkaError._PARTITION_EOF:
            raise self._meaning(error, partition)
        self._left_out[partition] = message.offset()

    def _meaning(self, error: KafkaError, partition: Partition) -> IvmError:
        self._take(Looking(self._cluster, list(self._tables)))  # raises if it is gone
        if error.code() in _OUT_OF_RANGE:
            first = Ends.first(self._cluster, [partition]).result()[partition]
            return gap(partition, self._next[partition], first)
        found = self._cluster.meaning(error)
        return found or UnavailableError(f"Kafka: {partition.stream}: {error.str()}")

    def _advance(self, messages: Sequence[Message]) -> None:
        for partition, message in last_of(messages).items():
            self._next[partition] = message.offset() + 1
            self._moved.add(partition)
        if not self._held:  # else they come behind messages that are still to be given
            for partition, end in self._left_out.items():
                if end > self._next[partition]:
                    self._next[partition] = end
                    self._moved.add(partition)
            self._left_out = {}

    def _look(self) -> bool:
        """Asks the brokers how things are, now and then, and takes the answer when it comes."""
        if self._asked is None:
            if time.monotonic() - self._looked >= LOOK:
                looking = Looking(self._cluster, list(self._tables))
                self._asked = looking, Ends.next(self._cluster, self._next)
            return False
        looking, ends = self._asked
        if not (looking.done() and ends.done()):
            return False
        self._asked, self._looked = None, time.monotonic()
        self._take(looking)
        self._ends = ends.result()
        return True

    def _at_ends(self) -> bool:
        """Whether all is read that the partitions had when their ends were last looked at."""
        return all(
            each in self._ends and next >= self._ends[each] for each, next in self._next.items()
        )

    def _take(self, looking: Looking) -> None:
        """Takes over partitions that are new, from their beginning."""
        try:
            look = looking.result()
        except MissingTopicError as error:  # or the brokers have just begun: opening it tells
            raise UnavailableError(str(error)) from error
        demand_same(self._identities, look.identities)
        new = [each for each in look.partitions if each not in self._next]
        if new:
            firsts = Ends.first(self._cluster, new).result()
            self._consumer.incremental_assign([Assigned(*each, firsts[each]) for each in new])
            self._next.update(firsts)
            self._moved.update(new)

    def _behind(self, partition: Partition, next: int) -> int:
        """How many offsets a partition has from the next one on, as far as the client knows."""
        known = self._consumer.get_watermark_offsets(Assigned(*partition), cached=True)
        return max(known[1] - next, 0) if known else 0

    def _batch(self, messages: Sequence[Message]) -> Batch:
        moved, self._moved = self._moved, set()
        envelope, deletion = self._source.envelope(), self._source.deletion()
        parts = parts_of(messages, self._tables, envelope, deletion, self._metadata.asked)
        if self._source.follow:
            alone = len(self._next) == len(self._identities)  # each topic is one partition
            parts = [
                replace(part, upstream=self._schemas.upstream(part.table, alone)) for part in parts
            ]
        return Batch(
            [MetadataPart(p, self._metadata, p.facts) for p in parts] if self._metadata else parts,
            {each.stream: self._position(each) for each in sorted(moved)},
            newest([*last_of(messages).values()]),
        )

    def _position(self, partition: Partition) -> Position:
        return Position(self._next[partition], self._identities[partition.topic])
