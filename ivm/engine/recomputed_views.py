"""The views that are recomputed: which are out of date, and bringing them up to date.

Law: a change only marks such a view stale. Who reads it, or a view above it, has it recomputed
first, those below before those above; its difference goes through the circuit like any delta.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ivm.catalog.catalog import View
from ivm.storage.errors import EvaluationError
from ivm.storage.log.change import TableChange
from ivm.storage.values.zset import ZSet, add
from ivm.storage.warehouse.duck import Cursor
from ivm.storage.warehouse.duckdb_errors import ours
from ivm.storage.warehouse.flush import NetChange
from ivm.storage.warehouse.net_changes import PendingView

if TYPE_CHECKING:
    from ivm.engine.engine import Engine


class RecomputedViews:
    """Those of one database.

    Args:
        engine: what flushes, and steps the circuit.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._maintenance = engine.maintenance

    def refresh_watched(self) -> None:
        """Make the differences that subscribers of recomputed views wait for."""
        if not self._maintenance.stale:
            return
        for name in self._engine.feeds.views:
            try:
                self.refresh([name])
            except Exception as error:  # the commit stands; the subscribers are told
                self._engine.feeds.fail(name, ours(error))

    def is_outdated(self, names: Iterable[str]) -> bool:
        """Whether something is stale at or below the given relations, as far as they are known.

        While a transaction changes the catalog, others cannot tell what they read by its names.
        """
        stale = self._maintenance.stale
        return bool(stale) and (
            self._engine.committed_views is not None or bool(self._maintenance.needs_refresh(names))
        )

    def refresh(self, names: Iterable[str]) -> None:
        """Recompute what is stale at or below the given relations (the caller holds the turn)."""
        stale = self._maintenance.needs_refresh(names)
        for layer in self._maintenance.layers(stale):
            self._refresh(layer)

    def refresh_all(self) -> None:
        """Recompute all that is stale.

        A view that cannot be computed stays as it last was; reading it says why.
        """
        for name in list(self._engine.catalog.views):
            with contextlib.suppress(EvaluationError):
                self.refresh([name])

    def _refresh(self, views: list[View]) -> None:
        with self._engine.warehouse.write_lock:
            self._engine.tables.flush()
            cursor = self._engine.warehouse.cursor()
            found = {view.name: self._maintenance.recompute(view, cursor) for view in views}
            changed = {name: delta for name, delta in found.items() if len(delta)}
            deltas = self._maintenance.step((), changed) if changed else {}
            deltas |= changed
            try:
                self._maintenance.commit()
                self._engine.pending.add(self._engine.epoch, (), deltas, logged=False)
                self._maintenance.stale.difference_update(found)
                self._engine.feeds.tell(self._engine.epoch, deltas)
            except BaseException as error:
                why = f"views were refreshed ({', '.join(found)}), but the memory could not follow"
                raise self._engine.log.broken(why, error) from error
            self._engine.tables.flush(found)

    def outdated(self, changes: Sequence[TableChange], names: Iterable[str]) -> list[list[View]]:
        """Recomputed views at or below the given relations that lack something, in layers.

        Args:
            changes: what a transaction did so far.
            names: the relations it is going to read.
        """
        below = {
            n
            for name in names
            if name in self._engine.catalog.views
            for n in self._recomputed(name)
        }
        touched = {change.table for change in changes}
        lacking = [
            view
            for name, view in self._engine.catalog.views.items()
            if name in below and (name in self._maintenance.stale or view.bases & touched)
        ]
        return list(self._maintenance.layers(lacking))

    def _recomputed(self, name: str) -> tuple[str, ...]:
        view = self._engine.catalog.views[name]
        return view.recomputed_below if view.incremental else (*view.recomputed_below, name)

    def recompute_inside(self, cursor: Cursor, view: View, recomputed: dict[str, ZSet]) -> None:
        """Bring a recomputed view up to the cursor's transaction; adds to its difference so far."""
        with self._engine.warehouse.zone.on(cursor):
            delta = self._maintenance.recompute(view, cursor)
        if not len(delta):
            return
        part = PendingView(view.schema)
        part.add(delta)
        self._engine.tables.write(cursor, view.name, part.net())
        if view.name in recomputed:
            part.add(recomputed[view.name])
        net = part.net()
        recomputed[view.name] = _delta_of(net)


def _delta_of(net: NetChange) -> ZSet:
    return add([net.delete.negate(), net.insert])
