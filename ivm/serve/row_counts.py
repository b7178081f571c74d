"""The numbers of rows of tables and views, as DuckDB counts them.

Law: they are counted, not estimated, with all that is committed; at most once in two seconds.
"""

from __future__ import annotations

import contextlib
import threading
import time

import duckdb

from ivm.engine.engine import Engine
from ivm.storage.warehouse.duckdb.duck import rows

_AGAIN = 2.0  # seconds between two counts


class RowCounts:
    """The numbers of rows, as of the last commit when they were counted.

    Args:
        engine: of the database.

    Attributes:
        last: those that were counted last.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._counted_at = -_AGAIN
        self._known: tuple[object, ...] = ()
        self.last: dict[str, int] = {}

    def of(self, names: list[str]) -> dict[str, int]:
        """The numbers by name, counted anew if there was a commit, and some time has passed.

        Raises:
            UnavailableError: the tables cannot be brought up to date.
        """
        with self._lock:
            now, known = time.monotonic(), (self._engine.epoch, *names)
            is_new = known[1:] != self._known[1:]
            if is_new or (known != self._known and now - self._counted_at > _AGAIN):
                self.last = self._count(names)
                self._counted_at, self._known = now, known
            return self.last

    def _count(self, names: list[str]) -> dict[str, int]:
        self._engine.tables.flush()
        qualified = self._engine.catalog.version.as_committed.qualified
        known = [name for name in names if name in qualified]
        parts = [f"(SELECT count(*) FROM {qualified[name]})" for name in known]
        if not parts:
            return {}
        with contextlib.closing(self._engine.warehouse.cursor()) as cursor:
            try:
                [found] = rows(cursor, f"SELECT {', '.join(parts)}")
            except (
                duckdb.CatalogException
            ):  # one was dropped meanwhile: the next look lists them anew
                return {}
        return dict(zip(known, found, strict=True))
