"""A real Kafka broker for tests, in a folder of its own.

It is one process that is broker and controller. Its jars come from Maven Central by Maven, and are
kept in the user's cache. Java 17 or newer and Maven must be there, see `missing`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from tests.support.maven import Jars, java_missing
from tests.support.server_process import WAIT, ServerProcess, free_ports

VERSION = "4.1.0"
_JARS = Jars("org.apache.kafka", "kafka_2.13", VERSION)  # 43 MB
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=100
"""
# What `kafka-storage format` writes; a JVM less to start.
_META = "version=1\ncluster.id=tests-of-the-project-0\nnode.id=1\n"
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_READING = {"group.id": "tests", "auto.offset.reset": "earliest", "enable.partition.eof": True}


def missing() -> str | None:
    """What is lacking to run a broker here, if anything."""
    return java_missing() or _JARS.missing()


class Broker(ServerProcess):
    """A broker; a context manager.

    Attributes:
        address: for clients.
        admin: of its topics.
    """

    def __init__(self, folder: Path) -> None:
        port, controller = free_ports(2)
        super().__init__(folder / "output", port)
        self._settings = folder / "server.properties"
        data = folder / "data"
        data.mkdir()
        (data / "meta.properties").write_text(_META)
        settings = _SETTINGS.format(port=port, controller=controller, data=data)
        self._settings.write_text(settings)
        self.address = f"127.0.0.1:{port}"
        self.start()
        self.admin = AdminClient({"bootstrap.servers": self.address})

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def command(self) -> list[str]:
        """See `ServerProcess`."""
        return ["java", *_JVM, "-cp", f"{_JARS.folder()}/*", "kafka.Kafka", str(self._settings)]

    def create(
        self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Makes a topic; returns its name."""
        new = NewTopic(topic, partitions, 1, config=dict(config or {}))
        self.admin.create_topics([new])[topic].result(WAIT)
        self._await(topic, True)
        return topic

    def delete(self, topic: str) -> None:
        """Removes a topic."""
        self.admin.delete_topics([topic])[topic].result(WAIT)
        self._await(topic, False)

    def producer(self, **settings: Any) -> Producer:
        """A producer."""
        return Producer({"bootstrap.servers": self.address, "linger.ms": 5, **settings})

    def send(
        self,
        topic: str,
        values: Iterable[str | bytes | None],
        partition: int = 0,
        keys: Iterable[str | bytes | None] | None = None,
        time: int = 0,
        headers: Sequence[tuple[str, str | bytes | None]] = (),
    ) -> None:
        """Writes messages to a partition, and waits until they are there.

        Args:
            time: of the messages, in milliseconds since 1970; 0 for now.
            headers: of each message.
        """
        producer = self.producer()
        texts = list(values)
        for value, key in zip(texts, keys or [None] * len(texts), strict=True):
            producer.produce(topic, value, key, partition, _delivered, None, time, list(headers))
            producer.poll(0)
        assert producer.flush(WAIT) == 0

    def read(self, topic: str, partition: int = 0) -> list[Message]:
        """The messages of a partition that are there now, once their transactions have ended."""
        place = TopicPartition(topic, partition)
        end = self.admin.list_offsets({place: OffsetSpec.latest()})[place].result(WAIT).offset
        consumer = Consumer({**_READING, "bootstrap.servers": self.address})
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[Message] = []
        while consumer.position([place])[0].offset < end:
            message = consumer.poll(WAIT)
            assert message is not None
            if message.error() is None:
                found.append(message)
        consumer.close()
        return [message for message in found if message.offset() < end]

    def widen(self, topic: str, partitions: int) -> None:
        """Adds partitions to a topic, so that it has so many."""
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(WAIT)

    def forget(self, topic: str, before: int, partition: int = 0) -> None:
        """Removes the messages before an offset, as retention does."""
        wanted = TopicPartition(topic, partition, before)
        self.admin.delete_records([wanted])[wanted].result(WAIT)

    def _await(self, topic: str, there: bool) -> None:
        """A topic is known to brokers a little after the controller has made it."""
        until = time.monotonic() + WAIT
        while (topic in self.admin.list_topics(timeout=WAIT).topics) != there:
            assert time.monotonic() < until, topic
            time.sleep(0.01)


def _delivered(error: object, _: object) -> None:
    assert error is None, error
