"""The way of a change: circuits step, the log commits, state is adopted, flushes follow.

Law: after every epoch each view equals its query over the base tables. The commit is the log
record; whatever comes before it can be dropped, whatever comes after it can be replayed.

Three locks, taken in this order: the writers' turn (`turns`, held by a transaction), the
warehouse's `write_lock` (one flush at a time; readers pin their snapshot under it), the lock of
`Pending`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import duckdb

from ivm.catalog import Catalog, View
from ivm.door import Door
from ivm.doors import door_of
from ivm.feeds import Feeds
from ivm.key_indexes import KeyIndexes
from ivm.log_writer import LogWriter
from ivm.maintenance import Maintenance
from ivm.pending import Pending
from ivm.relations import Relations
from ivm.rows import RowReader
from ivm.snapshot import Snapshot
from ivm.storage.catalog_store import BASE, StoredView, save_view
from ivm.storage.change import TableChange
from ivm.storage.duck import Cursor, chunks, quote, run
from ivm.storage.errors import EvaluationError, IvmError
from ivm.storage.flush import NetChange, apply_change
from ivm.storage.pending import PendingView
from ivm.storage.warehouse import Warehouse
from ivm.storage.zset import ZSet, add
from ivm.turns import Turns

UNSETTLED = "unsettled"
RECOMPUTED = "recomputed"


class Engine:
    """The state behind one open database; callers of the committing methods hold the turn.

    Args:
        warehouse: the DuckDB file and its log.
        catalog: tables and views, loaded.
        sync_at_commit: a commit returns only when the log is on disk.
    """

    def __init__(self, warehouse: Warehouse, catalog: Catalog, *, sync_at_commit: bool) -> None:
        self.warehouse = warehouse
        self.log = LogWriter(warehouse.log, sync_at_commit=sync_at_commit)
        self.catalog = catalog
        self.turns = Turns()
        self.epoch = warehouse.base_epoch
        self.pending = Pending(catalog)
        self.maintenance = Maintenance(warehouse, catalog, self.flush)
        self.feeds = Feeds()
        self.on_pending: Callable[[int], None] = lambda rows: None
        self._flushing = False
        self.indexes = KeyIndexes(
            catalog, self.maintenance.columns_read, self.flush, self.scan, self.snapshot
        )
        self._doors: dict[str, Door | None] = {}
        self._readers: dict[str, RowReader] = {}
        self.relations = Relations(warehouse, catalog)

    # -- committing -----------------------------------------------------------------------------

    def commit(self, changes: Sequence[TableChange]) -> None:
        """Commit changes that DuckDB has not seen: one epoch, no DuckDB statement.

        The caller makes it durable with `log.sync` after giving up the turn.

        Raises:
            EvaluationError: a view's expression fails on the change; nothing was applied.
            UnavailableError: the log cannot be written; nothing was applied.
        """
        deltas = self._step(changes)
        with self._or_step_back():
            self.log.append(self.epoch + 1, changes)
        self._adopt(changes, deltas, natively=False)

    def commit_native(
        self,
        cursor: Cursor,
        changes: Sequence[TableChange],
        recomputed: Mapping[str, ZSet],
        shown: Mapping[str, ZSet],
        *,
        logged: bool = True,
    ) -> None:
        """Commit a DuckDB transaction whose cursor has made `changes` itself.

        Args:
            cursor: in its transaction, which began with a flush: nothing else is pending.
            changes: what it did to base tables.
            recomputed: differences of recomputed views, already written to their tables.
            shown: deltas of incremental views already written to their tables.
            logged: False where the transaction changes the catalog: then DuckDB's commit is the
                commit point.
        """
        if not changes and not recomputed and logged:
            run(cursor, "COMMIT")
            return
        deltas = self._step(changes, recomputed)
        with self.warehouse.write_lock:
            if logged:
                with self._or_step_back():
                    self.log.append(self.epoch + 1, changes)
                    self.log.settle(self.epoch + 1)
            self._finish(cursor, self._unshown(deltas, shown), logged)
            self._adopt(changes, deltas, natively=True)

    def _unshown(
        self, deltas: Mapping[str, ZSet], shown: Mapping[str, ZSet]
    ) -> dict[str, NetChange]:
        """What view tables still lack: the deltas less what was written before."""
        parts = {name: self.pending.new_view(name) for name in (*deltas, *shown)}
        for name, part in parts.items():
            if name in deltas:
                part.add(deltas[name])
            if name in shown:
                part.add(shown[name].negate())
        return {name: part.net() for name, part in parts.items()}

    def _finish(self, cursor: Cursor, views: Mapping[str, NetChange], logged: bool) -> None:
        """Write the views and commit in DuckDB; if that fails, only the log's word stands."""
        epochs = {BASE: self.epoch + 1, **dict.fromkeys(views, self.epoch + 1)}
        try:
            for name, net in views.items():
                self.write(cursor, name, net)
            self.warehouse.record(cursor, epochs, {})
            run(cursor, "COMMIT")
        except duckdb.Error as error:
            self.maintenance.rollback()
            if not logged:
                raise
            raise self.log.broken(
                f"DuckDB could not commit epoch {self.epoch + 1}, which the log holds: {error}; "
                "close the database and open it again: the log is replayed"
            ) from error
        self.warehouse.recorded(epochs)

    def write(self, cursor: Cursor, name: str, net: NetChange) -> None:
        """Apply a net change to a relation's table inside the cursor's transaction."""
        schema = self.catalog.relation_schema(name)
        apply_change(cursor, self.catalog.qualified[name], schema, net)

    def _step(
        self, changes: Sequence[TableChange], recomputed: Mapping[str, ZSet] | None = None
    ) -> dict[str, ZSet]:
        self.log.demand_sound()
        return self.maintenance.step(changes, recomputed)

    @contextlib.contextmanager
    def _or_step_back(self) -> Iterator[None]:
        """What cannot be logged has not happened."""
        try:
            yield
        except IvmError:
            self.maintenance.rollback()
            raise

    def _adopt(
        self, changes: Sequence[TableChange], deltas: Mapping[str, ZSet], *, natively: bool
    ) -> None:
        tables = [change.table for change in changes]
        self.maintenance.commit()
        self.indexes.commit(tables)
        self.maintenance.mark_stale(tables)
        self.epoch += 1
        if natively:  # DuckDB has it all
            self.pending.add(self.epoch, (), {})
        else:
            self.pending.add(self.epoch, changes, deltas)
        self.feeds.tell(self.epoch, deltas)
        self.on_pending(self.pending.rows)

    def refresh_watched(self) -> None:
        """Make the differences that subscribers of recomputed views wait for."""
        if not self.maintenance.stale:
            return
        for name in self.feeds.views:
            try:
                self.refresh([name])
            except EvaluationError as error:  # the commit stands; the subscribers are told
                self.feeds.fail(name, error)

    def close(self) -> None:
        """Leave every table and view in the file as of the last commit.

        Raises:
            UnavailableError: the file cannot be written; the log still holds what it lacks.
        """
        self.indexes.forget()
        for name in self.feeds.views:
            self.feeds.close(name)
        if self.log.fault is None:
            for name in list(self.catalog.views):
                # A view that cannot be computed stays as it last was; reading it says why.
                with contextlib.suppress(EvaluationError):
                    self.refresh([name])
            self.flush()

    # -- ways into tables -----------------------------------------------------------------------

    def door(self, table: str) -> Door | None:
        """The fast way into a table, or None where changes must go through DuckDB."""
        if table not in self._doors:
            self._doors[table] = door_of(self.catalog.tables[table], self.warehouse.cursor())
        return self._doors[table]

    def reader(self, table: str) -> RowReader:
        """What takes rows of any kind for a table."""
        reader = self._readers.get(table)
        if reader is None:
            reader = self._readers[table] = RowReader(table, self.catalog.tables[table].schema)
        return reader

    def scan(
        self, name: str, columns: Sequence[int], cursor: Cursor | None = None
    ) -> Iterator[ZSet]:
        """Columns of a table or view as they are in DuckDB (as the cursor sees it), in chunks."""
        schema = self.catalog.relation_schema(name)
        chosen = tuple(schema[i] for i in columns)
        names = ", ".join(quote(column) for column, _ in chosen)
        sql = f"SELECT {names} FROM {self.catalog.qualified[name]}"
        return chunks(cursor or self.warehouse.cursor(), sql, chosen)

    def snapshot(self, table: str) -> Snapshot:
        """A base table as of the last commit."""
        cursors = self.warehouse.cursor(), self.warehouse.cursor()
        with self.warehouse.write_lock:
            self.flush()
            for cursor in cursors:
                self.warehouse.pin(cursor)
        return Snapshot(self.catalog.tables[table], cursors)

    def reload_tables(self, cursor: Cursor) -> None:
        """The catalog has changed, as the cursor sees it."""
        self.catalog.load_tables(self.warehouse.tables(cursor))
        self._doors.clear()
        self._readers.clear()
        self.indexes.forget()
        self.relations.forget()

    # -- flushing -------------------------------------------------------------------------------

    def flush(self, only: Iterable[str] | None = None) -> None:
        """Bring DuckDB up to the log.

        Args:
            only: relations that are to be read; if all of them are views, only those are flushed,
                and with them views that are likely to be read next.

        Raises:
            UnavailableError: the log or DuckDB cannot be written; nothing is lost, and the flush
                is tried again at the next read.
        """
        only = None if only is None else frozenset(only)
        if only is not None:
            self.pending.read(only)
        if not self.pending.rows and not self._flushing:  # in this order: see below
            return
        with self.warehouse.write_lock:
            self._flushing = (
                True  # before `take` empties what others look at, until it is in DuckDB
            )
            try:
                self._flush(only)
            finally:
                self._flushing = False

    def _flush(self, only: Iterable[str] | None) -> None:
        tables, views, epoch = self.pending.take(only)
        if tables or views:
            try:
                self.warehouse.flush(
                    epoch,
                    {name: part.net() for name, part in tables.items()} if tables else None,
                    {name: part.net() for name, part in views.items()},
                )
            except BaseException:
                self.pending.put_back(tables, views)
                raise

    def pin(self, relations: Iterable[str], cursor: Cursor) -> None:
        """Flush what a query reads and pin its snapshot on the cursor, no flush in between."""
        with self.warehouse.write_lock:
            self.flush(relations)
            self.warehouse.pin(cursor)

    # -- views ----------------------------------------------------------------------------------

    def attach(self, view: View) -> None:
        """A view's table stands at the current epoch: maintain it from here on."""
        self.maintenance.attach(view)
        self.maintenance.hydrate()
        if view.rounds:
            self.settle(view)

    def settle(self, view: View) -> None:
        """Put the circuit's own rows into the view's table, where DuckDB would round otherwise.

        Deltas take out exactly the rows they once put in, so the first ones must be the circuit's.
        """
        cursor = self.warehouse.cursor()
        with self.warehouse.write_lock:
            run(cursor, "BEGIN TRANSACTION")
            run(cursor, f"DELETE FROM {self.catalog.qualified[view.name]}")
            held = PendingView(view.schema)  # takes rows out, maybe before they have been put in
            for chunk in self.maintenance.contents(view):
                part = PendingView(view.schema) if (chunk.weights > 0).all() else held
                part.add(chunk)
                if part is not held:
                    self.write(cursor, view.name, part.net())
            self.write(cursor, view.name, held.net())
            save_view(cursor, self.stored(view, settled=True))
            run(cursor, "COMMIT")

    def stored(self, view: View, *, settled: bool) -> StoredView:
        """The view as the file records it.

        An unsettled one is filled anew at the next opening, one that was recomputed at the first
        opening that maintains it by deltas: its rows may be stale.
        """
        given = () if view.schema == view.described else tuple(n for n, _ in view.schema)
        note = None if settled else UNSETTLED
        return StoredView(view.name, view.query, given, note if view.incremental else RECOMPUTED)

    def detach(self, name: str) -> None:
        """A view is gone."""
        self.maintenance.detach(name)
        self.feeds.close(name)

    def reattach(self, view: View) -> None:
        """A view was bound and filled anew: compile it anew."""
        self.maintenance.detach(view.name)
        self.attach(view)

    def refill(self, cursor: Cursor, view: View) -> None:
        """Replace a view's rows by its query's answer, as the cursor's transaction sees it."""
        table = self.catalog.qualified[view.name]
        with self.warehouse.zone.on(cursor):
            run(cursor, f"DELETE FROM {table}")
            run(cursor, f"INSERT INTO {table} {self.maintenance.text(view)}")

    # -- views that are recomputed --------------------------------------------------------------

    def refresh(self, names: Iterable[str]) -> None:
        """Recompute what is stale at or below the given relations (the caller holds the turn)."""
        for view in self.maintenance.needs_refresh(names):
            self._refresh(view)

    def _refresh(self, view: View) -> None:
        with self.warehouse.write_lock:
            self.flush()
            cursor = self.warehouse.cursor()
            delta = self.maintenance.recompute(view, cursor)
            deltas = self.maintenance.step((), {view.name: delta}) if len(delta) else {}
            self.maintenance.commit()
            if len(delta):
                deltas[view.name] = delta
            self.pending.add(self.epoch, (), deltas, logged=False)
            self.maintenance.stale.discard(view.name)
            self.flush([view.name])
            self.feeds.tell(self.epoch, deltas)

    def preview(
        self,
        cursor: Cursor,
        changes: Sequence[TableChange],
        recomputed: dict[str, ZSet],
        names: Iterable[str],
    ) -> dict[str, ZSet]:
        """View deltas of a transaction that is not over yet; no state changes.

        Args:
            cursor: in the transaction.
            changes: what it did so far.
            recomputed: differences of recomputed views it has written so far; more are added.
            names: the relations it is going to read.

        Returns:
            The whole delta of every incremental view since the transaction began.
        """
        below = {n for name in names if name in self.catalog.views for n in self._recomputed(name)}
        touched = {change.table for change in changes}
        for name in [n for n in self.catalog.views if n in below]:
            view = self.catalog.views[name]
            if name in self.maintenance.stale or view.bases & touched:
                self._recompute_inside(cursor, view, recomputed)
        deltas = self._step(changes, recomputed)
        self.maintenance.rollback()
        return deltas

    def _recomputed(self, name: str) -> tuple[str, ...]:
        view = self.catalog.views[name]
        return view.recomputed_below if view.incremental else (*view.recomputed_below, name)

    def _recompute_inside(self, cursor: Cursor, view: View, recomputed: dict[str, ZSet]) -> None:
        with self.warehouse.zone.on(cursor):
            delta = self.maintenance.recompute(view, cursor)
        if not len(delta):
            return
        part = PendingView(view.schema)
        part.add(delta)
        self.write(cursor, view.name, part.net())
        if view.name in recomputed:
            part.add(recomputed[view.name])
        net = part.net()
        recomputed[view.name] = _delta_of(net)


def _delta_of(net: NetChange) -> ZSet:
    return add([net.delete.negate(), net.insert])
