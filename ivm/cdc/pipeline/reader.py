"""Reads a source by Spark's Structured Streaming, micro-batch by micro-batch.

Law: a micro-batch is over for Spark once it is durably committed here, and no sooner; so Spark
never goes on behind one that is not. One that comes again after a crash is known by its position.
Where Spark always begins from our positions, it may go on as soon as a micro-batch is decoded: the
next one is then decoded while that one is applied.
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ivm.cdc.pipeline.carried_facts import CarriedFacts
from ivm.cdc.pipeline.input import Input
from ivm.cdc.pipeline.micro_batches import MicroBatch, MicroBatches
from ivm.cdc.pipeline.part import SparkPart
from ivm.cdc.sources.metadata_part import MetadataPart
from ivm.cdc.sources.source import Batch, Position
from ivm.spark_backfill.session import asking, words_of
from ivm.storage.errors import UnavailableError

_IDLE = "Waiting for data to arrive"  # the status of a query that has found nothing new


class _Query:
    """One input, and the query that reads it."""

    def __init__(self, input: Input) -> None:
        self._input = input
        self._given = MicroBatches()
        self._found_nothing = False  # at a look behind all that was given
        writer = input.lines.writeStream.foreachBatch(self._given.receive)
        place = f"file:{input.checkpoint}"  # as it is: Spark takes `%20` for no blank
        self._query: Any = writer.option("checkpointLocation", place).start()

    def take(self, timeout: float) -> tuple[MicroBatch, Batch] | None:
        """The next micro-batch as a batch; None if none has come in time."""
        self._demand_running()
        given, each = self._given.take(timeout), self._input
        if given is None:
            return None
        positions = each.reached(str(_asked(lambda: self._query.id)), given.number)
        read = functools.partial(each.demand_read, given.number)
        asked, lines = each.metadata.asked, (each.table, given.frame, each.envelope, each.deletion)
        part = SparkPart(*lines, read, by_time=each.by_time, facts=asked)
        if not each.metadata:
            return given, Batch((part,), positions)
        facts = CarriedFacts(part, asked, each.facts)
        return given, Batch((MetadataPart(part, each.metadata, facts),), positions)

    def _demand_running(self) -> None:
        error = _asked(self._query.exception)
        if error is not None:
            raise UnavailableError(f"Spark: {words_of(error)}") from error
        if not _asked(lambda: self._query.isActive):
            raise UnavailableError("Spark's query was stopped")

    @property
    def ahead(self) -> bool:
        """See `Input`."""
        return self._input.ahead

    def idle(self) -> bool:
        """Whether it has found nothing new when it last looked.

        It looks again and again, and says so: what it has found before holds until it finds more.
        """
        status = _asked(lambda: self._query.status)
        waits = status["message"] == _IDLE
        known = waits or (self._found_nothing and not status["isDataAvailable"])
        self._found_nothing = known and self._given.empty()
        return self._found_nothing

    def close(self) -> None:
        """Ends it; a micro-batch that was not applied comes again."""
        self._given.close()
        with contextlib.suppress(Exception):  # Spark has been killed, perhaps: nothing is to stop
            self._query.stop()


def _asked(ask: Callable[[], Any]) -> Any:
    """What Spark says of a query.

    Raises:
        UnavailableError: it says nothing any more.
    """
    with asking():
        return ask()


class SparkReader:
    """See `Reader`.

    Args:
        inputs: what is read, at least one; each is a query of Spark's.
    """

    def __init__(self, inputs: Sequence[Input]) -> None:
        self._unconfirmed: deque[MicroBatch | None] = deque()
        self._ahead: list[MicroBatch] = []
        self._start = {stream: at for each in inputs for stream, at in each.start.items()}
        self._queries: deque[_Query] = deque()
        try:
            for each in inputs:
                self._queries.append(_Query(each))
        except BaseException:
            self.close()
            raise

    def read(self, limit: int, timeout: float) -> Batch | None:
        """See `Reader`; a micro-batch is as long as Spark has made it."""
        if self._start:  # from now on it is known where, whatever comes first
            start, self._start = self._start, {}
            self._unconfirmed.append(None)
            return Batch((), start)
        for given in self._ahead:  # the next read comes behind its decoding
            given.applied.set()
        self._ahead.clear()
        for _ in range(len(self._queries)):
            self._queries.rotate(-1)  # each in its turn
            found = self._queries[-1].take(timeout / len(self._queries))
            if found is not None:
                given, batch = found
                self._unconfirmed.append(given)
                if self._queries[-1].ahead:
                    self._ahead.append(given)
                return batch
        return None

    def confirm(self, positions: Mapping[str, Position]) -> None:
        """See `Reader`; called once for each batch, in order."""
        given = self._unconfirmed.popleft()
        if given is not None:
            given.applied.set()

    def lag(self) -> int | None:
        """See `Reader`; Spark tells of what it has read, not of what there is."""
        return None

    def caught_up(self) -> bool:
        """See `Reader`."""
        return not self._unconfirmed and all(query.idle() for query in list(self._queries))

    def close(self) -> None:
        """See `Reader`."""
        for query in self._queries:
            query.close()
