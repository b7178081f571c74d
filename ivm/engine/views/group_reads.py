"""The rows of views under the keys of their groups, read from the state of their aggregates.

Law: they are the rows of the view at the epoch of the last commit. They need no memory beside the
state, and no delta is added up for them, so a look-up costs the same whatever the view's size.

A step makes groups and a commit changes them, so neither is under way while one is read: `still` of
the circuit is acquired first, then `publishing`. A reader that would wait long for a step goes the
other way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ivm.catalog.version import Meaning
from ivm.engine.tables.stored_tables import StoredTables
from ivm.engine.views.held_views import HeldViews
from ivm.engine.views.maintenance import Maintenance
from ivm.storage.values.column import Column
from ivm.storage.values.zset import ZSet

_PATIENCE = 0.002
"""Seconds that a reader waits for a step: less than DuckDB needs after a flush."""


class GroupReads:
    """The look-ups of one database.

    Args:
        maintenance: the circuit.
        tables: the log, and the epoch of the last commit.
        held: whose `publishing` is held by a commit.
        meaning: see `HeldViews`.
    """

    def __init__(
        self,
        maintenance: Maintenance,
        tables: StoredTables,
        held: HeldViews,
        meaning: Callable[[], Meaning | None],
    ) -> None:
        self._maintenance, self._tables = maintenance, tables
        self._held, self._meaning = held, meaning

    def can_find(self, view: str, key: tuple[int, ...]) -> bool:
        """Returns whether a key is that of a view's groups; their state need not be built yet."""
        with self._maintenance.still:
            return self._maintenance.group_lookup(view, key) is not None

    def find(
        self, view: str, key: tuple[int, ...], values: Sequence[Column], meaning: Meaning
    ) -> ZSet | None:
        """The rows under a key, each with weight 1.

        Args:
            view: the name of an incremental view that is not broken, with no recomputed one below.
            key: positions of its columns.
            values: a column of one row for each; none is NULL.
            meaning: under which the view was found.

        Returns:
            None if they cannot be had so: it is not the key of the groups, their state is not built
            yet, a long step is under way, or names have another meaning.

        Raises:
            UnavailableError: as `HeldViews.whole`.
        """
        still = self._maintenance.still
        if not still.acquire(timeout=_PATIENCE):
            return None
        try:
            lookup = self._maintenance.group_lookup(view, key)
            if lookup is None or not lookup.ready:
                return None
            with self._held.publishing:
                self._tables.log.demand_readable()
                if meaning != self._meaning():
                    return None
                rows, epoch = lookup.rows(values), self._tables.pending.epoch
        finally:
            still.release()
        self._tables.log.sync(epoch)  # nothing is shown that a crash could undo
        return rows
