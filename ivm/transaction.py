"""One open transaction of a session: changes in order, and a DuckDB transaction once SQL needs it.

Law: a transaction is one epoch or nothing. As long as only the fast path is used, DuckDB is not
asked at all; the first SQL statement makes it *native*: a DuckDB transaction begins on the
session's cursor, gets what was changed so far, and from then on sees its own writes, in tables
and in views.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

import duckdb

from ivm.catalog import View
from ivm.door import Door
from ivm.engine import Engine
from ivm.key_index import KeyIndex
from ivm.storage.change import TableChange
from ivm.storage.duck import Cursor, run
from ivm.storage.errors import UnavailableError
from ivm.storage.pending import PendingTable, PendingView
from ivm.storage.zset import ZSet


class Transaction:
    """Holds the writers' turn from its first statement to `commit` or `rollback`.

    Args:
        engine: the database's engine.
        cursor: the session's cursor.
    """

    def __init__(self, engine: Engine, cursor: Cursor) -> None:
        self._engine = engine
        self._cursor = cursor
        self.changes: list[TableChange] = []
        self._recomputed: dict[str, ZSet] = {}
        self._shown: dict[str, ZSet] = {}
        self._created: dict[str, tuple[View, int]] = {}
        self._after: list[Callable[[], None]] = []
        self._undo: Callable[[], None] | None = None
        self._ddl = False
        self._last_used = time.monotonic()
        self._busy = threading.RLock()
        self.native = False
        self.over: str | None = None
        engine.turns.take(self)

    # -- the turn's questions -------------------------------------------------------------------

    def idle_seconds(self) -> float:
        """Seconds since the last statement."""
        return time.monotonic() - self._last_used

    def expire(self) -> None:
        """Roll back from a waiter's thread, unless a statement is running."""
        if not self._busy.acquire(blocking=False):
            return
        try:
            limit = self._engine.turns.idle_limit
            if self.over is None and self.idle_seconds() > limit:
                self.rollback()
                self.over = (
                    f"the transaction did nothing for {limit:g} s while others waited, and was "
                    "rolled back: begin again"
                )
        finally:
            self._busy.release()

    def __enter__(self) -> Transaction:
        """While a statement of the transaction runs, it cannot expire."""
        self._busy.acquire()
        if self.over is not None:
            self._busy.release()
            raise UnavailableError(self.over)
        return self

    def __exit__(self, *exc: object) -> None:
        self._last_used = time.monotonic()
        self._busy.release()

    # -- changing -------------------------------------------------------------------------------

    def index(self, door: Door, *, whole: bool = False) -> KeyIndex:
        """The table's key index, including this transaction's changes."""
        indexes, name = self._engine.indexes, door.table
        index = indexes.find(name, whole=whole)
        if index is not None:
            return index
        if not self._ddl and not any(change.table == name for change in self.changes):
            return indexes.make(name, whole=whole)
        # Only this cursor sees a table made here; what was removed holds too few columns to be
        # replayed: DuckDB has the rows.
        self.go_native()
        return indexes.make(name, whole=whole, cursor=self._cursor)

    def index_at_hand(self, door: Door, *, whole: bool) -> KeyIndex | None:
        """As `index`, but None as long as making it does not pay."""
        indexes = self._engine.indexes
        index = indexes.find(door.table, whole=whole)
        if index is None and indexes.is_worth_making(door.table):
            index = self.index(door, whole=whole)
        return index

    def add(self, change: TableChange) -> None:
        """Take a change that DuckDB has not seen."""
        if len(change):
            if self.native:
                self._write([change])
            self.add_native(change)

    def add_native(self, change: TableChange) -> None:
        """Take a change that the session's cursor has already made."""
        if len(change):
            self._engine.indexes.record(change)
            self.changes.append(change)

    def go_native(self) -> None:
        """Begin the DuckDB transaction, with the changes so far in it."""
        if not self.native:
            self._engine.flush()
            run(self._cursor, "BEGIN TRANSACTION")
            self.native = True
            self._write(self.changes)

    def _write(self, changes: Iterable[TableChange]) -> None:
        parts: dict[str, PendingTable] = {}
        for change in changes:
            part = parts.get(change.table)
            if part is None:
                part = parts[change.table] = self._engine.pending.new_table(change.table)
            part.add(change.removed, change.removed_columns, change.added)
        for name, part in parts.items():
            self._engine.write(self._cursor, name, part.net())

    def show(self, relations: Iterable[str]) -> None:
        """Bring the views a query reads up to the transaction's own writes (it is native)."""
        self._refill_created()
        views = [
            name
            for name in relations
            if name in self._engine.catalog.views and name not in self._created
        ]
        if not views or not (self.changes or self._engine.maintenance.needs_refresh(views)):
            return
        deltas = self._engine.preview(self._cursor, self.changes, self._recomputed, views)
        for name, delta in deltas.items():
            part = PendingView(self._engine.catalog.views[name].schema)
            part.add(delta)
            if name in self._shown:
                part.add(self._shown[name].negate())
            self._engine.write(self._cursor, name, part.net())
        for name in self._shown.keys() - deltas.keys():
            part = PendingView(self._engine.catalog.views[name].schema)
            part.add(self._shown[name].negate())
            self._engine.write(self._cursor, name, part.net())
        self._shown = deltas

    @property
    def changes_catalog(self) -> bool:
        """Whether a statement of the transaction has changed the catalog."""
        return self._ddl

    def change_catalog(self, after: Callable[[], None] | None, undo: Callable[[], None]) -> None:
        """A statement has changed the catalog.

        Args:
            after: runs once the transaction has committed, in the order given; None where none of
                our tables and views is concerned.
            undo: brings the catalog back if it does not (the first one given counts).
        """
        self._ddl = True
        if after is not None:
            self._after.append(after)
        self._undo = self._undo or undo

    def fill_again(self, view: View, seen: int) -> None:
        """A view was created after `seen` changes; later ones of this transaction it lacks."""
        self._created[view.name] = (view, seen)

    def forget(self, name: str) -> None:
        """A view is dropped in this transaction."""
        self._created.pop(name, None)
        self._shown.pop(name, None)
        self._recomputed.pop(name, None)

    def _refill_created(self) -> None:
        for name, (view, seen) in self._created.items():
            if seen < len(self.changes):
                self._engine.refill(self._cursor, view)
                self._created[name] = (view, len(self.changes))

    @property
    def _duckdb_decides(self) -> bool:
        """DuckDB's commit is the commit point: the log cannot hold a change of the catalog."""
        return bool(self._after or (self._ddl and self.changes))

    # -- ending ---------------------------------------------------------------------------------

    def commit(self) -> None:
        """Commit as one epoch; durable when this returns."""
        engine = self._engine
        try:
            if self.native:
                self._commit_native()
            elif self.changes:
                engine.commit(self.changes)
            epoch = engine.epoch
        except BaseException:
            self.rollback()
            raise
        try:
            for action in self._after:
                action()
            if self._duckdb_decides:
                engine.log.start_segment(engine.catalog.tables_by_schema, epoch)
            engine.refresh_watched()
        finally:
            self._end("the transaction is already committed")
        engine.log.sync(epoch)

    def _commit_native(self) -> None:
        self._refill_created()
        self._engine.commit_native(
            self._cursor,
            self.changes,
            self._recomputed,
            self._shown,
            logged=not self._duckdb_decides,
        )

    def rollback(self) -> None:
        """Undo everything."""
        if self.over is not None:
            return
        try:
            if self.native:
                self._roll_back_cursor()
            if self._undo is not None:
                self._undo()
        finally:
            self._engine.indexes.rollback()
            self._end("the transaction is already rolled back")

    def fail(self, error: BaseException) -> None:
        """A statement failed: what DuckDB has half done can only be undone as a whole."""
        if self.native:
            self.rollback()
            self.over = (
                f"the transaction was rolled back because a statement in it failed ({error}): "
                "ROLLBACK, then begin again"
            )

    def _roll_back_cursor(self) -> None:
        try:
            self._cursor.abort()
            run(self._cursor, "ROLLBACK")
        except duckdb.TransactionException:
            pass  # DuckDB has already ended it itself
        self._engine.warehouse.zone.give_back(self._cursor)

    def _end(self, reason: str) -> None:
        self.over = reason
        self._engine.turns.give()
