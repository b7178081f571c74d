"""One open transaction of a session: changes in order, and a DuckDB transaction once SQL needs it.

Contract: a transaction is one epoch or nothing. As long as it uses only the fast path, no DuckDB
statement runs. Its first SQL statement begins a DuckDB transaction on the session's cursor, into
which the changes so far are written; the transaction is then *in DuckDB*, and its statements see
its own writes, in tables and in views.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import duckdb

from ivm.catalog.catalog import View
from ivm.engine.default_values import DefaultValues
from ivm.engine.engine import Engine
from ivm.engine.expiring import Expiring
from ivm.engine.late_flush import LateFlush
from ivm.engine.transaction_views import RefuseTemporary, TransactionViews
from ivm.ingest.evaluated_defaults import EvaluatedDefault
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.storage.errors import EvaluationError, UnavailableError
from ivm.storage.interrupts import Shelter, record_outcome
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column
from ivm.storage.warehouse.duck import Cursor, run

COMMITTED = "The transaction is committed."
"""The note of an exception that is raised although the transaction is committed."""


class Transaction(Expiring):
    """Holds the writer lock from its first statement to `commit` or `rollback`.

    Args:
        engine: the database's engine.
        cursor: the session's cursor.
        refuse_temporary: raises if a view's text names something that only this session sees.
        begun: whether BEGIN opened it, so that several statements may follow.
        read_only: whether only temporary tables may be changed.
        owned: whether the caller has the writer lock, which the transaction then takes over.

    Attributes:
        held: the seconds for which it held the lock; known when it is over.
    """

    def __init__(
        self,
        engine: Engine,
        cursor: Cursor,
        refuse_temporary: RefuseTemporary,
        *,
        begun: bool = False,
        read_only: bool = False,
        owned: bool = False,
    ) -> None:
        super().__init__(engine.writer_lock)
        self._engine = engine
        self._cursor = cursor
        self.changes: list[TableChange] = []
        self._views = TransactionViews(engine, cursor, self.changes, refuse_temporary)
        self._views_before: dict[str, View] | None = None
        self._tables_differ = self._decided = False
        self._late_flush = LateFlush(engine.tables, cursor)
        self._defaults = DefaultValues(engine.warehouse, cursor)
        self._begun = begun
        self._read_only = read_only
        self._breaks = False
        self.in_duckdb = False
        self._afterwards: list[Callable[[], None]] = []
        if owned:
            engine.writer_lock.pass_to(self)
        else:
            engine.writer_lock.acquire(self)
        self.held, self._since = 0.0, time.perf_counter()

    # -- changing -------------------------------------------------------------------------------

    def fast_path(self, table: str) -> FastPath | None:
        """The fast path into a table; None where changes must go through DuckDB."""
        definitions = self._engine.definitions
        if self._views_before is None:
            path = definitions.fast_path(table)
            if path is None or path.is_plain:
                return path
            return path.within(self._evaluate, self._lookup)
        if self._engine.catalog.tables[table].history is None:
            return None  # only the session's cursor sees the constraints
        return definitions.fast_path_seen_by(self._cursor, table)

    def begin_time(self) -> None:
        """Begins DuckDB's transaction, if defaults tell its time; it reads nothing yet."""
        if self._engine.definitions.defaults_tell_time and not self._read_only:
            self._defaults.begin()

    def _evaluate(self, defaults: Mapping[int, EvaluatedDefault], count: int) -> dict[int, Column]:
        return self._defaults.of(defaults, count, in_duckdb=self.in_duckdb)

    def _lookup(self, table: str, key: tuple[int, ...]) -> KeyIndex | None:
        """The arrangement of a table by a key; None as of `index_of_committed`."""
        if key == self._engine.catalog.tables[table].primary_key:
            return self.index_of_committed(table, all_columns=False)
        return self.index_by(table, key)

    def index(self, table: str, *, all_columns: bool = False) -> KeyIndex:
        """The table's key index, with this transaction's changes; built if it is missing."""
        indexes = self._engine.indexes
        index = indexes.find(table, all_columns=all_columns)
        if index is not None:
            return index
        if not self.changes_catalog and not any(change.table == table for change in self.changes):
            return indexes.build(table, all_columns=all_columns)
        # Only this cursor sees a table that this transaction has created or changed, and the rows
        # of `changes` may lack columns of the index: the index is built from the cursor's rows.
        self.begin_in_duckdb()
        return indexes.build(table, all_columns=all_columns, cursor=self._cursor)

    def index_of_committed(self, table: str, all_columns: bool) -> KeyIndex | None:
        """The table's key index; None if it is missing and this transaction has changed the table.

        It would be built of all the rows that the transaction's cursor sees; DuckDB changes a few
        of them sooner.
        """
        index = self._engine.indexes.find(table, all_columns=all_columns)
        changed = any(change.table == table for change in self.changes)
        unstored = self._engine.catalog.tables[table].history is not None  # needs it in any case
        if index is None and (unstored or not (changed or self.changes_catalog)):
            index = self.index(table, all_columns=all_columns)
        return index

    def index_by(self, table: str, key: tuple[int, ...]) -> KeyIndex | None:
        """The arrangement of a table by the columns of a user's index; None as above."""
        changed = any(change.table == table for change in self.changes)
        stored = self._engine.catalog.tables[table].history is None
        builds = stored and not (changed or self.changes_catalog)
        return self._engine.indexes.secondary.find(table, key, builds=builds)

    def add(self, change: TableChange) -> None:
        """Adds a change that DuckDB has not made."""
        if self._read_only:
            raise UnavailableError(
                f"table {change.table!r} cannot be changed in a READ ONLY transaction: end it first"
            )
        if len(change):
            if self.in_duckdb:
                self._engine.tables.write_changes(self._cursor, [change])
            self.add_from_duckdb(change)

    def add_from_duckdb(self, change: TableChange) -> None:
        """Adds a change that the session's cursor has already made."""
        if len(change):
            self._engine.indexes.record(change)
            self.changes.append(change)

    def afterwards(self, act: Callable[[], None]) -> None:
        """Calls a function once the transaction is committed, durable, and its lock released."""
        self._afterwards.append(act)

    @property
    def begun(self) -> bool:
        """Returns whether BEGIN opened it."""
        return self._begun

    @property
    def idle_cursor(self) -> Cursor | None:
        """The session's cursor; None if it has a transaction that an error would abort."""
        return None if self.in_duckdb or self._defaults.begun else self._cursor

    def begin_in_duckdb(self) -> None:
        """Begins the DuckDB transaction, and writes the changes so far in it."""
        if not self.in_duckdb:
            if self._read_only or self._may_write_elsewhere():
                self._engine.recomputed.refresh_all()  # the transaction itself cannot write views
            self._late_flush.flush()
            goes_on = self._defaults.go_on()
            self.in_duckdb = True  # before BEGIN: an interrupt after it must roll it back
            if not goes_on:
                run(self._cursor, "BEGIN TRANSACTION" + " READ ONLY" * self._read_only)
            self._engine.tables.write_changes(self._cursor, self.changes)

    def _may_write_elsewhere(self) -> bool:
        """Returns whether it may change another database; DuckDB lets it change only one."""
        return self._begun and not self.changes and self._engine.catalog.names.others

    def allow_late_flush(self) -> None:
        """Lets the flush before the transaction's only statement fail; see `flush_late`."""
        self._late_flush.allow()

    def flush_late(self, *, commit_first: bool = False) -> None:
        """Flushes after a statement that may have removed the reason why DuckDB refused the rows.

        Args:
            commit_first: whether to commit the statement before; see `LateFlush.behind`.
        """
        if self._late_flush.refused and commit_first:
            self._late_flush.behind()
        elif self._late_flush.refused:
            self.change_tables()  # so that DuckDB's commit is the commit point
            self._late_flush.within()

    def show(self, relations: Iterable[str]) -> None:
        """Begins in DuckDB, with the views among `relations` up to the transaction's changes.

        Raises:
            EvaluationError: one of them fails on the changes, or on those of a view below.
        """
        relations, broken = tuple(relations), self._engine.broken.names()
        if not self.in_duckdb and not self.changes:  # for all sessions, not in this one alone
            self._engine.recomputed.refresh(relations)
        self.begin_in_duckdb()
        self._views.fill()
        self._views.show(relations)
        for name in (self._engine.broken.names() - broken).intersection(relations):
            self._engine.broken.demand_whole(name)

    @property
    def changes_catalog(self) -> bool:
        """Returns whether a statement has changed the catalog, or is about to."""
        return self._views_before is not None

    def change_catalog(self) -> None:
        """Saves the catalog before a statement changes it, for `rollback` and other sessions."""
        if self._views_before is None:
            self._views_before = self._engine.catalog.snapshot()
            self._engine.catalog.committed = self._views_before

    def change_tables(self) -> None:
        """Notes that a statement has created, dropped or altered tables."""
        self._tables_differ = True

    def create_view(self, view: View) -> None:
        self.change_catalog()
        self._views.create(view)
        self._engine.reload_tables(self._cursor)

    def drop_view(self, view: View) -> None:
        self.change_catalog()
        self._views.drop(view)
        self._engine.reload_tables(self._cursor)

    def rebuild(self, views: Iterable[View]) -> None:
        """Fills these views anew, which no delta can update; see `TransactionViews.rebuild`."""
        self._views.rebuild(views)

    # -- ending ---------------------------------------------------------------------------------

    def commit(self) -> None:
        """Commits as one epoch; durable when this returns."""
        with self:  # it cannot expire meanwhile
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
            error.add_note(COMMITTED)  # an interrupt after the commit point undoes nothing
            late = error
        epoch = engine.pending.epoch
        if epoch != before or self.changes_catalog:
            record_outcome(COMMITTED)
        with Shelter():  # the lock is released before the sync, which waiting writers then share
            try:
                try:
                    self._follow(epoch)
                finally:
                    self._end("the transaction is already committed")
            finally:
                engine.log.sync_committed(epoch, COMMITTED)
        if late is not None:
            raise late
        self._act_afterwards()

    def _act_afterwards(self) -> None:
        try:
            for act in self._afterwards:
                act()
        except BaseException as error:
            error.add_note(COMMITTED)
            raise

    def _follow(self, epoch: int) -> None:
        """Brings log and circuit up to a changed catalog, and recomputed views that have feeds."""
        engine = self._engine
        if self._decided or self.changes_catalog:
            try:
                if self._decided:
                    engine.log.start_segment(engine.catalog.tables_by_schema, epoch)
                if self.changes_catalog:
                    self._views.adopt()
                    engine.settle()
                    with contextlib.closing(engine.warehouse.cursor()) as cursor:
                        engine.retention.load(cursor)
                    engine.clock.changed()
            except BaseException as error:
                why = "the change of the catalog is committed, but the memory could not follow"
                raise engine.log.broken(why, error) from error
        engine.recomputed.refresh_watched()

    def break_failing_views(self) -> None:
        """Lets views fail on the changes: they are broken, instead of the changes refused.

        For the changes of a stream, which are facts, in a transaction without any other.
        """
        self._breaks = True

    def _commit(self) -> None:
        while True:
            try:
                return self._commit_or_retry()
            except EvaluationError as error:
                if not self._breaks or self.changes_catalog:
                    raise
                self._leave_duckdb()
                self._engine.broken.break_failing(error, self.changes)

    def _commit_or_retry(self) -> None:
        try:
            if self.in_duckdb:
                self._commit_in_duckdb()
            elif self.changes:
                self._engine.commit(self.changes)
        except EvaluationError as error:
            if not self._engine.recomputed.concern(error.views):
                raise
            # Perhaps only because a stale view lacks rows: step again with its difference.
            self._commit_with_stale(error.views)

    def _commit_with_stale(self, failing: Collection[str]) -> None:
        """Commits together with the differences of the stale views below these."""
        shown = frozenset(failing)
        while True:
            try:
                self.begin_in_duckdb()
                self.show(shown)
                return self._commit_in_duckdb()
            except EvaluationError as error:
                error.views = error.views or shown  # if a stale one cannot be computed
                if not self._engine.recomputed.concern(error.views - shown):
                    raise
                shown |= error.views

    def _leave_duckdb(self) -> None:
        """Undoes what DuckDB has of the transaction, to begin there anew with the same changes."""
        if self.in_duckdb:
            self._roll_back_cursor()
            self.in_duckdb = self._decided = False
            self._views = self._views.anew()

    def replay(self, failing: Collection[str]) -> None:
        """Commits a replayed record, together with the differences of stale views below these."""
        try:
            self.begin_in_duckdb()
            self.show(failing)
            self._engine.commit_in_duckdb(
                self._cursor,
                self.changes,
                self._views.recomputed,
                self._views.shown,
                logged=False,
            )
        except EvaluationError as error:
            error.views = error.views or frozenset(failing)
            self.rollback()
            raise
        self._end("the transaction is already committed")

    def _commit_in_duckdb(self) -> None:
        self._views.fill()
        for change in self._views.remember_rows():
            self.add(change)
        self._decided = self._views.duckdb_decides(self.changes_catalog, self._tables_differ)
        with self._publishing():
            self._engine.commit_in_duckdb(
                self._cursor,
                self.changes,
                self._views.recomputed,
                self._views.shown,
                logged=not self._decided,
                only=self._views.stepped,
            )
            self._late_flush.confirm()

    @contextlib.contextmanager
    def _publishing(self) -> Iterator[None]:
        """Drops cached definitions after the block, in which DuckDB commits.

        Until that commit, other sessions compute theirs from the old catalog.
        """
        if not self.changes_catalog:
            yield
            return
        with self._engine.warehouse.write_lock:  # no snapshot is pinned between the two
            try:
                yield
            finally:
                self._engine.definitions.forget()

    def rollback(self) -> None:
        """Undoes all changes, and releases the writer lock."""
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
        """Rolls back after a failed statement, as DuckDB does, and refuses all later ones."""
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
        self._engine.warehouse.zone.restore(self._cursor)

    def _end(self, reason: str) -> None:
        self.over = reason
        self._late_flush.end()
        self._defaults.end()
        self._engine.catalog.committed = None
        self.held = time.perf_counter() - self._since
        self._engine.writer_lock.release()
