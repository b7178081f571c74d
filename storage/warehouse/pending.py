"""Pending deltas: the changes of tables and views in the log that the DuckDB file lacks.

Invariant: tables and views here stand at `epoch`, DuckDB's at an earlier one. `take` returns
either all pending deltas (base tables flush together, with every view) or those of some views
alone, which may be ahead of the tables but never behind them. Views whose rows stay are never
ahead: after a crash the state of the views above is built from their rows, as of the tables' epoch.
Changes that no log record holds (the difference of a recomputed view and its consequences) are only
taken together: a crash must not leave one without the other. Deltas that were taken count as
pending until `confirm`.

The cost of a DuckDB transaction is the work that a few views bring to it. So a flush of one view
includes other views that will likely be read soon: those read since they were last included, as
long as they have few rows. A view that is not read any more is not included twice.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ivm.storage.log.change import TableChange
from ivm.storage.log.commit import Commit
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.flush.flush import NetChange
from ivm.storage.warehouse.net_changes import LOOSE, PendingAppends, PendingTable, PendingView
from ivm.storage.warehouse.tables.table_info import TableInfo

Tables = dict[str, PendingTable]
Views = dict[str, PendingView]

ALONG = 256
"""Rows that all included views may have together. Up to here they are written as Python values,
and the work wasted on views that are not read again is less than twice the fixed cost of a flush
(measured: a transaction 5 ms, 1 / 64 / 256 rows more 1 / 6 / 9 ms, on a slow machine)."""


class ViewShape(Protocol):
    """The columns and the key of a materialized view, see `PendingView`; whether its rows stay."""

    @property
    def schema(self) -> Schema: ...

    @property
    def key(self) -> tuple[int, ...] | None: ...

    @property
    def stays(self) -> bool: ...


class RelationSchemas(Protocol):
    """The tables and views by canonical name, as the catalog has them now."""

    @property
    def tables(self) -> Mapping[str, TableInfo]: ...

    @property
    def views(self) -> Mapping[str, ViewShape]: ...


class PendingDeltas:
    """Deltas by relation; safe for one writer and any number of flushing readers.

    Args:
        relations: for schemas and keys.
        epoch: of the last commit.

    Attributes:
        epoch: of the last commit, pending or not.
        rows: of all that is pending.
    """

    def __init__(self, relations: RelationSchemas, epoch: int) -> None:
        self._relations = relations
        self._lock = threading.Lock()
        self._tables: Tables = {}
        self._views: Views = {}
        self._out: tuple[Tables, Views] | None = None
        self._read: set[str] = set()
        self._whole = False
        self.epoch = epoch
        self.rows = 0

    def follow(self, commit: Commit) -> None:
        """Collects what DuckDB's tables lack of a commit."""
        lacking = ((), {}) if commit.in_duckdb else (commit.changes, commit.deltas)
        self.add(commit.epoch, *lacking)

    def add(
        self,
        epoch: int,
        changes: Sequence[TableChange],
        deltas: Mapping[str, ZSet],
        *,
        logged: bool = True,
    ) -> None:
        """Collects one epoch.

        Args:
            epoch: of the commit.
            changes: of base tables.
            deltas: of views.
            logged: a log record holds the changes.
        """
        with self._lock:
            self.epoch = epoch
            self._whole |= not logged
            for change in changes:
                part = self._tables.get(change.table)
                if part is None:
                    part = self._tables[change.table] = self.new_table(change.table)
                part.collect(change, epoch)
                self.rows += len(change)
            for name, delta in deltas.items():
                view = self._views.get(name)
                if view is None:
                    view = self._views[name] = self.new_view(name)
                view.add(delta)
                self.rows += len(delta)
            self._join_one()

    def _join_one(self) -> None:
        """Joins the batches of one relation that has collected many: one a commit, since those that
        change together come to that number together."""
        for parts in (self._tables, self._views):
            for part in parts.values():
                if part.loose >= LOOSE:
                    return part.join()

    def hinder(self, changes: Sequence[TableChange]) -> bool:
        """Returns whether the pending rows must be written before those of the changes.

        See `hinders`.
        """
        with self._lock:
            out = {} if self._out is None else self._out[0]
            return any(hinders(tables, changes, self._relations) for tables in (self._tables, out))

    def read(self, names: Iterable[str]) -> None:
        """Notes that these relations are read, pending or not."""
        with self._lock:
            self._read.update(names)

    def take(self, only: Iterable[str] | None) -> tuple[Tables, Views, int]:
        """Takes deltas to be flushed; `confirm` or `put_back` must follow.

        Args:
            only: relations to be read, None for all. If none of them is a table with pending
                changes, or a view whose rows stay, only the views among them are taken, with those
                included; everything is taken if part of it is in no log.

        Returns:
            (tables, views, the epoch they bring DuckDB to).
        """
        with self._lock:
            self._restore()
            wanted = None if only is None else set(only)
            if wanted is None or self._whole or self._reach_tables(wanted):
                self._whole = False
                tables, self._tables = self._tables, {}
                views, self._views = self._views, {}
            else:
                tables = {}
                views = {name: self._views.pop(name) for name in wanted & self._views.keys()}
                if views:
                    views |= {name: self._views.pop(name) for name in self._along()}
            self._out = tables, views
            return tables, views, self.epoch

    def _reach_tables(self, wanted: set[str]) -> bool:
        """Returns whether some of the relations must not get ahead of the tables."""
        staying = map(self._stays, wanted & self._views.keys())
        return not wanted.isdisjoint(self._tables) or any(staying)

    def _stays(self, name: str) -> bool:
        view = self._relations.views.get(name)  # it may have been dropped
        return view is not None and view.stays

    def _along(self) -> list[str]:
        """Views to be included, those with the fewest rows first."""
        read = [name for name in self._read & self._views.keys() if not self._stays(name)]
        likely = sorted(read, key=lambda name: self._views[name].rows)
        rows = itertools.accumulate([self._views[name].rows for name in likely])
        taken = [name for name, total in zip(likely, rows, strict=True) if total <= ALONG]
        self._read.difference_update(taken)
        return taken

    def net(self, names: Iterable[str]) -> dict[str, NetChange]:
        """The net changes pending for some relations; they stay pending."""
        with self._lock:
            self._restore()
            parts = ((n, self._tables.get(n) or self._views.get(n)) for n in names)
            return {name: part.net() for name, part in parts if part is not None}

    def confirm(self) -> None:
        """DuckDB has the deltas taken last."""
        with self._lock:
            if self._out is not None:
                self.rows -= _rows(*self._out)
            self._out = None

    def put_back(self) -> None:
        """The flush failed: its deltas come before those collected since."""
        with self._lock:
            self._restore()

    def _restore(self) -> None:
        if self._out is None:
            return
        (tables, views), self._out = self._out, None
        self._whole = True  # part of it may be in no log
        for name, part in tables.items():
            if name in self._tables:
                part.extend(self._tables[name])
            self._tables[name] = part
        for name, view in views.items():
            if name in self._views:
                view.extend(self._views[name])
            self._views[name] = view

    def new_table(self, name: str) -> PendingTable:
        """An empty collection for a base table."""
        info = self._relations.tables[name]
        if info.history is not None and not info.primary_key:
            return PendingAppends(info.schema)
        return PendingTable(info.schema, info.primary_key)

    def new_view(self, name: str) -> PendingView:
        """An empty collection for a view."""
        view = self._relations.views[name]
        return PendingView(view.schema, view.key)


def hinders(
    parts: Mapping[str, PendingTable], changes: Sequence[TableChange], relations: RelationSchemas
) -> bool:
    """Returns whether DuckDB might refuse the changes in one transaction with what is pending.

    To it a row that the transaction has removed still refers to its parent, which then cannot be
    removed.
    """
    tables = relations.tables
    for change in changes:
        info = tables.get(change.table)
        if info is None or not info.referenced_by or not len(change.removed):
            continue
        if any(name in parts and parts[name].removes for name in info.referenced_by):
            part = PendingTable(info.schema, info.primary_key)
            part.collect(change, 0)
            net = part.net()
            if len(net.delete) > net.replaced:
                return True
    return False


def _rows(tables: Tables, views: Views) -> int:
    return sum(p.rows for p in tables.values()) + sum(v.rows for v in views.values())
