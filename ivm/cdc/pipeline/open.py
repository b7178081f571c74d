"""Which sources a pipeline can read, their opening on Spark, and their checkpoints."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ivm.cdc.pipeline.files_input import files_input
from ivm.cdc.pipeline.input import Input
from ivm.cdc.pipeline.reader import SparkReader
from ivm.cdc.sources.files.files import Files
from ivm.cdc.sources.kafka.kafka import Kafka
from ivm.cdc.sources.kafka.options import demand_client
from ivm.cdc.sources.source import Position, Reader, Source, SourceError
from ivm.cdc.stored_sources import StoredSource
from ivm.spark_backfill.session import asking, prepared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.sql.streaming.pollingDelay": "200ms",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
    # A file is read by one worker, so that its lines can be numbered.
    "spark.sql.files.maxPartitionBytes": str(1 << 50),
    "spark.sql.files.openCostInBytes": str(1 << 50),
}


_OTHER_SIGNS = ("**", "[!", "{", "\\")  # of patterns of files


def refusal(source: Source) -> str | None:
    """Why a pipeline cannot read a source; None if it can."""
    if isinstance(source, Files):
        if source.lines_envelope() is None:
            return f"files of format {source.format!r} are no lines of JSON"
        found = next((sign for sign in _OTHER_SIGNS if sign in source.path), None)
        return None if found is None else f"Spark reads `{found}` in a pattern otherwise"
    if not isinstance(source, Kafka):
        return f"it is of kind {source.kind}"
    if source.envelope().schema and source.follow:
        return "its table follows the schemas of its events: ALTER SOURCE … SET (follow false)"
    return None


def open_on_spark(
    stored: StoredSource,
    positions: Mapping[str, Position],
    spark: Callable[[], SparkSession],
    folder: Path,
) -> Reader:
    """Opens a source by Spark, or, if a pipeline cannot read it, in this process.

    Args:
        stored: the source.
        positions: as they were committed.
        spark: gives the prepared session.
        folder: of the checkpoints of the database's pipelines.

    Raises:
        UnavailableError: Spark cannot begin to read.
        SourceError: somebody must act.
    """
    source = stored.definition
    if refusal(source) is not None:
        return source.open(stored.name, stored.target, positions)
    session = _session(spark())
    to = folder / _digest(stored.name)
    with asking():
        return SparkReader(_inputs(session, stored, positions, to))


def forget_dropped(folder: Path, names: Sequence[str]) -> None:
    """Removes the checkpoints of sources that are there no more.

    Args:
        folder: of the checkpoints of the database's pipelines, if there is one.
        names: of the sources that are there.
    """
    known = set(map(_digest, names))
    for found in folder.glob("*"):
        if found.name not in known:
            shutil.rmtree(found)


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def _inputs(
    session: SparkSession, stored: StoredSource, positions: Mapping[str, Position], to: Path
) -> Sequence[Input]:
    source = stored.definition
    if isinstance(source, Kafka):
        with demand_client():
            from ivm.cdc.pipeline.kafka_input import kafka_inputs
        return kafka_inputs(session, source, stored.target, stored.name, positions, to)
    assert isinstance(source, Files)
    return [files_input(session, source, stored.target or "", positions, to)]


def _session(spark: SparkSession) -> SparkSession:
    """A session of the pipeline's own, which shares all but its settings with the others."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise SourceError(
            "a pipeline's driver is the process that has the database open: Spark Connect, whose "
            "driver is elsewhere, cannot run it"
        )
    session = prepared(spark.newSession())
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session
