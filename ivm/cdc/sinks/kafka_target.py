"""Epochs as messages of a topic, in transactions.

Law: a transaction holds whole epochs, and the number of its last one as the offset of a consumer
group of the sink's own. So the brokers know which epochs they have, whatever became of us, and
those are left out when they are given again. A fingerprint of that epoch's lines stands beside the
number: a database that was restored, or copied, gives other lines, and is refused.
Limit: the brokers forget that number `offsets.retention.minutes` (a week) after the last flush. It
is only needed after a crash between a transaction's end and the acknowledgement.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from hashlib import blake2b
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ivm.cdc.sources.kafka.client import PATIENCE, Cluster
from ivm.cdc.sources.kafka.properties import parse_properties
from ivm.cdc.sources.kafka.topics import Looking
from ivm.cdc.sources.secrets import resolved
from ivm.storage.errors import UnavailableError

if TYPE_CHECKING:
    from ivm.cdc.sinks.kafka import Kafka

_DELETION = '{"op":"d"'
_ONE = 0
"""The partition of all lines without keys: only within one partition there is an order."""
_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
_LAST_WORD = 2.0  # seconds for the end of a transaction that has failed
_SETTINGS = {
    # As Java's clients do, so that all agree on the partition of a key.
    "partitioner": "murmur2_random",
    # The most that brokers allow if they are not told otherwise: a snapshot is one transaction.
    "transaction.timeout.ms": 900_000,
}


class KafkaTarget:
    """One topic.

    Args:
        definition: whose identity is set.
    """

    def __init__(self, definition: Kafka) -> None:
        self._definition = definition
        self._producer: Any = None
        self._writing = False  # a transaction is open
        self._epoch = 0  # that is being given, or was last
        self._lines = blake2b(digest_size=16)  # of this epoch
        self._there = 0  # the last epoch that the topic has
        self._expected = ""  # the fingerprint of that one, until it has been given again

    def open(self, last_epoch: int) -> None:
        """See `Target`.

        Raises:
            UnavailableError: no broker answers, or they have other epochs than the outbox.
            SourceError: there is no such topic, or it may not be written.
        """
        given = self._definition
        properties = resolved(parse_properties(given.properties), "Kafka")
        self._cluster = Cluster(given.brokers, properties)
        Looking(self._cluster, [given.topic]).result()
        self._producer = self._cluster.producer({**_SETTINGS, "transactional.id": given.identity})
        self._call(self._producer.init_transactions, PATIENCE)  # ends one that was left open
        stored = self._stored_epoch()
        if stored.offset > last_epoch:
            self._expected = stored.metadata
        self._there = max(stored.offset, last_epoch)
        self._epoch = last_epoch

    def write(self, epoch: int, lines: pa.Array, keys: pa.Array | None) -> None:
        """See `Target`."""
        if epoch > self._epoch:
            self._demand_same(epoch)
            self._lines, self._epoch = blake2b(digest_size=16), epoch
        self._lines.update(_bytes_of(lines))
        if epoch > self._there:
            self._produce(epoch, lines, keys)

    def flush(self) -> int:
        """See `Target`."""
        self._demand_same(self._epoch + 1)
        if self._writing:
            reached = TopicPartition(
                self._definition.topic, 0, self._epoch, metadata=self._lines.hexdigest()
            )
            self._call(self._producer.flush)  # serves the client's reports, which would wait else
            self._call(self._producer.send_offsets_to_transaction, [reached], self._group, PATIENCE)
            self._call(self._producer.commit_transaction)
            self._writing = False
            self._there = self._epoch
        return self._epoch

    def close(self) -> None:
        """See `Target`."""
        producer, self._producer = self._producer, None
        if producer is not None and self._writing:
            with contextlib.suppress(KafkaException):  # who opens it next will end it
                producer.abort_transaction(_LAST_WORD)

    def _stored_epoch(self) -> TopicPartition:
        """The last epoch that the topic has, as an offset; a negative one if that is not known."""
        group = {"group.id": self._definition.identity, "enable.auto.commit": False}
        consumer = self._cluster.consumer(group)
        try:
            self._group = consumer.consumer_group_metadata()
            asked = [TopicPartition(self._definition.topic, 0)]
            [found] = self._call(consumer.committed, asked, PATIENCE)
            return found
        finally:
            consumer.close()

    def _produce(self, epoch: int, lines: pa.Array, keys: pa.Array | None) -> None:
        if not self._writing:
            self._producer.begin_transaction()
            self._writing = True
        headers = [("epoch", str(epoch))]
        tombstones = self._definition.tombstones and keys is not None
        named = repeat(None) if keys is None else keys.to_pylist()
        partition = _ONE if keys is None else -1
        for line, key in zip(lines.to_pylist(), named, strict=False):
            self._put(line, key, partition, headers)
            if tombstones and line.startswith(_DELETION):
                self._put(None, key, partition, headers)

    def _put(self, value: str | None, key: str | None, partition: int, headers: Any) -> None:
        while True:
            try:
                self._producer.produce(
                    self._definition.topic, value, key, partition, headers=headers
                )
                return
            except BufferError:  # the brokers are slower: memory stays bounded
                self._producer.poll(0.1)
            except KafkaException as error:
                raise self._meaning(error) from error

    def _demand_same(self, next_epoch: int) -> None:
        """Checks the epoch that was given, once it is whole, if the topic has one of its number."""
        if self._epoch == self._there and self._lines.hexdigest() == self._expected:
            self._expected = ""
        if self._expected and next_epoch > self._there:
            raise UnavailableError(
                f"topic {self._definition.topic!r} has an epoch {self._there} that is not the one "
                "of this database: was it restored from a backup, or copied? DROP SINK, and create "
                "one into another topic"
            )

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except KafkaException as error:
            raise self._meaning(error) from error

    def _meaning(self, error: KafkaException) -> Exception:
        what = error.args[0]
        if what.code() in _FENCED:
            return UnavailableError(
                f"another process writes as the sink with the identity "
                f"{self._definition.identity!r}: is a copy of the database open elsewhere?"
            )
        return self._cluster.meaning(what) or UnavailableError(f"Kafka: {what.str()}")


def _bytes_of(lines: pa.Array) -> memoryview:
    """The bytes of all lines, one after another."""
    texts = lines.cast(pa.large_string())
    _, offsets, data = texts.buffers()
    if not len(texts):
        return memoryview(b"")
    ends = memoryview(offsets).cast("q")
    return memoryview(data)[ends[texts.offset] : ends[texts.offset + len(texts)]]
