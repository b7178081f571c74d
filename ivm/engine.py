"""The way of a change: circuits step, the log commits, state is adopted, flushes follow.

Law: after every epoch each view equals its query over the base tables. The commit is the log record;
whatever comes before it can be dropped, whatever comes after it can be replayed.

Three locks, taken in this order: the writers' turn (`turns`, held by a session), `_flushing` (one
flush at a time; readers pin their snapshot under it), `_pending_lock` (a few instructions).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

import duckdb

from ivm.catalog import Catalog, View
from ivm.changefeed import Subscription
from ivm.key_index import KeyIndex
from ivm.maintenance import Maintenance
from ivm.storage.change import Record, TableChange
from ivm.storage.duck import Cursor
from ivm.storage.errors import IvmError, UnavailableError
from ivm.storage.log import ChangeLog
from ivm.storage.pending import PendingTable, PendingView
from ivm.storage.warehouse import Warehouse
from ivm.storage.zset import ZSet, empty
from ivm.turns import Turns


class Engine:
    """The state behind one open database; callers of the committing methods hold the turn.

    Args:
        warehouse: the DuckDB file.
        log: the change log, None for an in-memory database.
        catalog: tables and views, loaded.
    """

    def __init__(self, warehouse: Warehouse, log: ChangeLog | None, catalog: Catalog) -> None:
        self.warehouse = warehouse
        self.log = log
        self.catalog = catalog
        self.turns = Turns()
        self.epoch = warehouse.base_epoch
        self.maintenance = Maintenance(warehouse, catalog, self.flush)
        self.feeds: dict[str, list[Subscription]] = {}
        self.on_pending: Callable[[int], None] = lambda rows: None
        self._indexes: dict[str, KeyIndex] = {}
        self._tables: dict[str, PendingTable] = {}
        self._views: dict[str, PendingView] = {}
        self._pending_lock = threading.Lock()
        self._flushing = threading.RLock()
        self._fault: str | None = None

    # -- committing -----------------------------------------------------------------------------

    def commit(self, changes: Sequence[TableChange]) -> int:
        """Commit changes that DuckDB has not seen: one epoch, no DuckDB statement.

        Returns:
            The epoch; the caller makes it durable with `sync` after giving up the turn.

        Raises:
            EvaluationError: a view's expression fails on the change; nothing was applied.
            UnavailableError: the log cannot be written; nothing was applied.
        """
        deltas = self._step(changes)
        self._log(changes)
        self._adopt(changes, deltas, natively=False)
        return self.epoch

    def commit_native(
        self, cursor: Cursor, changes: Sequence[TableChange], shown: Mapping[str, ZSet]
    ) -> int:
        """Commit a DuckDB transaction whose cursor has made `changes` itself.

        Args:
            cursor: in its transaction; nothing is pending (the transaction began with a flush).
            changes: what it did to base tables.
            shown: per view the delta already written to the view's table in this transaction.
        """
        deltas = self._step(changes)
        self._log(changes)
        self.sync(self.epoch + 1)
        self._adopt(changes, deltas, natively=True)
        views = {name: self._unshown(name, delta, shown) for name, delta in self._take_views().items()}
        for name, delta in shown.items():
            if name not in views:
                views[name] = self._unshown(name, None, shown)
                assert delta is not None
        try:
            self.warehouse.write_views(cursor, self.epoch, {n: v.net() for n, v in views.items()})
            cursor.execute("COMMIT")
        except duckdb.Error as error:
            self._fault = (
                f"DuckDB could not commit epoch {self.epoch}, which the log holds: {error}; "
                "close the database and open it again: the log is replayed"
            )
            raise UnavailableError(self._fault) from error
        return self.epoch

    def _unshown(
        self, name: str, delta: PendingView | None, shown: Mapping[str, ZSet]
    ) -> PendingView:
        rest = self._new_pending_view(name) if delta is None else delta
        if name in shown:
            rest.add(shown[name].negate())
        return rest

    def _step(self, changes: Sequence[TableChange]) -> dict[str, ZSet]:
        if self._fault is not None:
            raise UnavailableError(self._fault)
        return self.maintenance.step(changes)

    def _log(self, changes: Sequence[TableChange]) -> None:
        if self.log is None:
            return
        try:
            self.log.append(Record(self.epoch + 1, tuple(changes)))
        except IvmError:
            self.maintenance.rollback()
            raise

    def _adopt(
        self, changes: Sequence[TableChange], deltas: Mapping[str, ZSet], *, natively: bool
    ) -> None:
        self.maintenance.commit()
        for index in self._indexes.values():
            index.commit()
        self.maintenance.mark_stale({change.table for change in changes})
        with self._pending_lock:
            self.epoch += 1
            for name, delta in deltas.items():
                self._pending_view(name).add(delta)
            if not natively:
                for change in changes:
                    self._pending_table(change.table).add(change)
            rows = self.pending_rows
        self._tell(deltas)
        self.on_pending(rows)

    def _tell(self, deltas: Mapping[str, ZSet]) -> None:
        if not self.feeds:
            return
        for name, feeds in self.feeds.items():
            if name in deltas:
                for feed in feeds:
                    feed.put(self.epoch, deltas[name])
        stale = [name for name in self.feeds if self.maintenance.needs_refresh([name])]
        if stale:
            self.refresh(stale)

    def sync(self, epoch: int) -> None:
        """Return once `epoch` is durable (group commit: many callers share one fdatasync).

        Raises:
            UnavailableError: the disk refuses; the database is read-only until reopened.
        """
        if self.log is not None:
            try:
                self.log.sync(epoch)
            except UnavailableError as error:
                self._fault = str(error)
                raise

    def rollback(self) -> None:
        """Forget what the running transaction recorded in the key indexes."""
        for index in self._indexes.values():
            index.rollback()

    # -- key indexes ----------------------------------------------------------------------------

    def index(self, table: str, running: Sequence[TableChange], *, whole: bool = False) -> KeyIndex:
        """The index of a table, hydrated from DuckDB at its first use.

        Args:
            table: canonical name.
            running: changes of the running transaction so far, to be seen by the index.
            whole: hold all columns, not just those that views need.
        """
        info = self.catalog.tables[table]
        everything = range(len(info.schema))
        key = info.primary_key or tuple(everything)
        needed = everything if whole else sorted({*key, *self.maintenance.columns_read(table)})
        index = self._indexes.get(table)
        if index is None or not set(needed) <= set(index.columns):
            self.flush()
            columns = tuple(needed)
            index = KeyIndex(info.schema, key, columns, self.warehouse.read(table, columns))
            for change in running:
                if change.table == table:
                    index.record(change)
            self._indexes[table] = index
        return index

    def record(self, change: TableChange) -> None:
        """Let the table's index see a change of the running transaction."""
        index = self._indexes.get(change.table)
        if index is None:
            return
        if set(index.columns) <= set(change.removed_columns) or not len(change.removed):
            index.record(change)
        else:
            del self._indexes[change.table]

    # -- flushing -------------------------------------------------------------------------------

    @property
    def pending_rows(self) -> int:
        """Changed rows that DuckDB does not have yet, of tables and views."""
        tables = sum(part.rows for part in self._tables.values())
        return tables + sum(part.rows for part in self._views.values())

    def flush(self, only: Iterable[str] | None = None) -> None:
        """Bring DuckDB up to the log.

        Args:
            only: relations that are to be read; if all of them are views, only those are flushed.

        Raises:
            UnavailableError: the log or DuckDB cannot be written; nothing is lost, and the flush
                is tried again at the next read.
        """
        with self._flushing:
            tables, views, epoch = self._take(only)
            if not tables and not views:
                return
            try:
                self.sync(epoch)
                self.warehouse.flush(
                    epoch,
                    {name: part.net() for name, part in tables.items()},
                    {name: part.net() for name, part in views.items()},
                    base=bool(tables),
                )
            except (duckdb.Error, IvmError):
                self._put_back(tables, views)
                raise
            if tables and self.log is not None:
                self.log.truncate(epoch)

    def pinned(self, relations: Iterable[str], pin: Callable[[], None]) -> None:
        """Flush what a query reads and pin its snapshot, with no flush in between.

        Args:
            relations: canonical names.
            pin: runs the cursor's first statement.
        """
        with self._flushing:
            self.flush(relations)
            pin()

    def _take(
        self, only: Iterable[str] | None
    ) -> tuple[dict[str, PendingTable], dict[str, PendingView], int]:
        """Take the pending deltas out: all of them, or those of some views."""
        with self._pending_lock:
            wanted = None if only is None else set(only)
            if wanted is None or not wanted.isdisjoint(self._tables):
                tables, self._tables = self._tables, {}
                views, self._views = self._views, {}
            else:
                tables = {}
                views = {name: self._views.pop(name) for name in wanted & self._views.keys()}
            return tables, views, self.epoch

    def _take_views(self) -> dict[str, PendingView]:
        with self._pending_lock:
            views, self._views = self._views, {}
            return views

    def _put_back(self, tables: dict[str, PendingTable], views: dict[str, PendingView]) -> None:
        with self._pending_lock:
            for name, part in tables.items():
                if name in self._tables:
                    part.extend(self._tables[name])
                self._tables[name] = part
            for name, view_part in views.items():
                if name in self._views:
                    view_part.extend(self._views[name])
                self._views[name] = view_part

    def _pending_table(self, name: str) -> PendingTable:
        part = self._tables.get(name)
        if part is None:
            part = self._tables[name] = PendingTable(self.catalog.tables[name])
        return part

    def _pending_view(self, name: str) -> PendingView:
        part = self._views.get(name)
        if part is None:
            part = self._views[name] = self._new_pending_view(name)
        return part

    def _new_pending_view(self, name: str) -> PendingView:
        view = self.catalog.views[name]
        return PendingView(name, view.schema, view.key)

    # -- views that are recomputed --------------------------------------------------------------

    def refresh(self, names: Iterable[str]) -> None:
        """Recompute what is stale at or below the given relations (the caller holds the turn)."""
        for view in self.maintenance.needs_refresh(names):
            self._refresh(view)

    def _refresh(self, view: View) -> None:
        with self._flushing:
            self.flush()
            delta = self.maintenance.recompute(view)
            deltas = self.maintenance.step_view(view.name, delta) if len(delta) else {}
            self.maintenance.commit()
            deltas[view.name] = delta
            with self._pending_lock:
                for name, part in deltas.items():
                    if len(part):
                        self._pending_view(name).add(part)
            self.flush([view.name])
            self.warehouse.set_view_epoch(view.name, self.epoch)
            for name, part in deltas.items():
                for feed in self.feeds.get(name, ()):
                    if len(part):
                        feed.put(self.epoch, part)

    def current(self, view: View) -> ZSet:
        """All rows of a view as they stand in DuckDB (after a flush)."""
        self.flush([view.name])
        parts = list(self.warehouse.read(view.name, range(len(view.schema))))
        return parts[0] if len(parts) == 1 else empty([t for _, t in view.schema])
