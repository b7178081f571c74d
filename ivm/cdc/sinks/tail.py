"""A changefeed as JSON lines, for programs that read text."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from ivm.cdc.sinks.encode import Delta, Shape, demand_format, encoded, refuse_names
from ivm.engine.engine import Engine
from ivm.engine.feeds.changefeed import Subscription
from ivm.storage.values.consolidate import consolidate
from ivm.storage.warehouse.duckdb.duck import run


class Tail(Iterator[list[str]]):
    """An iterator over the lines of each epoch, that waits for the next one; ends when closed.

    Args:
        engine: of the database.
        feed: the changes of the view.
        format: one of `encode.FORMATS`.

    Raises:
        InputError: there is no such format.
        UnsupportedError: a column of the view has a name that the format's lines use.
    """

    def __init__(self, engine: Engine, feed: Subscription, format: str) -> None:
        self._feed = feed
        self._format = demand_format(format)
        refuse_names(format, feed.view, feed.schema)
        view = engine.catalog.version.committed_views.get(feed.view)
        self._shape = Shape(feed.view, feed.schema, None if view is None else view.key)
        self._cursor = engine.warehouse.cursor()
        run(self._cursor, "SET TimeZone = 'UTC'")

    def poll(self, timeout: float | None = None) -> list[str] | None:
        """The lines of the next epoch, or None if none comes within `timeout` seconds.

        Raises:
            UnavailableError: see `Subscription.poll`.
            EvaluationError: see `Subscription.poll`.
        """
        item = self._feed.take(timeout)
        if item is None:
            return None
        epoch, delta = item
        rows = consolidate(delta, [type for _, type in self._shape.schema])
        found = [Delta(epoch, time.time_ns() // 1000, rows)]
        parts = [part for _, part, _ in encoded(self._cursor, self._format, self._shape, found)]
        return pa.chunked_array(parts, pa.string()).to_pylist()  # type: ignore[no-any-return]

    def __next__(self) -> list[str]:
        lines = self.poll()
        if lines is None:
            raise StopIteration
        return lines

    @property
    def ended(self) -> bool:
        """See `Subscription.ended`."""
        return self._feed.ended

    def close(self) -> None:
        """Ends the feed; what is queued can still be read."""
        self._feed.close()

    def __enter__(self) -> Tail:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
