"""Commits: the circuit steps, the log records, the state is adopted, flushes come later.

Invariant: after every epoch each view equals its query over the base tables. The commit point is
the log record (DuckDB's commit, where the catalog changes): all steps before it can be undone, and
all steps after it replayed. An exception before it, of any kind, undoes the change. An exception
after it undoes nothing; the steps it prevents are left to the next opening, and until then nothing
is written or read.

Three locks are acquired in this order: the `writer_lock` (held by a transaction), the warehouse's
`write_lock` (one flush at a time; readers pin their snapshot under it), the lock of
`PendingDeltas`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import duckdb

from ivm.catalog.catalog import Catalog
from ivm.catalog.version import Meaning, View
from ivm.engine.base.definitions import Definitions
from ivm.engine.base.jobs import Jobs
from ivm.engine.base.log_writer import LogWriter
from ivm.engine.base.scan_settings import ScanSettings
from ivm.engine.base.writer_lock import WriterLock
from ivm.engine.feeds.changefeed import ChangeFeeds
from ivm.engine.feeds.outbox import Outbox
from ivm.engine.tables.key_indexes import KeyIndexes
from ivm.engine.tables.retention import Retention
from ivm.engine.tables.saved_state import Indexes
from ivm.engine.tables.small_tables import SmallTables
from ivm.engine.tables.stored_tables import StoredTables
from ivm.engine.tables.watermarks import Watermarks
from ivm.engine.views.broken_views import BrokenViews
from ivm.engine.views.clock import Clock
from ivm.engine.views.group_reads import GroupReads
from ivm.engine.views.held_views import HeldViews
from ivm.engine.views.maintenance import Maintenance
from ivm.engine.views.recomputed_views import RecomputedViews
from ivm.engine.views.unfilled import Unfilled
from ivm.engine.views.views import Views
from ivm.storage.errors import UnavailableError
from ivm.storage.interrupts import Shelter, check
from ivm.storage.log.change import TableChange
from ivm.storage.log.commit import Commit, Follower
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.duck import Cursor, roll_back, run
from ivm.storage.warehouse.flush.flush import NetChange
from ivm.storage.warehouse.pending import PendingDeltas
from ivm.storage.warehouse.tables.system_tables import BASE
from ivm.storage.warehouse.tables.table_info import TableInfo
from ivm.storage.warehouse.tables.view_indexes import load_view_indexes
from ivm.storage.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Engine:
    """The state behind one open database; callers of the committing methods hold the lock.

    Args:
        warehouse: the DuckDB file and its log.
        catalog: tables and views, loaded.
        sync_at_commit: whether a commit returns only when the log is on disk.
    """

    def __init__(self, warehouse: Warehouse, catalog: Catalog, *, sync_at_commit: bool) -> None:
        self.warehouse = warehouse
        self.log = LogWriter(warehouse.log, sync_at_commit=sync_at_commit)
        self.catalog = catalog
        self.writer_lock = WriterLock()
        self._databases_lock = threading.Lock()  # sessions attach without the writer lock
        self.pending = PendingDeltas(catalog, warehouse.base_epoch)
        self.tables = StoredTables(warehouse, catalog, self.log, self.pending)
        self.maintenance = Maintenance(self.tables)
        self.feeds = ChangeFeeds()
        self.outbox = Outbox(self.tables)
        self.small = SmallTables(self.tables)
        self.clock = Clock(self.tables, self.small)
        self.watermarks = Watermarks(catalog, lambda: self.clock.time(), self._columns_of_views)
        self.jobs = Jobs()
        self.spark: Callable[[], SparkSession] = _no_spark
        self.spark_from: Callable[[], int | None] = lambda: None
        self.unfilled = Unfilled(warehouse, catalog)
        self.indexes = KeyIndexes(self.tables, self._columns_read, self.maintenance.saved)
        self.retention = Retention(
            self.tables, self.indexes, self._columns_of_views, self.watermarks
        )
        self._saved_indexes: Indexes = {}
        self.definitions = Definitions(warehouse, catalog)
        self.scan_settings = ScanSettings()
        self.held = HeldViews(self.tables, self.meaning)
        self.groups = GroupReads(self.maintenance, self.tables, self.held, self.meaning)
        self.broken = BrokenViews(self.maintenance, self.tables, self.feeds, self.definitions)
        self.recomputed = RecomputedViews(
            self.maintenance, self.tables, self.feeds, self.outbox, self.broken, self.commit_refresh
        )
        self.views = Views(self.maintenance, self.recomputed, self.tables, self.feeds, self.held)
        # Stale views are marked before anybody can see the epoch: who sees it refreshes them.
        self._first: Sequence[Follower] = (
            *(self.recomputed, self.outbox, self.small, self.retention),
            self.watermarks,
        )
        # At once for readers without the writer lock: state, pending rows, held rows and indexes.
        self._published: Sequence[Follower] = (
            self.maintenance,
            self.pending,
            self.held,
            self.indexes,
        )
        # Subscribers come behind that: who is told of an epoch may read it.
        self._last: list[Follower] = [self.feeds]

    @property
    def epoch(self) -> int:
        """The number of the last commit."""
        return self.pending.epoch

    def meaning(self) -> Meaning | None:
        """Equal as long as names mean the same; None while a transaction changes the catalog."""
        version = self.catalog.version
        if version.is_changing:
            return None
        return Meaning(self.definitions.relations.generation, version)

    def _columns_read(self, table: str) -> frozenset[int]:
        aged = self.retention.columns(table) | self.watermarks.columns(table)
        return self._columns_of_views(table) | aged

    def _columns_of_views(self, table: str) -> frozenset[int]:
        return self.maintenance.columns_read(table) | self.unfilled.columns_read(table)

    # -- committing -----------------------------------------------------------------------------

    def commit(self, changes: Sequence[TableChange]) -> None:
        """Commits changes that DuckDB has not made: one epoch, no DuckDB statement.

        The caller makes it durable with `log.sync` after releasing the writer lock.

        Raises:
            EvaluationError: a view's expression fails on the change; nothing was applied.
            UnavailableError: the log cannot be written; nothing was applied.
        """
        if any(len(change.removed) for change in changes) and self.pending.hinder(changes):
            self.tables.flush()
        epoch = self.pending.epoch + 1
        deltas = self._stepped(epoch, changes)
        try:
            changes = [*changes, *self.outbox.derive(epoch, deltas, changes)]
            check()  # the last interrupt that can undo the change: the record is the commit
            self.log.append(epoch, changes)
        except BaseException:
            self._step_back(logged=True)
            raise
        self._adopt(changes, deltas, by_duckdb=False)

    def commit_in_duckdb(
        self,
        cursor: Cursor,
        changes: Sequence[TableChange],
        recomputed: Mapping[str, ZSet],
        shown: Mapping[str, ZSet],
        *,
        logged: bool = True,
        only: Collection[str] | None = None,
    ) -> None:
        """Commits a DuckDB transaction whose cursor has made `changes` itself.

        Args:
            cursor: in its transaction, which began with a flush.
            changes: its changes of base tables.
            recomputed: differences of recomputed views, already written to their tables.
            shown: deltas of incremental views already written to their tables.
            logged: False where DuckDB's commit is the commit point, as the catalog changes.
            only: the views to step, default all; `rebuild` takes care of the others.

        Raises:
            BaseException: of any kind; `epoch` shows whether the transaction is committed.
        """
        self.warehouse.demand_in_place()
        if logged and not (changes or recomputed):
            self._finish(cursor)
            return self.warehouse.saw_own_commit()  # it may have advanced a sequence
        deltas = self._step(changes, recomputed, only)
        with Shelter(), self.warehouse.write_lock, contextlib.ExitStack() as publishing:
            late = None
            try:
                changes = self._with_outbox(cursor, changes, {**recomputed, **deltas})
                epochs = self._write_views(cursor, self._unshown(deltas, shown))
                if logged:  # after a statement has shown that DuckDB's transaction is not aborted
                    self._log_durably(changes)
                else:
                    self.unfilled.outdate_committed([change.table for change in changes])
                # What one reads in DuckDB from here on, one finds in memory after it.
                publishing.enter_context(self.held.publishing)
                self._finish(cursor)
            except BaseException as error:
                late = error
                epochs = self._demand_committed(cursor, (*deltas, *shown), error, logged)
            self._adopt(changes, {**recomputed, **deltas}, by_duckdb=True)
            self.warehouse.recorded(epochs)
            if late is not None and not isinstance(late, duckdb.Error):
                raise late  # an interrupt; DuckDB's error on a commit that stands is dropped

    def _with_outbox(
        self, cursor: Cursor, changes: Sequence[TableChange], deltas: Mapping[str, ZSet]
    ) -> Sequence[TableChange]:
        """The changes with those of the outbox, which the cursor makes too."""
        derived = self.outbox.derive(self.pending.epoch + 1, deltas, changes)
        self.tables.write_changes(cursor, derived)
        return [*changes, *derived]

    def _log_durably(self, changes: Sequence[TableChange]) -> None:
        epoch = self.pending.epoch + 1
        self.log.append(epoch, changes)
        self.log.make_durable(epoch)

    def _unshown(
        self, deltas: Mapping[str, ZSet], shown: Mapping[str, ZSet]
    ) -> dict[str, NetChange]:
        """The net changes that view tables still lack: the deltas less those written before."""
        parts = {name: self.pending.new_view(name) for name in (*deltas, *shown)}
        for name, part in parts.items():
            if name in deltas:
                part.add(deltas[name])
            if name in shown:
                part.add(shown[name].negate())
        return {name: part.net() for name, part in parts.items()}

    def _write_views(self, cursor: Cursor, views: Mapping[str, NetChange]) -> dict[str, int]:
        """Writes the net changes of views, and the epochs of the base tables and of these views."""
        for name, net in views.items():
            self.tables.write(cursor, name, net)
        epochs = self._next(views)
        self.warehouse.record(cursor, epochs)
        return epochs

    def _finish(self, cursor: Cursor) -> None:
        """Commits in DuckDB."""
        run(cursor, "COMMIT")

    def _next(self, views: Iterable[str]) -> dict[str, int]:
        return dict.fromkeys((BASE, *views), self.pending.epoch + 1)

    def _demand_committed(
        self, cursor: Cursor, views: Iterable[str], error: BaseException, logged: bool
    ) -> dict[str, int]:
        """Finds out whether a commit in DuckDB that raised has been made, and returns if so.

        Otherwise the log's record is removed, and the error raised.
        """
        try:
            roll_back(cursor)
            stands = self.warehouse.stands(BASE, self.pending.epoch + 1)
        except BaseException as unknown:
            self.maintenance.rollback()
            raise self.log.broken(
                f"whether epoch {self.pending.epoch + 1} is committed cannot be read", unknown
            ) from error
        if stands:
            return self._next(views)
        self._step_back(logged=logged)
        raise error

    def _step(
        self,
        changes: Sequence[TableChange],
        recomputed: Mapping[str, ZSet] | None = None,
        only: Collection[str] | None = None,
    ) -> dict[str, ZSet]:
        self.log.demand_writable()
        return self.maintenance.step(changes, recomputed, only)

    def _stepped(self, epoch: int, changes: Sequence[TableChange]) -> dict[str, ZSet]:
        """As `_step`; a large record is written meanwhile, if the step adds nothing to it."""
        if not self.log.takes_long(changes) or self.outbox.with_changes(changes):
            return self._step(changes)
        with self.log.beside(epoch, changes):
            return self._step(changes)

    def _step_back(self, *, logged: bool) -> None:
        """Undoes a step whose epoch cannot be committed, and its log record if there is one."""
        self.maintenance.rollback()
        if logged:
            self.log.retract(self.pending.epoch + 1)

    def _adopt(
        self, changes: Sequence[TableChange], deltas: Mapping[str, ZSet], *, by_duckdb: bool
    ) -> None:
        """Brings the state in memory up to the next epoch, which is committed."""
        committed = self.pending.epoch + 1
        try:
            self.follow(Commit(committed, changes, deltas, in_duckdb=by_duckdb))
        except BaseException as error:
            why = f"epoch {committed} is committed, but the memory could not follow"
            raise self.log.broken(why, error) from error

    def follow(self, commit: Commit) -> None:
        """Brings the state in memory up to a commit that the circuit has been stepped for."""
        for part in self._first:
            part.follow(commit)
        with self.held.publishing:
            for part in self._published:
                part.follow(commit)
        for part in self._last:
            part.follow(commit)

    def be_followed_by(self, follower: Follower) -> None:
        """Tells a follower of each later commit, behind all others."""
        self._last.append(follower)

    def commit_refresh(self, views: Collection[View]) -> None:
        """Recomputes views in an epoch of their own, which the sinks above them get.

        DuckDB's commit is the commit point: a difference is not in the log.
        """
        with self.warehouse.write_lock, contextlib.closing(self.warehouse.cursor()) as cursor:
            self.tables.flush()
            run(cursor, "BEGIN TRANSACTION")
            found = {view.name: self.recomputed.recompute(view, cursor) for view in views}
            changed = {name: delta for name, delta in found.items() if len(delta)}
            if changed:
                for name, delta in changed.items():
                    part = self.pending.new_view(name)
                    part.add(delta)
                    self.tables.write(cursor, name, part.net())
                self.commit_in_duckdb(cursor, (), changed, {}, logged=False)
                self.log.start_segment(self.catalog.version.tables_by_schema, self.epoch)

    @contextlib.contextmanager
    def aside(self) -> Iterator[bool]:
        """Holds the writer lock in a block of the database's own work, if nobody else wants it.

        Yields whether it does. What the block commits becomes durable with the next commit.
        """
        if not self.writer_lock.acquire_if_free(Aside()):
            yield False
            return
        try:
            yield True
        finally:
            self.writer_lock.release()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Waits for the writer lock and holds it in a block of the database's own work."""
        self.writer_lock.acquire(Aside())
        try:
            yield
        finally:
            self.writer_lock.release()

    def settle(self) -> None:
        """Gives the sinks what views owe them that were filled anew, in an epoch of their own."""
        changes = self.outbox.settlement(self.epoch + 1)
        if changes:
            self.commit(changes)

    def close(self) -> None:
        """Brings every table and view in the file up to the last commit, and ends all changefeeds.

        Raises:
            UnavailableError: the file cannot be written; the log has the commits that it lacks.
        """
        self._saved_indexes = self.indexes.saved()
        self.indexes.forget()
        self.held.close()
        for name in self.feeds.views:
            self.feeds.close(name)
        if self.log.fault is None:
            try:
                self.recomputed.refresh_all()
            finally:
                self.tables.flush()

    def save_state(self) -> None:
        """Saves the state of views for the next opening; called when the file has been closed."""
        if self.log.fault is None:
            self.maintenance.saved.save(self.epoch, self._saved_indexes)

    # -- a changed catalog ----------------------------------------------------------------------

    def reload_tables(
        self, cursor: Cursor, rewritten: Collection[str] = (), *, functions: bool = False
    ) -> None:
        """Reads the tables and schemas as the cursor sees them, after a change of the catalog.

        Args:
            cursor: of the session that has changed it, or that sees what is committed.
            rewritten: tables that may have other values in the columns that they had.
            functions: functions may have changed, too.
        """
        before = self.catalog.tables
        tables, schemas = self.warehouse.tables(cursor), self.warehouse.schemas(cursor)
        self.catalog.load_tables(tables, schemas, load_view_indexes(cursor))
        now = self.catalog.tables
        altered = [n for n, t in before.items() if n not in now or _is_other(t, now[n])]
        self.unfilled.outdate_twice([*altered, *rewritten])
        self.definitions.forget(functions=functions)
        self.indexes.keep({name: t for name, t in before.items() if name not in rewritten})

    def reload_databases(self, cursor: Cursor) -> None:
        """Reads the attached databases as the cursor sees them."""
        with self._databases_lock:  # whoever reads later writes later
            self.catalog.load_databases(self.warehouse.databases(cursor))


def _is_other(before: TableInfo, after: TableInfo) -> bool:
    """Returns whether a table has other columns, or is another one of the same name."""
    return (before.oid, before.schema) != (after.oid, after.schema)


def _no_spark() -> SparkSession:
    raise UnavailableError("no Spark session was given to this database")


class Aside:
    """A holder of the writer lock that is never idle."""

    def idle_seconds(self) -> float:
        return 0.0

    def expire(self) -> None:
        """Does nothing: it is not idle."""

    def rollback(self) -> None:
        """Does nothing: `aside` releases the lock."""
