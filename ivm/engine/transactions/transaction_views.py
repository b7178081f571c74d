"""The views as an open transaction sees and changes them.

Contract: the transaction reads views with its own changes. The deltas that a view's table lacks are
written there within the transaction, and the commit leaves out those already written. Views that it
creates, fills anew or drops are not stepped: they are filled from the tables as the transaction
sees them, and once more before they are read or committed if changes came later. The circuit drops
their old nodes at the commit. Changefeeds of a view that stays get the difference of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ivm.catalog.version import View
from ivm.engine.engine import Engine
from ivm.engine.views.fillings import Kept
from ivm.engine.views.recomputed_views import layers
from ivm.storage.errors import UnsupportedError
from ivm.storage.log.change import TableChange
from ivm.storage.values.zset import ZSet, add
from ivm.storage.warehouse.duckdb.duck import Cursor
from ivm.storage.warehouse.net_changes import PendingView

_NEVER, _UNBOUND = -1, -2

RefuseTemporary = Callable[[Iterable[tuple[str, str]]], None]
"""Raises if a text of these views (name and text) means something that only one session sees."""


class TransactionViews:
    """The views of one transaction.

    Args:
        engine: the database's engine.
        cursor: the session's cursor.
        changes: the transaction's changes of base tables; the list grows.
        refuse_temporary: called before views are filled or recomputed.

    Attributes:
        recomputed: differences of recomputed views, already written to their tables.
        shown: deltas of incremental views, already written to their tables.
    """

    def __init__(
        self,
        engine: Engine,
        cursor: Cursor,
        changes: Sequence[TableChange],
        refuse_temporary: RefuseTemporary,
    ) -> None:
        self._engine = engine
        self._cursor = cursor
        self._changes = changes
        self._refuse_temporary = refuse_temporary
        self.recomputed: dict[str, ZSet] = {}
        self.shown: dict[str, ZSet] = {}
        self._filled: dict[str, int] = {}  # the number of changes at the view's last filling
        self._dropped: set[str] = set()
        self._created: set[str] = set()
        self._known: dict[str, ZSet] = {}
        self._remembered = False

    def anew(self) -> TransactionViews:
        """The views of the same transaction before anything was done to them."""
        return TransactionViews(self._engine, self._cursor, self._changes, self._refuse_temporary)

    def __bool__(self) -> bool:
        """Returns whether a view is created, dropped or filled anew."""
        return bool(self._filled or self._dropped or self._created)

    # -- creating and dropping ------------------------------------------------------------------

    def create(self, view: View, kept: Kept | None) -> None:
        """Creates a defined view, filled if it is not broken; see `Views.create`."""
        self._engine.views.create(self._cursor, view, kept)
        self._created.add(view.name)
        if view.name not in self._engine.broken.names():
            self._filled[view.name] = len(self._changes)

    def drop(self, view: View) -> None:
        """Drops a view; the circuit drops its nodes when the transaction commits."""
        self._engine.views.drop(self._cursor, view)
        self._filled.pop(view.name, None)
        self._created.discard(view.name)
        self._dropped.add(view.name)
        self._forget(view.name)

    def rebuild(self, views: Iterable[View]) -> None:
        """Fills these views anew: a definition or table below them has changed."""
        for view in views:
            self._outdate(view.name, _NEVER)
        self.fill()

    def unbind(self, view: View) -> None:
        """Leaves a view that lacks a table as it is until it is rebuilt."""
        self._outdate(view.name, _UNBOUND)

    def _outdate(self, name: str, filled: int) -> None:
        self._filled[name] = filled
        self._forget(name)

    @property
    def unbound(self) -> set[str]:
        """The views that lack a table."""
        return {name for name, filled in self._filled.items() if filled == _UNBOUND}

    def demand_bound(self, relations: Iterable[str]) -> None:
        """Checks that no view among these lacks a table.

        Raises:
            UnsupportedError: one does.
        """
        for name in self.unbound.intersection(relations):
            raise UnsupportedError(
                f"the materialized view {name!r} lacks a table that this transaction has renamed: "
                "give its name to another table, or drop the view, before it is read or committed"
            )

    def _forget(self, name: str) -> None:
        self.shown.pop(name, None)
        self.recomputed.pop(name, None)

    def fill(self) -> None:
        """Fills the views that changes came after, lower views first."""
        count, views = len(self._changes), self._engine.catalog.views.items()
        lacking = [
            view for name, view in views if _UNBOUND != self._filled.get(name, count) < count
        ]
        self._refuse_temporary([(view.name, view.query) for view in lacking])
        self.show({name for view in lacking for name in view.reads})
        for view in lacking:
            self._engine.views.refill(self._cursor, view)
            self._filled[view.name] = count

    @property
    def stepped(self) -> set[str] | None:
        """The views that the commit steps; None for all."""
        left_out = self._filled.keys() | self._dropped
        return self._engine.catalog.views.keys() - left_out if left_out else None

    def duckdb_decides(self, changes_catalog: bool, tables_differ: bool) -> bool:
        """Returns whether DuckDB's commit is the commit point.

        The log holds neither changes of the catalog nor the differences of recomputed views; where
        sinks get those, they and the rows of the outbox must not be apart.
        """
        if changes_catalog:
            return bool(tables_differ or self or self._changes or self.recomputed)
        return bool(self.recomputed) and self._engine.outbox.concern(self.recomputed, self._changes)

    def remember_rows(self) -> list[TableChange]:
        """Reads the old rows of rebuilt views that have changefeeds, once, before the commit.

        Returns:
            The changes that store the old rows of those that have sinks.
        """
        if self._remembered:
            return []
        self._remembered = True
        engine = self._engine
        stay = self._filled.keys() - self._dropped - self._created
        sinks = {sink.view for sink in engine.outbox.of_views(stay, self._changes)}
        listened = {*stay.intersection(engine.feeds.views), *sinks}
        self._known = {name: engine.tables.content(name) for name in listened}
        known = {name: (engine.epoch, self._known[name]) for name in sinks}
        return engine.outbox.owe(known, self._changes)

    def adopt(self) -> None:
        """Brings the circuit up to the committed views."""
        if self:
            known = {n: self._known[n] for n in self._engine.feeds.views if n in self._known}
            self._engine.views.rebuild(self._dropped, self._filled, known)
            self._engine.unfilled.sweep()

    # -- showing the transaction's own writes ---------------------------------------------------

    def show(self, relations: Iterable[str]) -> None:
        """Brings the views among these relations up to the transaction's changes so far."""
        catalog = self._engine.catalog
        views = {n for n in relations if n in catalog.views and n not in self._filled}
        views -= self._engine.broken.names()
        if not views or not (self._changes or self._engine.recomputed.needs_refresh(views)):
            return
        for layer in layers(self._outdated(views)):
            self._write_deltas({name for view in layer for name in view.reads})
            self._refuse_temporary([(view.name, view.query) for view in layer])
            for view in layer:
                self._recompute(view)
        self._write_deltas(views)

    def _outdated(self, names: Iterable[str]) -> list[View]:
        """The recomputed views among these and below whose tables are out of date, lowest first."""
        catalog, stale = self._engine.catalog, self._engine.recomputed.stale
        below: set[str] = set()
        for name in names:
            view = catalog.views[name]
            below.update(view.recomputed_below, () if view.incremental else (name,))
        changed = {change.table for change in self._changes}
        return [
            view
            for name, view in catalog.views.items()
            if name in below and (name in stale or view.bases & changed)
        ]

    def _recompute(self, view: View) -> None:
        """Brings a recomputed view's table up to the transaction, and adds to its difference."""
        with self._engine.warehouse.zone.on(self._cursor):
            delta = self._engine.recomputed.recompute(view, self._cursor)
        if not len(delta):
            return
        part = PendingView(view.schema)
        part.add(delta)
        self._engine.tables.write(self._cursor, view.name, part.net())
        if view.name in self.recomputed:
            part.add(self.recomputed[view.name])
        net = part.net()
        self.recomputed[view.name] = add([net.delete.negate(), net.insert])

    def _write_deltas(self, names: Iterable[str]) -> None:
        """Writes the deltas of views and of those below them, less the deltas written before."""
        views = self._engine.catalog.version.at_or_below(names)
        self._engine.log.demand_writable()
        deltas = self._engine.maintenance.preview(self._changes, self.recomputed, views)
        for name in views:
            part = PendingView(self._engine.catalog.views[name].schema)
            if name in deltas:
                part.add(deltas[name])
            if name in self.shown:
                part.add(self.shown.pop(name).negate())
            if part.rows:
                self._engine.tables.write(self._cursor, name, part.net())
        self.shown |= deltas
