"""A real Kafka broker for tests, in a folder of its own.

It is one process that is broker and controller. Its jars come from Maven Central by Maven, and are
kept in the user's cache. Java 17 or newer and Maven must be there, see `missing`.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from tests.support.maven import Jars, java_missing

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
_WAIT = 60.0


def missing() -> str | None:
    """What is lacking to run a broker here, if anything."""
    return java_missing() or _JARS.missing()


class Broker:
    """A broker, which keeps its data when it is stopped and started; a context manager.

    Attributes:
        address: for clients.
        admin: of its topics.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        port, controller = _free_ports(2)
        data = folder / "data"
        data.mkdir()
        (data / "meta.properties").write_text(_META)
        settings = _SETTINGS.format(port=port, controller=controller, data=data)
        (folder / "server.properties").write_text(settings)
        self._port = port
        self.address = f"127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        self.admin = AdminClient({"bootstrap.servers": self.address})

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def start(self) -> None:
        """Starts it and waits until it answers."""
        settings = str(self._folder / "server.properties")
        command = ["java", *_JVM, "-cp", f"{_JARS.folder()}/*", "kafka.Kafka", settings]
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        until = time.monotonic() + _WAIT
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise RuntimeError("the broker does not start: " + self._output()[-2000:])
            time.sleep(0.05)

    @property
    def runs(self) -> bool:
        """Whether it is started."""
        return self._process is not None

    def stop(self) -> None:
        """Stops it in order."""
        self._end("terminate")

    def kill(self) -> None:
        """Stops it as a crash does."""
        self._end("kill")

    def create(
        self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> str:
        """Makes a topic; returns its name."""
        new = NewTopic(topic, partitions, 1, config=dict(config or {}))
        self.admin.create_topics([new])[topic].result(_WAIT)
        self._await(topic, True)
        return topic

    def delete(self, topic: str) -> None:
        """Removes a topic."""
        self.admin.delete_topics([topic])[topic].result(_WAIT)
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
    ) -> None:
        """Writes messages to a partition, and waits until they are there."""
        producer = self.producer()
        texts = list(values)
        for value, key in zip(texts, keys or [None] * len(texts), strict=True):
            producer.produce(topic, value, key, partition, on_delivery=_delivered)
            producer.poll(0)
        assert producer.flush(_WAIT) == 0

    def read(self, topic: str, partition: int = 0) -> list[Message]:
        """The messages of a partition that are there now, once their transactions have ended."""
        place = TopicPartition(topic, partition)
        end = self.admin.list_offsets({place: OffsetSpec.latest()})[place].result(_WAIT).offset
        consumer = Consumer({**_READING, "bootstrap.servers": self.address})
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[Message] = []
        while consumer.position([place])[0].offset < end:
            message = consumer.poll(_WAIT)
            assert message is not None
            if message.error() is None:
                found.append(message)
        consumer.close()
        return [message for message in found if message.offset() < end]

    def widen(self, topic: str, partitions: int) -> None:
        """Adds partitions to a topic, so that it has so many."""
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(_WAIT)

    def forget(self, topic: str, before: int, partition: int = 0) -> None:
        """Removes the messages before an offset, as retention does."""
        wanted = TopicPartition(topic, partition, before)
        self.admin.delete_records([wanted])[wanted].result(_WAIT)

    def _await(self, topic: str, there: bool) -> None:
        """A topic is known to brokers a little after the controller has made it."""
        until = time.monotonic() + _WAIT
        while (topic in self.admin.list_topics(timeout=_WAIT).topics) != there:
            assert time.monotonic() < until, topic
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True

    def _end(self, how: str) -> None:
        if self._process is not None:
            getattr(self._process, how)()
            self._process.wait(_WAIT)
            self._process = None

    def _output(self) -> str:
        return (self._folder / "output").read_text(errors="replace")


def _delivered(error: object, _: object) -> None:
    assert error is None, error


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
