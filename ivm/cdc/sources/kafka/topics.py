"""What the brokers know of a source's topics: their identities, partitions and offsets.

Law: a topic that was deleted and created again under its name is another topic. Offsets do not tell
them apart, the identity does that the brokers give a topic when it is created.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as Assigned
from confluent_kafka.admin import OffsetSpec

from ivm.cdc.sources.kafka.client import PATIENCE, Cluster
from ivm.cdc.sources.source import SourceError
from ivm.storage.errors import UnavailableError

_BEGINNING = 2.0  # seconds in which a broker that begins learns of its topics
_NO_IDENTITY = "AAAAAAAAAAAAAAAAAAAAAA"  # brokers before 2.8
_GONE = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID)


class MissingTopicError(SourceError):
    """The brokers know no topic of this name."""


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    @property
    def stream(self) -> str:
        """Its name among the positions of a source."""
        return f"{self.topic}/{self.number}"


@dataclass(frozen=True)
class Look:
    """The topics at one time.

    Attributes:
        identities: by topic; empty if the brokers give none.
        partitions: of all topics.
    """

    identities: Mapping[str, str]
    partitions: Sequence[Partition]


class Looking:
    """A look that the brokers have been asked for.

    Args:
        cluster: to ask.
        topics: to look at.
    """

    def __init__(self, cluster: Cluster, topics: Sequence[str]) -> None:
        self._cluster = cluster
        asked = cluster.admin.describe_topics(
            TopicCollection(list(topics)), request_timeout=PATIENCE
        )
        self._futures: dict[str, Future[Any]] = asked

    def done(self) -> bool:
        """Whether `result` need not wait."""
        return all(future.done() for future in self._futures.values())

    def result(self) -> Look:
        """What the brokers answer.

        Raises:
            UnavailableError: they do not.
            MissingTopicError: they know no such topic; brokers that begin may not yet.
            SourceError: it may not be read.
        """
        found = {topic: self._described(topic) for topic in self._futures}
        identities = {topic: str(each.topic_id) for topic, each in found.items()}
        return Look(
            {t: "" if name == _NO_IDENTITY else name for t, name in identities.items()},
            [Partition(t, p.id) for t, each in found.items() for p in each.partitions],
        )

    def _described(self, topic: str) -> Any:
        try:
            return self._cluster.answer(self._futures[topic])
        except KafkaException as error:
            if error.args[0].code() in _GONE:
                raise MissingTopicError(
                    f"there is no topic {topic!r}: create it, or mend the source's option topic"
                ) from error
            raise SourceError(
                f"the topic {topic!r} cannot be read: {error.args[0].str()}"
            ) from error


class Ends:
    """Offsets of partitions that the brokers have been asked for.

    Args:
        cluster: to ask.
        partitions: of which.
        spec: which offsets.
    """

    def __init__(self, cluster: Cluster, partitions: Iterable[Partition], spec: OffsetSpec) -> None:
        self._cluster = cluster
        wanted = {Assigned(each.topic, each.number): spec for each in partitions}
        self._futures: dict[Assigned, Future[Any]] = {}
        if wanted:
            self._futures = cluster.admin.list_offsets(
                wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=PATIENCE
            )

    @classmethod
    def first(cls, cluster: Cluster, partitions: Iterable[Partition]) -> Ends:
        """Of the oldest messages that there still are."""
        return cls(cluster, partitions, OffsetSpec.earliest())

    @classmethod
    def at(cls, cluster: Cluster, partitions: Iterable[Partition], time: int) -> Ends:
        """Of the first messages that are not older than a time, in milliseconds; -1 if none is."""
        return cls(cluster, partitions, OffsetSpec.for_timestamp(time))

    @classmethod
    def next(cls, cluster: Cluster, partitions: Iterable[Partition]) -> Ends:
        """Of the messages to come, after all that is committed."""
        return cls(cluster, partitions, OffsetSpec.latest())

    def done(self) -> bool:
        """Whether `result` need not wait."""
        return all(future.done() for future in self._futures.values())

    def result(self) -> dict[Partition, int]:
        """What the brokers answer.

        Raises:
            UnavailableError: they do not.
            SourceError: a partition may not be read.
        """
        return {
            Partition(asked.topic, asked.partition): self._offset(asked) for asked in self._futures
        }

    def _offset(self, asked: Assigned) -> int:
        try:
            return int(self._cluster.answer(self._futures[asked]).offset)
        except KafkaException as error:
            raise _unreadable(asked.topic, error) from error


def look_patiently(cluster: Cluster, topics: Sequence[str]) -> Look:
    """Looks at topics, and again for a while if one is missing: brokers may just have begun.

    Raises:
        UnavailableError: no broker answers.
        SourceError: there is no such topic, or it may not be read.
    """
    until = time.monotonic() + _BEGINNING
    while True:
        try:
            return Looking(cluster, topics).result()
        except MissingTopicError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _unreadable(topic: str, error: KafkaException) -> UnavailableError:
    why = error.args[0].str()
    return UnavailableError(f"the topic {topic!r} cannot be read at the moment: {why}")
