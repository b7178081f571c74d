"""What a pipeline reads: streaming frames of lines, and the positions that a micro-batch reaches.

Law: the positions are those of the database, committed with the rows. Spark's own notes are only
its plan of the next micro-batch: where the two do not agree, the pipeline stops, or begins again
from the database's.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.sources.files.files import PIPELINE, Files
from ivm.cdc.sources.kafka.kafka import Kafka
from ivm.cdc.sources.kafka.options import demand_client
from ivm.cdc.sources.source import Position, SourceError
from ivm.storage.errors import InternalError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS, BYTES = 100_000, 64 << 20
"""Of a micro-batch, at most: messages of Kafka; bytes of files, but at least one file."""


class Input(Protocol):
    """One stream of lines of one table.

    Attributes:
        table: our table.
        lines: a streaming frame, see `Decoding.run`.
        envelope: of the lines' format.
        deletion: see `Decoding`.
        by_time: see `SparkPart`.
        checkpoint: the folder in which Spark notes its plan.
    """

    table: str
    lines: DataFrame
    envelope: Envelope
    deletion: Callable[[bytes], bytes] | None
    by_time: bool
    checkpoint: Path

    @property
    def start(self) -> Mapping[str, Position]:
        """Positions to be committed before anything is read."""

    def reached(self, query: str, number: int) -> Mapping[str, Position]:
        """The positions with a micro-batch.

        Args:
            query: Spark's name of the stream, which its checkpoint keeps.
            number: of the micro-batch.

        Raises:
            SourceError: it does not follow what the database has.
        """


@dataclass
class FilesInput:
    """Whole files of lines, each read once; see `Input`."""

    table: str
    lines: DataFrame
    envelope: Envelope
    checkpoint: Path
    at: Position | None
    deletion: Callable[[bytes], bytes] | None = None
    by_time: bool = True

    @property
    def start(self) -> Mapping[str, Position]:
        """See `Input`."""
        return {}

    def reached(self, query: str, number: int) -> Mapping[str, Position]:
        """See `Input`."""
        if self.at is not None and self.at.detail != query:
            raise SourceError(
                f"Spark's checkpoint in {self.checkpoint} is gone, or not the one with which the "
                "files were read so far: put it back, or drop the source and create it again, to "
                "read all files anew"
            )
        before = -1 if self.at is None else self.at.offset
        if number not in (before, before + 1):
            raise SourceError(
                f"Spark goes on with micro-batch {number}, and the database has those up to "
                f"{before}: one of them is an older copy. Drop the source and create it again, to "
                "read all files anew"
            )
        self.at = Position(number, query)
        return {PIPELINE: self.at}


def files_input(
    session: SparkSession, source: Files, table: str, positions: Mapping[str, Position], to: Path
) -> FilesInput:
    """The files that match the source's pattern, and those that come.

    Args:
        session: of the pipeline's own.
        source: its definition.
        table: our table.
        positions: as they were committed.
        to: the folder of the source's checkpoints.
    """
    if positions.keys() - {PIPELINE}:
        raise SourceError(
            "its files were read without Spark so far, row by row: `ivm ingest` goes on there. "
            "A pipeline needs a source of its own"
        )
    checkpoint = to / "files"
    if not positions:  # what Spark has noted was never applied, or by a source that was dropped
        shutil.rmtree(checkpoint, ignore_errors=True)
    path = "_metadata.file_path"
    envelope = source.lines_envelope()
    assert envelope is not None
    lines = (
        session.readStream.format("text")
        .option("lineSep", "\n")
        .option("maxBytesPerTrigger", str(BYTES))
        .load(source.path)
        .selectExpr(
            f"regexp_replace({path}, '^file:/*', '/') AS stream",
            "unix_millis(_metadata.file_modification_time) AS time",
            "CAST(value AS BINARY) AS value",
        )
    )
    return FilesInput(table, lines, envelope, checkpoint, positions.get(PIPELINE))


@dataclass
class KafkaInput:
    """The topics of one table; see `Input`."""

    table: str
    lines: DataFrame
    envelope: Envelope
    checkpoint: Path
    identities: Mapping[str, str]
    begins: Mapping[str, Position]
    demand_same: Callable[[], None]
    deletion: Callable[[bytes], bytes] | None = None
    by_time: bool = False

    @property
    def start(self) -> Mapping[str, Position]:
        """See `Input`."""
        return self.begins

    def reached(self, query: str, number: int) -> Mapping[str, Position]:
        """See `Input`; they stand in Spark's plan of the micro-batch."""
        self.demand_same()
        plan = (self.checkpoint / "offsets" / str(number)).read_text().splitlines()
        try:
            ends = json.loads(plan[-1])
            return {
                f"{topic}/{partition}": Position(int(offset), self.identities[topic])
                for topic, partitions in ends.items()
                for partition, offset in partitions.items()
            }
        except (ValueError, KeyError, AttributeError) as error:
            raise InternalError(
                f"Spark's plan of a micro-batch has another form: {plan}"
            ) from error


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
    """
    with demand_client():
        from ivm.cdc.sources.kafka.client import Cluster
        from ivm.cdc.sources.kafka.starts import demand_same, starts
        from ivm.cdc.sources.kafka.topics import Looking, look_patiently

    by_table: dict[str, list[str]] = {}
    for topic, table in source.tables(into).items():
        by_table.setdefault(table, []).append(topic)
    cluster = Cluster(source.brokers, {"group.id": f"ivm-{name}"})
    look = look_patiently(cluster, source.topics)
    next = starts(cluster, look, positions, source.start)
    shutil.rmtree(to, ignore_errors=True)
    found = []
    for number, (table, topics) in enumerate(by_table.items()):
        own = {each: offset for each, offset in next.items() if each.topic in topics}
        offsets: dict[str, dict[str, int]] = {topic: {} for topic in topics}
        for each, offset in own.items():
            offsets[each.topic][str(each.number)] = offset

        def demand(topics: Sequence[str] = topics) -> None:
            demand_same(look.identities, Looking(cluster, topics).result().identities)

        start = {
            each.stream: Position(offset, look.identities[each.topic])
            for each, offset in own.items()
            if each.stream not in positions
        }
        found.append(
            KafkaInput(
                table,
                _messages(session, source, name, offsets),
                source.envelope(),
                to / str(number),
                look.identities,
                start,
                demand,
                source.deletion(),
            )
        )
    return found


def _messages(
    session: SparkSession, source: Kafka, name: str, offsets: Mapping[str, Mapping[str, int]]
) -> DataFrame:
    columns = [
        "concat(topic, '/', partition) AS stream",
        "CAST(NULL AS BIGINT) AS time",
        "value",
        "offset AS position",
    ]
    options = {
        "kafka.bootstrap.servers": source.brokers,
        "kafka.isolation.level": "read_committed",
        "subscribe": ",".join(offsets),
        "startingOffsets": json.dumps(offsets),
        "maxOffsetsPerTrigger": str(EVENTS),
        "groupIdPrefix": f"ivm-{name}",
        "failOnDataLoss": "true",
    }
    read = session.readStream.format("kafka").options(**options)
    return read.load().selectExpr(*columns, *(["key"] if source.deletion() else []))
