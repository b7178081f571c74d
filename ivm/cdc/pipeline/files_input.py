"""Whole files of lines as an input of a pipeline.

Law: a file is read once, when it is first seen, in the micro-batch in which Spark's checkpoint has
it; the position is the number of the last micro-batch, and the name of that checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.pipeline.planned_files import STREAM, PlannedFiles
from ivm.cdc.sources.files.facts import FACTS
from ivm.cdc.sources.files.files import PIPELINE, Files
from ivm.cdc.sources.metadata import Facts, Metadata
from ivm.cdc.sources.source import Position, SourceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BYTES = 64 << 20
"""Of the files of a micro-batch, of which there is at least one."""
_ANY_AGE = "400000d"  # before the newest one: older files would be passed over


@dataclass
class FilesInput:
    """See `Input`."""

    table: str
    lines: DataFrame
    envelope: Envelope
    checkpoint: Path
    planned: PlannedFiles
    at: Position | None
    metadata: Metadata
    deletion: Callable[[bytes], bytes] | None = None
    by_time: bool = True
    ahead: bool = False
    facts: Facts = field(default_factory=lambda: FACTS)

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

    def demand_read(self, number: int, streams: Collection[str]) -> None:
        """See `Input`."""
        self.planned.demand_read(number, streams)


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
    envelope = source.lines_envelope()
    assert envelope is not None
    lines = (
        session.readStream.format("text")
        .option("lineSep", "\n")
        .option("maxBytesPerTrigger", str(BYTES))
        .option("maxFileAge", _ANY_AGE)
        .load(source.path)
        .selectExpr(
            f"{STREAM.format('_metadata.file_path')} AS stream",
            "unix_millis(_metadata.file_modification_time) AS time",
            r"CAST(rtrim('\r', value) AS BINARY) AS value",
        )
    )
    planned = PlannedFiles(session, checkpoint, source.skip_lost)
    at = positions.get(PIPELINE)
    return FilesInput(table, lines, envelope, checkpoint, planned, at, source.told())
