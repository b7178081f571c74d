"""One open transaction of a session: changes in order, and a DuckDB transaction once SQL needs it.

Law: a transaction is one epoch or nothing. As long as only the fast path is used, DuckDB is not
asked at all; the first SQL statement puts it *in DuckDB*: a DuckDB transaction begins on the
session's cursor, gets what was changed so far, and from then on sees its own writes, in tables
and in views.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Iterator

import duckdb

from ivm.catalog.catalog import View
from ivm.engine.engine import Engine
from ivm.engine.transaction_views import RefuseTemporary, TransactionViews
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.storage.errors import EvaluationError, UnavailableError
from ivm.storage.interrupts import Shelter, tell
from ivm.storage.log.change import TableChange
from ivm.storage.warehouse.duck import Cursor, run
from ivm.storage.warehouse.refused import RefusedError

COMMITTED = "The transaction is committed."
"""Stands as a note at what is raised though the commit stands."""


class Transaction:
    """Holds the writer lock from its first statement to `commit` or `rollback`.

    Args:
        engine: the database's engine.
        cursor: the session's cursor.
        refuse_temporary: raises if views' texts, by name, mean what this session alone sees.
        begun: several statements may follow one another in it.
        read_only: nothing but temporary tables may be changed.
    """

    def __init__(
        self,
        engine: Engine,
        cursor: Cursor,
        refuse_temporary: RefuseTemporary,
        *,
        begun: bool = False,
        read_only: bool = False,
    ) -> None:
        self._engine = engine
        self._cursor = cursor
        self.changes: list[TableChange] = []
        self._views = TransactionViews(engine, cursor, self.changes, refuse_temporary)
        self._views_before: dict[str, View] | None = None
        self._tables_differ = False
        self._late_flush_allowed = self._flush_refused = self._flushed_late = False
        self._last_used = time.monotonic()
        self._busy = threading.RLock()
        self._begun = begun
        self._read_only = read_only
        self.in_duckdb = False
        self.over: str | None = None
        self.way_out = "begin again"
        engine.writer_lock.acquire(self)

    # -- the writer lock's questions ------------------------------------------------------------

    def idle_seconds(self) -> float:
        """Seconds since the last statement."""
        return time.monotonic() - self._last_used

    def expire(self) -> None:
        """Roll back from a waiter's thread, unless a statement is running."""
        if not self._busy.acquire(blocking=False):
            return
        try:
            limit = self._engine.writer_lock.idle_limit
            if self.over is None and self.idle_seconds() > limit:
                self.rollback()
                self.over = (
                    f"the transaction did nothing for {limit:g} s while others waited, and was "
                    "rolled back"
                )
        finally:
            self._busy.release()

    def __enter__(self) -> Transaction:
        """While a statement of the transaction runs, it cannot expire."""
        self._busy.acquire()
        if self.over is not None:
            self._busy.release()
            raise UnavailableError(f"{self.over}: {self.way_out}")
        return self

    def __exit__(self, *exc: object) -> None:
        self._last_used = time.monotonic()
        self._busy.release()

    # -- changing -------------------------------------------------------------------------------

    def fast_path(self, table: str) -> FastPath | None:
        """The fast path into a table, or None where changes must go through DuckDB."""
        if self._views_before is not None:
            return None  # the session's cursor alone knows the constraints
        return self._engine.definitions.fast_path(table)

    def index(self, table: str, *, all_columns: bool = False) -> KeyIndex:
        """The table's key index, including this transaction's changes."""
        indexes = self._engine.indexes
        index = indexes.find(table, all_columns=all_columns)
        if index is not None:
            return index
        if not self.changes_catalog and not any(change.table == table for change in self.changes):
            return indexes.make(table, all_columns=all_columns)
        # Only this cursor sees a table made here; what was removed holds too few columns to be
        # replayed: DuckDB has the rows.
        self.begin_in_duckdb()
        return indexes.make(table, all_columns=all_columns, cursor=self._cursor)

    def index_if_worthwhile(self, table: str, *, all_columns: bool) -> KeyIndex | None:
        """As `index`, but None as long as making it does not pay."""
        indexes = self._engine.indexes
        index = indexes.find(table, all_columns=all_columns)
        if index is None and indexes.is_worth_making(table):
            index = self.index(table, all_columns=all_columns)
        return index

    def add(self, change: TableChange) -> None:
        """Take a change that DuckDB has not seen."""
        if self._read_only:
            raise UnavailableError(
                f"table {change.table!r} cannot be changed in a READ ONLY transaction: end it first"
            )
        if len(change):
            if self.in_duckdb:
                self._engine.tables.write_changes(self._cursor, [change])
            self.add_from_duckdb(change)

    def add_from_duckdb(self, change: TableChange) -> None:
        """Take a change that the session's cursor has already made."""
        if len(change):
            self._engine.indexes.record(change)
            self.changes.append(change)

    @property
    def idle_cursor(self) -> Cursor | None:
        """The session's cursor as long as it has no transaction that a failure would abort."""
        return None if self.in_duckdb else self._cursor

    def begin_in_duckdb(self) -> None:
        """Begin the DuckDB transaction, with the changes so far in it."""
        if not self.in_duckdb:
            if self._read_only or self._may_write_elsewhere():
                self._engine.recomputed.refresh_all()  # views cannot be brought up to date in it
            self._flush()
            self.in_duckdb = True  # before it is: an exception may come behind DuckDB's BEGIN
            run(self._cursor, "BEGIN TRANSACTION" + " READ ONLY" * self._read_only)
            self._engine.tables.write_changes(self._cursor, self.changes)

    def _may_write_elsewhere(self) -> bool:
        """Whether another database may be changed in it: DuckDB lets it change one alone."""
        return self._begun and not self.changes and self._engine.catalog.names.others

    def _flush(self) -> None:
        try:
            self._engine.tables.flush()
        except RefusedError:
            if not self._late_flush_allowed:
                raise
            self._flush_refused = True

    def allow_late_flush(self) -> None:
        """The transaction is of one statement, which may take away what refuses a flush."""
        self._late_flush_allowed = True

    def flush_late(self, *, alone: bool = False) -> None:
        """Write behind that statement what could not be flushed before it.

        Args:
            alone: DuckDB goes by what it took away until that is committed, as by an index.
        """
        if not self._flush_refused:
            return
        if alone:
            run(self._cursor, "COMMIT")
            self._engine.warehouse.tables()
            self._engine.tables.flush()
            run(self._cursor, "BEGIN TRANSACTION")
        else:
            self._engine.warehouse.write_lock.acquire()
            self._flushed_late = True
            self.change_tables()  # DuckDB's commit decides of it, as of the statement
            self._engine.tables.flush_within(self._cursor)

    def show(self, relations: Iterable[str]) -> None:
        """Begin in DuckDB, with the views a statement reads up to the transaction's own writes."""
        relations = tuple(relations)
        if not self.in_duckdb and not self.changes:  # a write of its own, none of this transaction
            self._engine.recomputed.refresh(relations)
        self.begin_in_duckdb()
        self._views.fill()
        self._views.show(relations)

    @property
    def changes_catalog(self) -> bool:
        """Whether a statement of the transaction has changed the catalog."""
        return self._views_before is not None

    def change_catalog(self) -> None:
        """A statement is going to change the catalog: it is as now again if that is undone."""
        if self._views_before is None:
            self._views_before = self._engine.catalog.snapshot()
            self._engine.catalog.committed = self._views_before

    def change_tables(self) -> None:
        """A statement has changed what tables there are, or how they look."""
        self._tables_differ = True

    def create_view(self, view: View) -> None:
        """Create a defined view, filled."""
        self.change_catalog()
        self._views.create(view)
        self._engine.reload_tables(self._cursor)

    def drop_view(self, view: View) -> None:
        """Drop a view."""
        self.change_catalog()
        self._views.drop(view)
        self._engine.reload_tables(self._cursor)

    def rebuild(self, views: Iterable[View]) -> None:
        """What these views and all above them read has changed by more than rows."""
        self._views.rebuild(views)

    @property
    def _duckdb_decides(self) -> bool:
        """DuckDB's commit is the commit point: the log cannot hold a change of the catalog."""
        concerned = self._tables_differ or self._views or self.changes or self._views.recomputed
        return self.changes_catalog and bool(concerned)

    # -- ending ---------------------------------------------------------------------------------

    def commit(self) -> None:
        """Commit as one epoch; durable when this returns."""
        with self:  # however long it takes, it does not expire
            self._commit_and_follow()

    def _commit_and_follow(self) -> None:
        engine = self._engine
        before, late = engine.pending.epoch, None
        try:
            self._commit()
        except BaseException as error:
            if engine.pending.epoch == before or engine.log.diverged:
                self.rollback()
                raise
            error.add_note(COMMITTED)
            late = error
        epoch = engine.pending.epoch
        if epoch != before or self.changes_catalog:
            tell(COMMITTED)
        with Shelter():
            try:
                try:
                    self._follow(epoch)
                finally:
                    self._end("the transaction is already committed")
            finally:
                self._make_durable(epoch)
        if late is not None:
            raise late

    def _make_durable(self, epoch: int) -> None:
        """The transaction stands: whatever else happens, it is on disk before anybody is told."""
        log = self._engine.log
        try:
            log.sync(epoch)
        except UnavailableError:  # it does not, and nothing else will
            raise
        except BaseException as error:
            log.sync(epoch)
            error.add_note(COMMITTED)
            raise

    def _follow(self, epoch: int) -> None:
        """DuckDB has the transaction: let the log and the circuit learn of a new catalog."""
        engine = self._engine
        if self.changes_catalog:
            try:
                if self._duckdb_decides:
                    engine.log.start_segment(engine.catalog.tables_by_schema, epoch)
                self._views.adopt()
            except BaseException as error:
                why = "the change of the catalog is committed, but the memory could not follow"
                raise engine.log.broken(why, error) from error
        engine.recomputed.refresh_watched()

    def _commit(self) -> None:
        try:
            if self.in_duckdb:
                self._commit_in_duckdb()
            elif self.changes:
                self._engine.commit(self.changes)
        except EvaluationError as error:
            if not self._engine.recomputed.concern(error.views):
                raise
            # It failed beside a stale view, perhaps for no other reason.
            self.begin_in_duckdb()
            self.show(error.views)
            self._commit_in_duckdb()

    def replay(self, failing: Iterable[str]) -> None:
        """Commit what the log holds already, together with what is stale below these views."""
        self.begin_in_duckdb()
        self.show(failing)
        self._engine.commit_in_duckdb(
            self._cursor, self.changes, self._views.recomputed, self._views.shown, logged=False
        )
        self._end("the transaction is already committed")

    def _commit_in_duckdb(self) -> None:
        self._views.fill()
        self._views.remember_rows()
        with self._publishing():
            self._engine.commit_in_duckdb(
                self._cursor,
                self.changes,
                self._views.recomputed,
                self._views.shown,
                logged=not self._duckdb_decides,
                only=self._views.followed,
            )
            if self._flushed_late:
                self._engine.pending.confirm()

    @contextlib.contextmanager
    def _publishing(self) -> Iterator[None]:
        """Others see DuckDB's commit in the block, and a new generation of definitions with it.

        What they have found out until then is of before, also where they asked after the change.
        """
        if not self.changes_catalog:
            yield
            return
        with self._engine.warehouse.write_lock:  # whoever pins a snapshot holds it
            try:
                yield
            finally:
                self._engine.definitions.forget()

    def rollback(self) -> None:
        """Undo everything."""
        with self._busy, Shelter():
            if self.over is None:
                self._roll_back()

    def _roll_back(self) -> None:
        try:
            try:
                if self.in_duckdb:
                    self._roll_back_cursor()
            finally:
                if self._views_before is not None:
                    self._engine.catalog.restore(self._views_before)
                    self._engine.reload_tables(self._engine.warehouse.cursor())
        finally:
            try:
                self._engine.indexes.rollback()
            finally:
                self._end("the transaction is already rolled back")

    def fail(self, error: BaseException) -> None:
        """A statement failed, and with it, as in DuckDB, its transaction."""
        with self._busy, Shelter():
            if self.over is None:
                self._roll_back()
                self.over = (
                    "the transaction was rolled back because a statement in it failed "
                    f"({str(error) or type(error).__name__})"
                )
                self.way_out = "ROLLBACK, then begin again"

    def _roll_back_cursor(self) -> None:
        try:
            self._cursor.abort()
            run(self._cursor, "ROLLBACK")
        except duckdb.TransactionException:
            pass  # DuckDB has already ended it itself
        self._engine.warehouse.zone.give_back(self._cursor)

    def _end(self, reason: str) -> None:
        self.over = reason
        if self._flushed_late:
            self._engine.pending.put_back()  # does nothing after `confirm`
            self._engine.warehouse.write_lock.release()
        self._engine.catalog.committed = None
        self._engine.writer_lock.release()
