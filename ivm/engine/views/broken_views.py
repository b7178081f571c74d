"""Breaking views: those that fail on a change are marked, so that the change can be committed.

Law: a mark is durable before the first change that its view fails on is committed. So the log holds
no such change that the views in the file do not pass by, and replay meets no failure. (A mark whose
change is not committed after all stays: the view can be filled anew.)
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence

import duckdb

from ivm.catalog.broken_views import broken_error, broken_views
from ivm.catalog.version import View
from ivm.engine.base.definitions import Definitions
from ivm.engine.feeds.changefeed import ChangeFeeds
from ivm.engine.tables.stored_tables import StoredTables
from ivm.engine.views.failing_row import failing_row, shortened
from ivm.engine.views.maintenance import Maintenance
from ivm.storage.errors import EvaluationError
from ivm.storage.interrupts import Shelter
from ivm.storage.log.change import TableChange
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duckdb_errors import is_of_the_rows, of_our_sql
from ivm.storage.warehouse.tables.system_tables import State, StoredView, save_view, upgrade

_LONGEST = 1000  # characters of a reason, which may hold a value of any length


class BrokenViews:
    """Breaks views; the caller of its methods holds the writer lock.

    Args:
        maintenance: the circuit, which broken views leave.
        tables: the tables and the catalog.
        feeds: those of broken views get the reason.
        definitions: forgotten, so that readers under way find out.
    """

    def __init__(
        self,
        maintenance: Maintenance,
        tables: StoredTables,
        feeds: ChangeFeeds,
        definitions: Definitions,
    ) -> None:
        self._maintenance = maintenance
        self._tables = tables
        self._warehouse, self._catalog = tables.warehouse, tables.catalog
        self._feeds = feeds
        self._definitions = definitions

    def names(self) -> frozenset[str]:
        """The views that are broken, by themselves or through one below."""
        return frozenset(broken_views(self._catalog.views))

    def demand_whole(self, name: str) -> None:
        """Raises EvaluationError if a view is broken."""
        to_blame = broken_views(self._catalog.views).get(name)
        if to_blame is not None:
            raise broken_error(name, to_blame)

    def break_failing(
        self,
        error: EvaluationError,
        changes: Sequence[TableChange],
        recomputed: Mapping[str, ZSet] | None = None,
    ) -> None:
        """Breaks the views that fail on a change, which can then be stepped again.

        Args:
            error: of the step, which was rolled back.
            changes: of base tables.
            recomputed: differences of recomputed views.

        Raises:
            EvaluationError: the same one, if it is not known whose it is, or not of the rows.
        """
        failed = self._failed(error, changes, recomputed or {})
        if not failed or not is_of_the_rows(error):
            raise error
        above = {view.name for view in self._catalog.version.readers(failed)}
        reasons: dict[str, str] = {}
        for name in failed.keys() - above:
            text = why(failed[name])
            if text not in reasons:
                reasons[text] = text + self._row(name, changes)
            self.mark([name], reasons[text])

    def _failed(
        self,
        error: EvaluationError,
        changes: Sequence[TableChange],
        recomputed: Mapping[str, ZSet],
    ) -> dict[str, EvaluationError]:
        """The views that fail on a change.

        One with a stale view below it may fail for that alone: it is taken at the error's word.
        """
        broken, tables = self.names(), {change.table for change in changes}
        failed = {}
        for name, view in self._catalog.views.items():
            reached = not view.bases.isdisjoint(tables) and not view.recomputed_below
            reached |= not recomputed.keys().isdisjoint(view.recomputed_below)
            if name in broken or not view.incremental:
                continue
            if name in error.views:
                failed[name] = error
            elif reached and (found := self._error(name, changes, recomputed)) is not None:
                failed[name] = found
        return failed

    def _error(
        self, name: str, changes: Sequence[TableChange], recomputed: Mapping[str, ZSet]
    ) -> EvaluationError | None:
        try:
            self._maintenance.preview(changes, recomputed, {name})
        except EvaluationError as error:
            return error if is_of_the_rows(error) else None
        return None

    def _row(self, name: str, changes: Sequence[TableChange]) -> str:
        """The row on which a view fails, in words; "" where that cannot be told."""
        if self._catalog.views[name].recomputed_below:
            return ""
        return failing_row(self._maintenance, self._tables, changes, {name})

    def mark(self, names: Collection[str], reason: str) -> None:
        """Marks views as broken, in the file and then in memory, with those above them.

        Raises:
            duckdb.Error: the file cannot be written; nothing is marked.
        """
        views = [self._catalog.views[name] for name in names]
        before = self.names()
        with Shelter(), self._warehouse.write_lock:
            self._save(views, reason)
            self._catalog.break_views(names, reason)
            for name, to_blame in broken_views(self._catalog.views).items():
                if name not in before:
                    self._maintenance.detach(name)
                    self._feeds.fail(name, broken_error(name, to_blame))
            self._definitions.forget()

    def _save(self, views: Sequence[View], reason: str) -> None:
        with contextlib.closing(self._warehouse.cursor()) as cursor:
            upgrade(cursor)  # an opening replays before the records have our format
        with self._warehouse.transaction() as cursor:
            for view in views:
                save_view(cursor, record_of(view, "broken", reason))


def record_of(view: View, state: State, reason: str | None = None) -> StoredView:
    """The view's record in the file."""
    given = () if view.schema == view.described else tuple(n for n, _ in view.schema)
    return StoredView(view.name, view.query, given, state, reason, view.tick, view.emits)


def why(error: EvaluationError) -> str:
    """The words of the expression that failed, without what was said around them."""
    deepest: Exception = error
    while isinstance(deepest.__cause__, EvaluationError | duckdb.Error):
        deepest = deepest.__cause__
    return shortened(of_our_sql(deepest).strip(), _LONGEST)
