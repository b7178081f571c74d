"""One open transaction of a session, and how it ends: as one epoch or as nothing.

Contract: when `commit` returns the epoch is durable; an exception that is raised although it is
committed says so. After `rollback`, or a statement that has failed, nothing of it is left.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator

import duckdb

from ivm.engine.transactions.open_changes import OpenChanges
from ivm.storage.errors import EvaluationError
from ivm.storage.interrupts import Shelter, record_outcome
from ivm.storage.warehouse.duckdb.duck import run

COMMITTED = "The transaction is committed."
"""The note of an exception that is raised although the transaction is committed."""


class Transaction(OpenChanges):
    """The changes, and their end."""

    def commit(self) -> None:
        """Commits as one epoch; durable when this returns."""
        with self:  # it cannot expire meanwhile
            self._commit_and_follow()

    def _commit_and_follow(self) -> None:
        engine = self._engine
        before, late = engine.pending.epoch, None
        engine.feeds.gather()
        try:
            self._commit()
        except BaseException as error:
            if engine.pending.epoch == before or engine.log.diverged:
                engine.feeds.publish()
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
                    for act in self._at_commit:
                        act()
                    self._follow(epoch)
                finally:
                    engine.feeds.publish()
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
                    engine.log.start_segment(engine.catalog.version.tables_by_schema, epoch)
                if self.changes_catalog:
                    self._views.adopt()
                    engine.settle()
                    with contextlib.closing(engine.warehouse.cursor()) as cursor:
                        engine.retention.load(cursor)
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
                self.leave_duckdb()
                self._engine.broken.break_failing(error, self.changes)

    def _commit_or_retry(self) -> None:
        for change in self.watermark_moves.take(self._cursor):
            self.add(change)
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

    def leave_duckdb(self) -> None:
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
        self._views.demand_bound(self._views.unbound)
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
                self._engine.definitions.forget(functions=self._functions_differ)

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
                if self._changes_catalog:
                    self._engine.catalog.restore()
                    cursor = self._engine.warehouse.cursor()
                    self._engine.reload_tables(cursor, functions=self._functions_differ)
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
        self.time.end()
        self._engine.catalog.end_change()
        self.held = time.perf_counter() - self._since
        self._engine.writer_lock.release()
        if self.changes_catalog:
            self._engine.clock.changed()  # from here on it finds the views as they are now
