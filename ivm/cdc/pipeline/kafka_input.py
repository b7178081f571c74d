"""Kafka's topics as inputs of a pipeline, one for each table.

Law: the positions are those that `ivm ingest` has, the next offset of each partition. Each time
Spark begins from these, with a checkpoint that is new, so either of the two goes on where the other
was stopped.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.pipeline.kafka_source import NAME, Messages, offsets_of, partitions_of
from ivm.cdc.sources.kafka.client import Cluster
from ivm.cdc.sources.kafka.facts import FACTS
from ivm.cdc.sources.kafka.kafka import Kafka
from ivm.cdc.sources.kafka.starts import demand_same, starts
from ivm.cdc.sources.kafka.topics import Look, Looking, Partition, look_patiently
from ivm.cdc.sources.metadata import Facts, Metadata
from ivm.cdc.sources.source import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = 100_000
"""Of a micro-batch, at most."""


@dataclass
class KafkaInput:
    """The topics of one table; see `Input`."""

    table: str
    lines: DataFrame
    envelope: Envelope
    deletion: Callable[[bytes], bytes] | None
    checkpoint: Path
    start: Mapping[str, Position]
    cluster: Cluster
    look: Look
    metadata: Metadata
    by_time: bool = False
    facts: Facts = field(default_factory=lambda: FACTS)
    ahead: bool = True

    def reached(self, query: str, number: int) -> Mapping[str, Position]:
        """See `Input`; the offsets stand in Spark's plan of the micro-batch, in our words."""
        now = Looking(self.cluster, list(self.look.identities)).result().identities
        demand_same(self.look.identities, now)
        plan = (self.checkpoint / "offsets" / str(number)).read_text()
        next = partitions_of(json.loads(plan.splitlines()[-1]))
        return {
            each.stream: Position(offset, self.look.identities[each.topic])
            for each, offset in next.items()
        }

    def demand_read(self, number: int, streams: Collection[str]) -> None:
        """See `Input`; Spark fails where a message is missing."""


def kafka_inputs(
    session: SparkSession,
    source: Kafka,
    into: str | None,
    name: str,
    positions: Mapping[str, Position],
    to: Path,
) -> list[KafkaInput]:
    """The topics of the source, by table.

    Args:
        session: of the pipeline's own.
        source: its definition.
        into: our table, if INTO names one.
        name: of the source.
        positions: as they were committed.
        to: the folder of the source's checkpoints, which are made anew.

    Raises:
        UnavailableError: the brokers do not answer.
        SourceError: a topic is missing, or no longer has what follows a position.
    """
    group = source.group(name)
    cluster = Cluster.read_by(group, source.brokers, source.properties)
    look = look_patiently(cluster, source.topics)
    next = starts(cluster, look, positions, source.begin())
    shutil.rmtree(to, ignore_errors=True)
    session.dataSource.register(Messages)
    tables = source.targets(into)
    found = []
    for number, table in enumerate(dict.fromkeys(tables.values())):
        own = {each: offset for each, offset in next.items() if tables[each.topic] == table}
        begin = {
            each.stream: Position(offset, look.identities[each.topic])
            for each, offset in own.items()
            if each.stream not in positions
        }
        lines = _messages(session, source, group, own)
        envelope, deletion = source.envelope(), source.deletion()
        given = table, lines, envelope, deletion, to / str(number), begin, cluster, look
        found.append(KafkaInput(*given, source.told()))
    return found


def _messages(
    session: SparkSession, source: Kafka, group: str, next: Mapping[Partition, int]
) -> DataFrame:
    options = {
        "brokers": source.brokers,
        "group": group,
        "properties": source.properties,
        "offsets": json.dumps(offsets_of(next)),
        "limit": str(EVENTS),
        "facts": json.dumps(source.told().asked),
    }
    return session.readStream.format(NAME).options(**options).load()
