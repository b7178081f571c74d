"""The calls of the open database on change streams: events in, sources, sinks and changefeeds.

Contract: see `Database`, which has these calls among its own.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from ivm.calls import Calls
from ivm.cdc import stored_sources
from ivm.cdc.apply import Ingested
from ivm.cdc.formats.envelopes import envelope_of
from ivm.cdc.ingest import ingest
from ivm.cdc.pipeline.run import run_pipeline
from ivm.cdc.run_sources import SourceInfo, list_sources, run_sources
from ivm.cdc.sinks import stored_sinks
from ivm.cdc.sinks.encode import demand_format
from ivm.cdc.sinks.run_sinks import SinkInfo, list_sinks, run_sinks
from ivm.cdc.sinks.tail import Tail
from ivm.cdc.sinks.target import SinkTo
from ivm.cdc.sources.source import Source
from ivm.engine.engine import Engine
from ivm.engine.feeds.changefeed import MOST_HELD, Subscription
from ivm.session.session import Session
from ivm.session.subscribe import subscribe


class Streams(Calls):
    """The part of `Database` that is about change streams."""

    _engine: Engine

    def __init__(self) -> None:
        super().__init__()
        self._feeds: weakref.WeakSet[Subscription] = weakref.WeakSet()
        self._subscribing = threading.Lock()  # guards them

    # -- events and sources ---------------------------------------------------------------------

    def ingest(
        self,
        table: str,
        events: Sequence[str | bytes | dict[str, Any] | None] | pa.Array,
        *,
        format: str = "debezium",
        times: str | None = None,
        decimals: str | None = None,
        version: str = "",
        tables: str = "",
        source: str = "python",
        position: int | None = None,
    ) -> Ingested:
        """Applies the change events of another database to a table, as one epoch.

        The rows that events change are found by the table's key; an event that cannot be applied
        is stored in `_ivm.dead_letters` with its reason, and the others are applied. Views that
        fail on the rows are broken: reading them says why, and REFRESH mends them.

        Args:
            table: its name, `schema.table` if it is not in main.
            events: JSON texts or dicts in the order of the stream; None and blank ones are ignored.
            format: `debezium`, `debezium with schema`, `maxwell`, `json` (rows with a key `op`:
                insert, update or delete) or `json appends` (rows alone).
            times: what numbers in columns of times count, `ms`, `us` or `ns`.
            decimals: whether strings in columns of numbers are `text` or `base64`.
            version: the name of a column that grows with each change of a row: an event whose
                version is not greater than the stored one changes nothing.
            tables: those upstream whose events are meant, parted by commas: `orders`, with its
                schema or database before it or not, with `*` for any text. Without, it is the
                table that the source's first event for this table names; others are refused.
            source: the name of the stream.
            position: of the batch in the stream, greater than that of the source's batch before
                for this table. It is committed with the rows; a batch whose position has been
                reached changes nothing.

        Returns:
            What was applied, ignored and refused.

        Raises:
            InputError: an unknown format or encoding, or a position that is no integer.
            EvaluationError: within a transaction, at its commit: a view fails on the rows.
            UnsupportedError: the table has constraints that only DuckDB can check.
        """
        envelope = envelope_of(format, times, decimals, version, tables)
        return self._with_session(
            lambda session: ingest(session, table, events, envelope, source, position)
        )

    def create_source(
        self, name: str, source: Source, into: str | None = None, *, if_not_exists: bool = False
    ) -> None:
        """Creates a source of changes, as CREATE SOURCE does; `start_sources` runs it.

        Args:
            name: of the source, without regard to case.
            source: such as `ivm.sources.Files(path="inbox/*.jsonl", format="debezium")`.
            into: the table that its events change, where the source itself does not tell.
            if_not_exists: whether a source of this name may exist and stays as it is.

        Raises:
            InputError: the name is taken, or there is no table to which the events can go.
        """
        self._with_session(
            lambda s: stored_sources.create(s, name, source, into, if_not_exists=if_not_exists)
        )

    def sources(self) -> list[SourceInfo]:
        """All sources with what they are doing, as SHOW SOURCES lists them."""
        return self._with_session(list_sources, looks=True)

    def start_sources(self, names: Iterable[str] | None = None) -> None:
        """Runs the database's sources in threads of this process, from now on.

        Sources created or resumed later are run too; while they run, the database stays open.

        Args:
            names: of those that begin now; None for all.

        Raises:
            SqlError: there is no source of one of the names.
        """
        chosen = None if names is None else list(names)
        run_sources(self._with_session, self._engine, chosen)

    def start_pipeline(self, names: Iterable[str] | None = None) -> list[str]:
        """Runs sources as `start_sources` does, read and decoded by Spark's Structured Streaming.

        Kafka's topics and whole files of JSON lines can be read so.

        Args:
            names: of those that begin now; None for all that can be read so.

        Returns:
            Their names.

        Raises:
            InputError: there are none.
            UnsupportedError: a source cannot be read so, or the database is in memory.
            UnavailableError: sources are run already, or Spark cannot be started.
        """
        chosen = None if names is None else list(names)
        return run_pipeline(self._with_session, self._engine, chosen, self._engine.spark)

    def stop_sources(self, timeout: float = 10.0) -> bool:
        """Ends the threads of all sources; each goes on from its position when it is run again.

        Args:
            timeout: seconds to wait for the batches that are being applied.

        Returns:
            Whether all have ended in time.
        """
        return not self._engine.jobs.stop("source", timeout)

    def create_sink(
        self, name: str, view: str, sink: SinkTo, *, if_not_exists: bool = False
    ) -> None:
        """Creates a sink for the changes of a view, as CREATE SINK does; `start_sinks` runs it.

        Args:
            name: of the sink, without regard to case.
            view: its name.
            sink: such as `ivm.sinks.Files(path="out/revenue.jsonl", format="debezium")`.
            if_not_exists: whether a sink of this name may exist and stays as it is.

        Raises:
            InputError: the name is taken, there is no such view, or the target cannot be written.
        """
        self._with_session(
            lambda s: stored_sinks.create(s, name, view, sink, if_not_exists=if_not_exists)
        )

    def sinks(self) -> list[SinkInfo]:
        """All sinks with what they are doing, as SHOW SINKS lists them."""
        return self._with_session(list_sinks, looks=True)

    def start_sinks(self) -> None:
        """Runs the database's sinks in threads of this process, from now on.

        Sinks created or resumed later are run too; while they run, the database stays open.
        """
        run_sinks(self._with_session, self._engine)

    def stop_sinks(self, timeout: float = 10.0) -> bool:
        """Ends the threads of all sinks; what they have not acknowledged waits in the outbox.

        Args:
            timeout: seconds to wait for what is being written.

        Returns:
            Whether all have ended in time.
        """
        return not self._engine.jobs.stop("sink", timeout)

    # -- changefeeds ----------------------------------------------------------------------------

    def subscribe(
        self, view: str, *, limit: int = MOST_HELD, snapshot: bool = False
    ) -> Subscription:
        """Opens a changefeed: a blocking iterator of (epoch, delta) from now on.

        A delta is an Arrow table of the view's columns and `_weight` (int64): positive for rows
        added, negative for rows removed.

        Args:
            view: its name.
            limit: rows that wait to be read; beyond it, the feed ends with an error.
            snapshot: whether the first delta is the rows that the view has.
        """

        def work(session: Session) -> Subscription:  # the handle is closed before it or after it
            feed = subscribe(session, view, limit, self._unsubscribe, snapshot=snapshot)
            with self._subscribing:
                self._feeds.add(feed)
            return feed

        return self._with_session(work)

    def _unsubscribe(self, feed: Subscription) -> None:
        """Removes a closed feed. A feed that the program holds refers to this method, and so keeps
        the database open; the engine does not hold it."""
        self._engine.feeds.remove(feed)

    def _end_streams(self) -> None:
        """Ends the feeds, sources and sinks of this handle; others may use the database."""
        with self._subscribing:
            feeds = list(self._feeds)
        for feed in feeds:
            feed.close()
        self._engine.jobs.stop_of(self._with_session)

    def tail(
        self, view: str, *, format: str = "jsonl", snapshot: bool = False, limit: int = MOST_HELD
    ) -> Tail:
        """Opens a changefeed of JSON lines: a blocking iterator of lists of lines, one an epoch.

        Args:
            view: its name.
            format: `jsonl` or `debezium`, see the formats of sinks.
            snapshot: whether the first lines are the rows that the view has.
            limit: rows that wait to be read; beyond it, the feed ends with an error.
        """
        demand_format(format)
        return Tail(self._engine, self.subscribe(view, limit=limit, snapshot=snapshot), format)
