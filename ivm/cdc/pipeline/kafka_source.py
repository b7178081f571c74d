"""Kafka's messages as a source of Spark's Structured Streaming, read by the client of our own.

Law: a micro-batch has the committed messages from its first offsets up to its last ones, each
partition's in order. A partition that is added is begun with its first message, one micro-batch
after it was noticed; so offsets alone say what a micro-batch has.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as Assigned
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from ivm.cdc.pipeline.carried_facts import COLUMN, ddl, struct
from ivm.cdc.sources.kafka.client import Cluster
from ivm.cdc.sources.kafka.facts import FACTS, facts_of
from ivm.cdc.sources.kafka.reader import READING
from ivm.cdc.sources.kafka.topics import Ends, Looking, Partition

NAME = "ivm_kafka"
DDL = "stream STRING, time BIGINT, position BIGINT, key BINARY, value BINARY"
_SCHEMA = pa.schema(
    {
        "stream": pa.string(),
        "time": pa.int64(),
        "position": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
    }
)
_CHUNK = 10_000  # messages
_PATIENCE = 60.0  # seconds without any message that are too many

Offsets = Mapping[str, Mapping[str, int]]
"""The next offset by topic and partition, as Spark takes it."""


def offsets_of(next: Mapping[Partition, int]) -> Offsets:
    """Offsets by topic and partition."""
    found: dict[str, dict[str, int]] = {}
    for each, offset in sorted(next.items()):
        found.setdefault(each.topic, {})[str(each.number)] = offset
    return found


def partitions_of(offsets: Offsets) -> dict[Partition, int]:
    """Offsets by partition."""
    return {
        Partition(topic, int(number)): offset
        for topic, each in offsets.items()
        for number, offset in each.items()
    }


class Messages(DataSource):
    """The source, for `spark.dataSource.register`.

    Its options are `brokers`, `group`, `properties` as in a definition, `offsets` as JSON, the
    number of messages of a micro-batch, `limit`, and the names of `facts` as JSON.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._options = dict(options)

    @classmethod
    def name(cls) -> str:
        """See `DataSource`."""
        return NAME

    def schema(self) -> str:
        """See `DataSource`."""
        return DDL + ddl(json.loads(self._options["facts"]), FACTS)

    def streamReader(self, schema: StructType) -> MessagesReader:  # noqa: N802
        """See `DataSource`."""
        return MessagesReader(self._options)


@dataclass(frozen=True)
class Range(InputPartition):
    """The offsets of one partition from `first` on, before `end`."""

    topic: str
    number: int
    first: int
    end: int


class MessagesReader(DataSourceStreamReader):
    """Plans micro-batches and reads their messages; see `DataSourceStreamReader`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def _cluster(self) -> Cluster:
        return _cluster(*[self._options[name] for name in ("group", "brokers", "properties")])

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """See there."""
        found: dict[str, Any] = json.loads(self._options["offsets"])
        return found

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """See there."""
        return ReadMaxRows(int(self._options["limit"]))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """See there."""
        begun, cluster = partitions_of(start), self._cluster()
        new = [p for p in Looking(cluster, list(start)).result().partitions if p not in begun]
        firsts, nexts = Ends.first(cluster, new), Ends.next(cluster, begun)
        ends = nexts.result()
        if isinstance(limit, ReadMaxRows):
            ends = _limited(begun, ends, limit.max_rows)
        return dict(offsets_of({**ends, **firsts.result()}))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[Range]:
        """See there."""
        begun = partitions_of(start)
        return [
            Range(each.topic, each.number, begun[each], last)
            for each, last in partitions_of(end).items()
            if begun.get(each, last) < last
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See there."""
        assert isinstance(partition, Range)
        consumer = self._cluster().consumer(READING)
        asked = json.loads(self._options["facts"])
        consumer.assign([Assigned(partition.topic, partition.number, partition.first)])
        try:
            found: list[Message] = []
            over = False
            while not over:
                messages = consumer.consume(1, _PATIENCE)
                if not messages:
                    raise TimeoutError(f"Kafka has sent nothing of {partition} for too long")
                messages += consumer.consume(_CHUNK, 0)  # what is there, without waiting for more
                own, over = _before(messages, partition)
                found += own
                if found and (over or len(found) >= _CHUNK):
                    yield _rows(found, asked)
                    found = []
        finally:
            consumer.close()


@functools.cache
def _cluster(group: str, brokers: str, properties: str) -> Cluster:
    """The process's client, which is no part of the reader: that travels to the workers."""
    return Cluster.read_by(group, brokers, properties)


def _limited(
    begun: Mapping[Partition, int], ends: Mapping[Partition, int], most: int
) -> dict[Partition, int]:
    """Ends so that there are at most so many messages, taken evenly from those partitions."""
    found, left = dict(begun), most
    by_size = sorted(ends, key=lambda each: ends[each] - begun[each])
    for rank, each in enumerate(by_size):
        share = left // (len(by_size) - rank)
        taken = max(min(ends[each] - begun[each], share), 0)
        found[each] += taken
        left -= taken
    return found


def _before(messages: Sequence[Message], range: Range) -> tuple[list[Message], bool]:
    """The messages before the end of a range, and whether it is reached.

    The last offsets may have no message: the next one, or the end of the partition, is behind it.
    """
    found: list[Message] = []
    for message in messages:
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise RuntimeError(f"Kafka: {range.topic}/{range.number}: {error.str()}")
        if message.offset() >= range.end:
            return found, True
        if error is None:
            found.append(message)
    return found, bool(found) and found[-1].offset() == range.end - 1


def _rows(messages: Sequence[Message], asked: Sequence[str]) -> pa.RecordBatch:
    stream = Partition(messages[0].topic(), messages[0].partition()).stream
    columns = [
        pa.array([stream] * len(messages), pa.string()),
        pa.nulls(len(messages), pa.int64()),
        pa.array(map(Message.offset, messages), pa.int64()),
        pa.array(map(Message.key, messages), pa.binary()),
        pa.array(map(Message.value, messages), pa.binary()),
    ]
    rows = pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
    if not asked:
        return rows
    facts = facts_of(messages, asked)
    return rows.append_column(COLUMN, struct([facts[name] for name in asked]))
