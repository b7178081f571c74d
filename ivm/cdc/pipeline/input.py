"""What a pipeline reads: a streaming frame of lines, and the positions that a micro-batch reaches.

Law: the positions are those of the database, committed with the rows. Spark's own notes are only
its plan of the next micro-batch: where the two do not agree, the pipeline stops, or begins again
from the database's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ivm.cdc.formats.json_statement import Envelope
from ivm.cdc.sources.metadata import Facts, Metadata
from ivm.cdc.sources.source import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Input(Protocol):
    """One stream of lines of one table.

    Attributes:
        table: our table.
        lines: a streaming frame, see `Decoding.run`.
        envelope: of the lines' format.
        deletion: see `Decoding`.
        by_time: see `SparkPart`.
        metadata: which columns get facts of the lines.
        facts: of the kind of source.
        checkpoint: the folder in which Spark notes its plan.
        ahead: nothing depends on these notes, so Spark may go on before a micro-batch is committed.
    """

    table: str
    lines: DataFrame
    envelope: Envelope
    deletion: Callable[[bytes], bytes] | None
    by_time: bool
    metadata: Metadata
    facts: Facts
    checkpoint: Path
    ahead: bool

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

    def demand_read(self, number: int, streams: Collection[str]) -> None:
        """Checks that a micro-batch is whole.

        Args:
            number: of the micro-batch, which was reached.
            streams: those that its lines are of.

        Raises:
            UnavailableError: something of it was not read.
        """
