"""The changes of an open transaction: in order, and in DuckDB once SQL needs it.

Contract: as long as only the fast path is used, no DuckDB statement runs. The first SQL statement
begins a DuckDB transaction on the session's cursor, into which the changes so far are written; the
transaction is then *in DuckDB*, and its statements see its own writes, in tables and in views.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ivm.catalog.version import View
from ivm.engine.base.idle_transactions import IdleTimeout
from ivm.engine.engine import Engine
from ivm.engine.tables.default_values import DefaultValues
from ivm.engine.tables.late_flush import LateFlush
from ivm.engine.transactions.late_events import refuse_triggers, undone
from ivm.engine.transactions.transaction_views import RefuseTemporary, TransactionViews
from ivm.engine.transactions.watermark_moves import Late, WatermarkMoves
from ivm.engine.views.fillings import Kept
from ivm.ingest.evaluated_defaults import EvaluatedDefault
from ivm.ingest.fast_path import FastPath
from ivm.ingest.key_index import KeyIndex
from ivm.ingest.local_time import LocalTime
from ivm.ingest.not_fast import NotFastError, demanded
from ivm.ingest.transaction_time import TransactionTime
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import Column
from ivm.storage.warehouse.duckdb.duck import Cursor, run
from ivm.storage.warehouse.tables.table_info import TableInfo

_NO_LOOKUP = "rows cannot be looked up by a UNIQUE constraint or a foreign key in this transaction"


class OpenChanges(IdleTimeout):
    """Holds the writer lock from its first statement to `commit` or `rollback`.

    Args:
        engine: the database's engine.
        cursor: the session's cursor.
        refuse_temporary: raises if a view's text names something that only this session sees.
        begun: whether BEGIN opened it, so that several statements may follow.
        owned: whether the caller has the writer lock, which the transaction then takes over.
        local: tells the session's time, if the cursor is one's.

    Attributes:
        held: the seconds for which it held the lock; known when it is over.
        reads_only: whether it has no lock, and reads a snapshot.
        time: what its statements tell of the time.
        watermark_moves: what it comes to for the watermarks of its tables.
        note_buried: is told the late events of a change that become dead letters.
    """

    reads_only = False

    def __init__(
        self,
        engine: Engine,
        cursor: Cursor,
        refuse_temporary: RefuseTemporary,
        *,
        begun: bool = False,
        owned: bool = False,
        local: LocalTime | None = None,
    ) -> None:
        super().__init__(engine.writer_lock)
        self._engine = engine
        self._cursor = cursor
        self.changes: list[TableChange] = []
        self._views = TransactionViews(engine, cursor, self.changes, refuse_temporary)
        self._changes_catalog = False
        self._tables_differ = self._functions_differ = self._decided = False
        self._late_flush = LateFlush(engine.tables, cursor)
        self.time = TransactionTime(cursor, local or LocalTime(cursor), begun=begun)
        self._defaults = DefaultValues(engine.warehouse, cursor, self.time)
        self.watermark_moves = WatermarkMoves(engine.watermarks, engine.catalog, self.changes)
        self._breaks = False
        self.note_buried: Callable[[TableChange, TableInfo], object] = lambda late, info: None
        self.in_duckdb = False
        self._at_commit: list[Callable[[], object]] = []
        self._afterwards: list[Callable[[], None]] = []
        self._acquire(owned=owned)
        self.held, self._since = 0.0, time.perf_counter()

    def _acquire(self, *, owned: bool) -> None:
        if owned:
            self._engine.writer_lock.pass_to(self)
        else:
            self._engine.writer_lock.acquire(self)

    def fast_path(self, table: str) -> FastPath | None:
        """The fast path into a table; None where changes must go through DuckDB."""
        definitions = self._engine.definitions
        if not self._changes_catalog:
            path = definitions.fast_path(table)
            if path is None or path.is_plain:
                return path
            return path.within(self._evaluate, self._lookup)
        if self._engine.catalog.tables[table].history is None:
            return None  # only the session's cursor sees the constraints
        return definitions.fast_path_seen_by(self._cursor, table)

    def begin_time(self) -> None:
        """Begins DuckDB's transaction, if defaults tell its time; it reads nothing yet."""
        if self._engine.definitions.defaults_tell_time:
            self.time.begin()

    def _evaluate(self, defaults: Mapping[int, EvaluatedDefault], count: int) -> dict[int, Column]:
        tells = any(default.tells for default in defaults.values())
        if tells and not self.time.tell(often=False):
            raise NotFastError("it tells the time again, which has passed")
        return self._defaults.of(defaults, count, in_duckdb=self.in_duckdb)

    def _lookup(self, table: str, key: tuple[int, ...]) -> KeyIndex:
        """The arrangement of a table by a key; NotFastError as of `index_of_committed`."""
        if key == self._engine.catalog.tables[table].primary_key:
            return demanded(self.index_of_committed(table, all_columns=False), _NO_LOOKUP)
        return demanded(self.index_by(table, key), _NO_LOOKUP)

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

    def add(self, change: TableChange, late: Late = "refused") -> None:
        """Adds a change that DuckDB has not made.

        Args:
            change: of a table.
            late: what becomes of its late rows.

        Raises:
            ConstraintError: it has late rows, and its table refuses them.
        """
        change, buried = self.watermark_moves.accept(change, late, self._with_whole_rows)
        if buried is not None:
            self._bury(buried)
        if self.in_duckdb and len(change):
            self._engine.tables.write_changes(self._cursor, [change])
        self._record(change)

    def _with_whole_rows(self, change: TableChange) -> TableChange:
        info, known = self._engine.catalog.tables[change.table], change.removed_columns
        index, columns = self.index(change.table, all_columns=True), range(len(info.schema))
        keys = [change.removed.columns[known.index(i)] for i in info.primary_key]
        removed = index.find(keys).rows.project([index.columns.index(i) for i in columns])
        return replace(change, removed=removed, removed_columns=tuple(columns))

    def add_from_duckdb(self, change: TableChange, late: Late = "refused") -> None:
        """Adds a change that the session's cursor has already made; the rest as of `add`."""
        change, buried = self.watermark_moves.accept(change, late, self._with_whole_rows)
        if buried is not None:
            refuse_triggers(self._engine.catalog.tables[change.table], self._cursor)
            self._engine.tables.write_changes(self._cursor, [undone(buried)])
            self._bury(buried)
        self._record(change)

    def _record(self, change: TableChange) -> None:
        if len(change):
            self._engine.indexes.record(change)
            self.changes.append(change)

    def _bury(self, late: TableChange) -> None:
        """Adds dead letters in the place of late events."""
        self.note_buried(late, self._engine.catalog.tables[late.table])
        self.add(self.watermark_moves.letters_of(late))

    def at_commit(self, act: Callable[[], object]) -> None:
        """Calls a function once the transaction is committed, before anybody else can write.

        It neither waits nor fails.
        """
        self._at_commit.append(act)

    def afterwards(self, act: Callable[[], None]) -> None:
        """Calls a function once the transaction is committed, durable, and its lock released."""
        self._afterwards.append(act)

    @property
    def begun(self) -> bool:
        """Returns whether BEGIN opened it."""
        return self.time.begun

    @property
    def idle_cursor(self) -> Cursor | None:
        """The session's cursor; None if it has a transaction that an error would abort.

        One that tells the time of a single statement may be: the statement is then run anew.
        """
        kept = self.in_duckdb or (self.begun and self.time.stands)
        return None if kept else self._cursor

    def begin_in_duckdb(self) -> None:
        """Begins the DuckDB transaction, and writes the changes so far in it."""
        if not self.in_duckdb:
            if self._may_write_elsewhere():
                self._engine.recomputed.refresh_all()  # the transaction itself cannot write views
            self._late_flush.flush()
            if not self.begun:
                self.time.end()  # DuckDB runs the statement, at a time of its own
            goes_on = self.time.go_on(self._engine.warehouse)
            self.in_duckdb = True  # before BEGIN: an interrupt after it must roll it back
            if not goes_on:
                run(self._cursor, "BEGIN TRANSACTION")
            self._engine.tables.write_changes(self._cursor, self.changes)

    def _may_write_elsewhere(self) -> bool:
        """Returns whether it may change another database; DuckDB lets it change only one."""
        return self.begun and not self.changes and bool(self._engine.catalog.names.others)

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
            UnsupportedError: one of them, or a view below, lacks a table that was renamed.
        """
        relations, broken = tuple(relations), self._engine.broken.names()
        self._views.demand_bound(relations)
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
        return self._changes_catalog

    def change_catalog(self, *, functions: bool = False) -> None:
        """Saves the catalog before a statement changes it, for `rollback` and other sessions.

        Args:
            functions: the statement may change functions, too.
        """
        self._functions_differ |= functions
        if not self._changes_catalog:
            self._changes_catalog = True
            self._engine.catalog.begin_change()

    def change_tables(self) -> None:
        """Notes that a statement has created, dropped or altered tables."""
        self._tables_differ = True

    def create_view(self, view: View, kept: Kept | None = None) -> None:
        """Creates a defined view.

        Args:
            view: as it is defined.
            kept: the rows that a final view keeps.
        """
        self.change_catalog()
        self._views.create(view, kept)
        self._engine.reload_tables(self._cursor)

    def drop_view(self, view: View) -> None:
        self.change_catalog()
        self._views.drop(view)
        self._engine.reload_tables(self._cursor)

    @property
    def unbound(self) -> set[str]:
        """The views that lack a table, which another one is to replace before the commit."""
        return self._views.unbound

    def unbind(self, view: View) -> None:
        """Notes that a view lacks a table."""
        self._views.unbind(view)

    def rebuild(self, views: Iterable[View]) -> None:
        """Fills these views anew, which no delta can update; see `TransactionViews.rebuild`."""
        self._views.rebuild(views)
