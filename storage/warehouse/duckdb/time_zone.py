"""The view time zone: the zone in which views are computed, whatever a session has set.

Invariant: a view's rows do not depend on the session that writes, reads or opens the database. The
zone is recorded in the file when it is first opened; new cursors begin in it, and the cursor of a
session that has set another one is switched to it while views are computed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import duckdb

from ivm.storage.identifiers import literal
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, run


class ViewTimeZone:
    """The zone, and the sessions whose own zone is still to be restored.

    Args:
        name: as in DuckDB's setting TimeZone.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._replaced: tuple[tuple[Cursor, str], ...] = ()  # replaced whole
        self._replacing = threading.Lock()

    @contextlib.contextmanager
    def on(self, cursor: Cursor) -> Iterator[None]:
        """Lets the cursor's statements run in the zone."""
        own = zone_of(cursor)
        if own == self.name:
            yield
            return
        _set(cursor, self.name)
        with self._replacing:
            self._replaced += ((cursor, own),)
        try:
            yield
        finally:
            self.restore(cursor)

    def restore(self, cursor: Cursor) -> None:
        """Sets the session's own zone again; in an aborted transaction that waits for its end."""
        mine = [(owner, zone) for owner, zone in self._replaced if owner is cursor]
        with contextlib.suppress(duckdb.TransactionException):
            for _, zone in mine:
                _set(cursor, zone)
            with self._replacing:
                self._replaced = tuple(e for e in self._replaced if e[0] is not cursor)


def zone_of(cursor: Cursor) -> str:
    """The time zone of a cursor's session."""
    return str(rows(cursor, "SELECT system.main.current_setting('TimeZone')")[0][0])


def _set(cursor: Cursor, zone: str) -> None:
    run(cursor, f"SET TimeZone = {literal(zone)}")
