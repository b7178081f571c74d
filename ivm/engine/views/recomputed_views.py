"""Recomputed views: marked stale by changes, recomputed when they are read.

Contract: a view is recomputed before it, or a view above it, is read; lower views come first. Its
difference goes through the circuit like any delta.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter_ns

import duckdb

from ivm.catalog.broken_views import broken_views
from ivm.catalog.version import View
from ivm.delta_ops.circuit import Work
from ivm.engine.feeds.changefeed import ChangeFeeds
from ivm.engine.feeds.outbox import Outbox
from ivm.engine.tables.stored_tables import StoredTables
from ivm.engine.views.broken_views import BrokenViews
from ivm.engine.views.difference import difference
from ivm.engine.views.maintenance import Maintenance
from ivm.engine.views.statement_time import told
from ivm.storage.errors import EvaluationError, IvmError, UnavailableError
from ivm.storage.log.commit import Commit
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.duckdb.duckdb_errors import of_our_sql, ours


class RecomputedViews:
    """The recomputed views of one database.

    Args:
        maintenance: the circuit above them.
        tables: the tables that store them.
        feeds: their changefeeds.
        outbox: what sinks get; a difference that concerns one is an epoch of its own.
        broken: breaks views above them that fail on their differences, which are facts by then.
        commit: commits an epoch of differences, see `Engine.commit_refresh`.

    Attributes:
        stale: names of the views whose tables are out of date.
        work: the cost of recomputing each so far, by name.
    """

    def __init__(
        self,
        maintenance: Maintenance,
        tables: StoredTables,
        feeds: ChangeFeeds,
        outbox: Outbox,
        broken: BrokenViews,
        commit: Callable[[list[View]], None],
    ) -> None:
        self._maintenance = maintenance
        self._tables = tables
        self._catalog = tables.catalog
        self._feeds = feeds
        self._outbox = outbox
        self._broken = broken
        self._commit = commit
        self.stale: set[str] = set()
        self.work: dict[str, Work] = {}

    def follow(self, commit: Commit) -> None:
        """Marks the recomputed views over the changed tables as stale."""
        changed = [change.table for change in commit.changes]
        self.stale.update(view.name for view in self._catalog.version.recomputed(changed))

    def forget(self, name: str) -> None:
        """Drops the state of a view that is dropped or defined anew."""
        self.stale.discard(name)
        self.work.pop(name, None)

    # -- asking ---------------------------------------------------------------------------------

    def concern(self, relations: Iterable[str]) -> bool:
        """Returns whether one of the relations is a recomputed view, or reads one."""
        views = [v for n in relations if (v := self._catalog.views.get(n)) is not None]
        return any(not view.incremental or view.recomputed_below for view in views)

    def needs_refresh(self, relations: Iterable[str]) -> list[View]:
        """The stale recomputed views among these relations and below them, lowest first."""
        if not self.stale:
            return []
        wanted: set[str] = set()
        for name in relations:
            view = self._catalog.views.get(name)
            if view is not None:
                wanted.update((name, *view.recomputed_below))
        views = self._catalog.views
        wanted &= self.stale
        wanted.difference_update(broken_views(views) if wanted else ())
        return [view for name, view in views.items() if name in wanted]

    def is_outdated(self, names: Iterable[str]) -> bool:
        """Returns whether one of these relations, or a view below them, may be stale.

        While a transaction changes the catalog, other sessions' names may not resolve in it: any
        stale view then counts.
        """
        return bool(self.stale) and (
            self._catalog.version.is_changing or bool(self.needs_refresh(names))
        )

    # -- refreshing -----------------------------------------------------------------------------

    def refresh_watched(self) -> None:
        """Recomputes the stale views with changefeeds, or below such, so that these get deltas."""
        if not self.stale:
            return
        for name in self._feeds.views:
            try:
                self.refresh([name])
            except Exception as error:  # already committed: the feeds get the error
                self._feeds.fail(name, ours(error))

    def refresh(self, names: Iterable[str]) -> None:
        """Recomputes the stale views among these relations and below; needs the writer lock."""
        names = tuple(names)
        while views := self.needs_refresh(names):  # fewer if one is broken on the way
            layer = next(layers(views))
            if self._outbox.concern([view.name for view in layer]):
                self._commit_layer(layer)
            else:
                self._refresh(layer)

    def _commit_layer(self, views: list[View]) -> None:
        while True:
            try:
                self._commit(views)
                break
            except EvaluationError as error:
                self._broken.break_failing(error, ())
        self.stale.difference_update(view.name for view in views)

    def refresh_all(self) -> None:
        """Recomputes all stale views.

        A view that cannot be computed keeps its old rows; reading it raises the error.
        """
        for name in self._catalog.views:
            with contextlib.suppress(EvaluationError, NotNowError):
                self.refresh([name])

    def _refresh(self, views: list[View]) -> None:
        warehouse, pending = self._tables.warehouse, self._tables.pending
        with warehouse.write_lock:
            self._tables.flush()
            cursor = warehouse.cursor()
            # All views of a layer are recomputed before the circuit steps, once, with all of them.
            found = {view.name: self.recompute(view, cursor) for view in views}
            changed = {name: delta for name, delta in found.items() if len(delta)}
            deltas = self._step(changed) | changed
            try:
                self._maintenance.commit()
                pending.add(pending.epoch, (), deltas, logged=False)
                self.stale.difference_update(found)
                self._feeds.notify(pending.epoch, deltas)
            except BaseException as error:
                why = f"views were refreshed ({', '.join(found)}), but the memory could not follow"
                raise self._tables.log.broken(why, error) from error
            self._tables.flush(found)

    def _step(self, changed: Mapping[str, ZSet]) -> dict[str, ZSet]:
        while True:
            try:
                return self._maintenance.step((), changed)
            except EvaluationError as error:
                self._broken.break_failing(error, (), changed)

    def recompute(self, view: View, cursor: Cursor) -> ZSet:
        """Computes the difference between the view's query and its table, as the cursor sees both.

        Raises:
            EvaluationError: the query fails on the tables as they are.
            NotNowError: it was ended, or DuckDB lacks memory or disk or has given up.
        """
        started = perf_counter_ns()
        try:
            table = self._catalog.qualified[view.name]
            with told(cursor, view):
                delta = difference(cursor, f"FROM {table}", view.query, view.schema)
        except duckdb.Error as error:
            raise _not_computed(view, error) from error
        self.work.setdefault(view.name, Work()).add(started, 0, len(delta))
        return delta


class NotNowError(UnavailableError):
    """A view cannot be computed now, which says nothing of its rows."""


def _not_computed(view: View, error: duckdb.Error) -> IvmError:
    told = f"view {view.name!r} cannot be computed"
    found = ours(error)
    if isinstance(found, UnavailableError):
        return NotNowError(f"{told}: {found}")
    why = of_our_sql(error)
    return EvaluationError(f"{told}: {why}; mend the rows its query fails on, or drop the view")


def layers(views: Iterable[View]) -> Iterator[list[View]]:
    """Groups recomputed views, lowest first, so that no view reads another one of its group.

    An expression above two of them may fail on the old rows of one and the new rows of the other,
    so the differences of a group are stepped together.
    """
    layer: list[View] = []
    for view in views:
        if any(lower.name in view.recomputed_below for lower in layer):
            yield layer
            layer = []
        layer.append(view)
    if layer:
        yield layer
