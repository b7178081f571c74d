"""How far a reader is behind the server."""

from __future__ import annotations

import time

from ivm.cdc.sources.postgres.connections.server import ask
from ivm.cdc.sources.postgres.log.messages import lsn_number
from ivm.cdc.sources.postgres.tables.described import Catalog

_INTERVAL = 0.5  # seconds between questions to the server while there are changes
_CHECKED = 5.0  # seconds between looks at the tables


class Lag:
    """Compares positions in the server's log, and estimates how many events are between them.

    Attributes:
        end: where the server's log ended when it was asked last.
        caught_up: all that was in the log when the last read began has been given.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._asked, self._checked = -_INTERVAL, time.monotonic()
        self._reached = 0
        self._events, self._bytes = 0, 0
        self.end = 0
        self.caught_up = False

    def ask(self, is_idle: bool) -> bool:
        """Asks the server for the end of its log, before a read.

        Args:
            is_idle: the read before has found nothing.

        Returns:
            It is time to look at the tables, too.
        """
        now = time.monotonic()
        if is_idle or now - self._asked > _INTERVAL:
            self._asked = now
            sql = "SELECT pg_current_wal_flush_lsn()::text"
            ((end,),) = ask(self._catalog.connection, sql)
            self.end = lsn_number(end)
        if now - self._checked < _CHECKED:
            return False
        self._checked = now
        return True

    def read(self, events: int, position: int) -> None:
        """Notes that events up to a position were read."""
        if self._reached:
            self._events += events
            self._bytes += max(position - self._reached, 0)
        self._reached, self.caught_up = position, False

    def idle(self, position: int) -> None:
        """Notes that there was nothing to read up to a position."""
        self._reached = max(position, self._reached)
        self.caught_up = self._reached >= self.end

    @property
    def events(self) -> int | None:
        """How many events were not read, about; None if that cannot be told yet."""
        behind = max(self.end - self._reached, 0)
        if not behind or self.caught_up:
            return 0
        return round(behind * self._events / self._bytes) if self._bytes else None
