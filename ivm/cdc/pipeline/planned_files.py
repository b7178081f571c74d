"""The files that a micro-batch has by Spark's plan, of which none may go unread.

Spark lists them anew when it runs a micro-batch, also one that comes again after a crash, and a
file that is away at that moment is left out without a word. Its plan stands in its checkpoint: in
`offsets`, up to which of the numbers below, and in `sources/0` the files of each number (a log that
it now and then makes compact).

Law: a micro-batch is applied only if each file of its plan gave lines, or has none.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ivm.spark_backfill.session import asking
from ivm.storage.errors import UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STREAM = "regexp_replace(url_decode(replace({}, '+', '%2B')), '^file:/*', '/')"
"""SQL of the name that a file has as a stream, from that which it has in Spark, a URI."""


@dataclass(frozen=True)
class PlannedFiles:
    """The plans of one source's micro-batches.

    Args:
        session: reads a file that gave no lines once more.
        checkpoint: Spark's folder.
        skip_lost: whether one that is gone is passed over.
    """

    session: SparkSession
    checkpoint: Path
    skip_lost: bool

    def demand_read(self, number: int, streams: Collection[str]) -> None:
        """Checks that the lines of a micro-batch are those of all its files.

        Args:
            number: of the micro-batch.
            streams: the files that lines came from.

        Raises:
            UnavailableError: one was away, or is.
        """
        known = frozenset(streams)
        for path in self._paths(number):
            file = _stream(path)
            if file not in known and self._was_away(path, file):
                raise UnavailableError(
                    f"the file {file!r}, which Spark has planned to read, is away, or was when it "
                    "looked: put it back, or ALTER SOURCE … SET (skip_lost true)"
                )

    def _paths(self, number: int) -> Iterator[str]:
        after = self._end(number - 1) if number else -1
        for each in range(after + 1, self._end(number) + 1):
            plain = self.checkpoint / "sources" / "0" / str(each)
            log = plain if plain.exists() else plain.with_suffix(".compact")
            entries = [json.loads(line) for line in log.read_text().splitlines()[1:]]
            yield from [entry["path"] for entry in entries if entry["batchId"] == each]

    def _end(self, number: int) -> int:
        plan = (self.checkpoint / "offsets" / str(number)).read_text()
        return int(json.loads(plan.splitlines()[-1])["logOffset"])

    def _was_away(self, path: str, file: str) -> bool:
        """Whether a file that gave no lines has some, or is away still."""
        from pyspark.errors import AnalysisException

        if path.startswith("file:") and os.path.exists(file) and not os.path.getsize(file):
            return False
        try:
            with asking():
                return not self.session.read.text(_literally(unquote(path))).isEmpty()
        except UnavailableError as error:
            cause = error.__cause__
            if isinstance(cause, AnalysisException) and cause.getCondition() == "PATH_NOT_FOUND":
                return not self.skip_lost
            raise


def _stream(path: str) -> str:
    """As `STREAM` makes it."""
    return re.sub("^file:/*", "/", unquote(path))


def _literally(path: str) -> str:
    """A path without the meaning that the signs of a pattern have to Spark."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
