"""The open database: the Python API for SQL, rows, views and changefeeds.

Contract: it can be used from any thread; each thread has its own session (cursor, temporary tables,
transaction). One transaction writes at a time; readers see one epoch and wait for no writer.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TypeVar

import numpy.typing as npt

from ivm.appender import Appender
from ivm.backfill.job import KIND
from ivm.backfill.progress import FillProgress
from ivm.backfill.run_fills import run_fills, wait_for_fill
from ivm.backfill.settings import Given, SparkSettings
from ivm.block import TransactionBlock
from ivm.catalog.broken_views import why_broken
from ivm.catalog.catalog import name_parts
from ivm.catalog.functions import Function, demand_function
from ivm.connection import Connection, Cursor
from ivm.dispatch import execute, executemany
from ivm.engine.clock import micros_of
from ivm.engine.opening import open_engine
from ivm.engine.ticking import run_clock
from ivm.ingest.batches import Many
from ivm.ingest.rows import Rows
from ivm.lifetime import Lifetime, close_forgotten
from ivm.listings import TableListing, ViewInfo, columns_of, listing_of
from ivm.session.clock import tick_now
from ivm.session.relation import Relation
from ivm.session.result import Result
from ivm.session.row_calls import apply, delete, insert, table_info, upsert
from ivm.session.session import Params, Session
from ivm.storage.errors import InputError
from ivm.storage.identifiers import quote
from ivm.storage.interrupts import Deferral, check
from ivm.storage.warehouse.duckdb_errors import Translating
from ivm.streams import Streams

T = TypeVar("T")

_PATIENCE = 60.0  # seconds: Spark may just be starting


class Database(Streams):
    """An open database; use it as a context manager, or `close` it.

    Made by `ivm.connect`.
    """

    def __init__(
        self,
        path: str | Path = ":memory:",
        *,
        durability: str = "commit",
        memory_limit: int | None = None,
        threads: int | None = None,
        functions: Iterable[Function] = (),
        spark: Given = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        if not isinstance(path, (str, PathLike)):
            raise InputError(
                f"a database is opened by a path such as 'shop.duckdb', not by {path!r}"
            )
        if durability not in ("commit", "interval"):
            raise InputError(f'durability is "commit" or "interval", not {durability!r}')
        if memory_limit is not None and (not isinstance(memory_limit, int) or memory_limit < 1):
            raise InputError(f"memory_limit is a number of bytes, not {memory_limit!r}")
        functions = tuple(functions)
        for function in functions:
            demand_function(function)
        self.path = str(path)
        self._spark = SparkSettings(self.path, spark)
        self._local = threading.local()
        self._appenders: weakref.WeakSet[Appender] = weakref.WeakSet()
        with Deferral():
            close_forgotten()  # perhaps of this file
            self._engine = open_engine(
                path,
                sync_at_commit=durability == "commit",
                memory_limit=memory_limit,
                threads=threads,
                functions=functions,
            )
            run_fills(self._engine, self._spark)
            if clock is None:
                run_clock(self._engine)
            else:
                self._engine.clock.time = micros_of(clock)
            self._lifetime = Lifetime(self._engine, self)
            try:
                check()
            except BaseException:
                self._lifetime.close()
                raise

    # -- SQL ------------------------------------------------------------------------------------

    def execute(self, sql: str, params: Params = None) -> Result:
        """Runs one or more statements.

        Args:
            sql: statements of DuckDB's SQL or ours, separated by semicolons.
            params: values for `?` or `$1` (a sequence) or `$name` (a dict); one statement only.

        Returns:
            The result of the last statement.

        Raises:
            IvmError: see `ivm.errors`; the statement that failed has changed nothing.
        """
        if not isinstance(sql, str):
            raise InputError(f"execute takes SQL as text, not {sql!r}")
        return self._with_session(lambda session: execute(session, sql, params))

    def sql(self, query: str, params: Params = None) -> Relation | None:
        """Runs statements as `execute` does, and holds the last one's rows: None if there are none.

        They can be shown and read again and again.
        """
        result = self.execute(query, params)
        return Relation(result) if result.kind == "rows" else None

    def table(self, name: str) -> Relation:
        """The rows of a table or view.

        Args:
            name: as in `insert`.
        """
        found = self.execute(f"SELECT * FROM {'.'.join(map(quote, name_parts(name)))}")
        return Relation(found)

    def begin(self) -> Database:
        """Begins a transaction of this thread, as BEGIN does."""
        self.execute("BEGIN")
        return self

    def commit(self) -> Database:
        """Commits this thread's transaction, if there is one."""
        if self._session().transaction is not None:
            self.execute("COMMIT")
        return self

    def rollback(self) -> Database:
        """Undoes this thread's transaction, as ROLLBACK does."""
        self.execute("ROLLBACK")
        return self

    def connection(self, *, leave: Callable[[], None] | None = None) -> Connection:
        """A connection as PEP 249 has it, with a session and transactions of its own.

        Args:
            leave: called when it is closed.
        """
        return Connection(self, self._lifetime, leave)

    def cursor(self) -> Cursor:
        """A cursor with a session and transactions of its own, as in DuckDB."""
        return Cursor(self.connection(), owns=True)

    def executemany(self, sql: str, rows: Many) -> Result:
        """Runs one statement with each of many rows of parameters, all in one transaction.

        An INSERT of one row of parameters, also with ON CONFLICT, and an UPDATE or DELETE by key
        are one batch; any other statement is executed row by row.

        Args:
            sql: one statement.
            rows: a list of lists or tuples (for `?` or `$1`) or of dicts (for `$name`); or an
                Arrow table, a pandas or polars frame, or a dict of columns: by name for `$name`,
                else in their order.

        Returns:
            The count of rows changed by all; the last result of a statement that returns rows.

        Raises:
            IvmError: see `ivm.errors`; no row has changed anything.
        """
        if not isinstance(sql, str):
            raise InputError(f"executemany takes SQL as text, not {sql!r}")
        return self._with_session(lambda session: executemany(session, sql, rows))

    @property
    def in_transaction(self) -> bool:
        """Returns whether this thread has an open transaction."""
        transaction = self._session().transaction
        return transaction is not None and transaction.over is None

    @property
    def aborted(self) -> str | None:
        """The reason why this thread's transaction was rolled back before its end; None if not.

        Statements other than ROLLBACK and COMMIT are then refused with it.
        """
        transaction = self._session().transaction
        return None if transaction is None else transaction.over

    def interrupt(self) -> None:
        """Interrupts the statement that this thread's session runs (for signal handlers)."""
        self._session().cursor.interrupt()

    def create_function(self, function: Function) -> None:
        """Registers a Python function that SQL, also in views, can call while the database is open.

        Raises:
            InputError: it is no `ivm.Function`, or DuckDB does not accept it (a name in use, an
                unknown type).
        """

        def register(session: Session) -> None:
            demand_function(function)
            function.register(session.cursor)

        self._with_session(register)

    def register(self, name: str, scanned: object) -> Database:
        """Lets this thread's SQL read a Python object as a temporary view, until `unregister`.

        Args:
            name: of the view.
            scanned: a pandas or polars frame, an Arrow table, batch, reader or dataset, a numpy
                array, a dict of numpy arrays, or a `Result`.

        Raises:
            InputError: the object cannot be read as a table, or a temporary table has the name.
        """
        self._with_session(lambda session: session.scans.register(name, scanned))
        return self

    def unregister(self, name: str) -> Database:
        """Forgets a registered object; an unknown name is no error, as in DuckDB."""
        self._with_session(lambda session: session.scans.unregister(name))
        return self

    # -- rows without SQL -----------------------------------------------------------------------

    def insert(self, table: str, rows: Rows) -> int:
        """Inserts rows.

        Args:
            table: its name, `schema.table` if it is not in main.
            rows: an Arrow table or batch, a pandas or polars frame, a dict of columns, or a list
                of dicts. Columns left out get their default.

        Returns:
            The number of rows.

        Raises:
            ConstraintError: a row violates the table's key, NOT NULL, types or CHECKs.
        """
        return self._with_session(lambda session: insert(session, table, rows))

    def upsert(self, table: str, rows: Rows) -> int:
        """Inserts rows, or updates those whose primary key is stored; the last of equal keys wins.

        Columns left out are not changed; in new rows they get their default.
        """
        return self._with_session(lambda session: upsert(session, table, rows))

    def delete(self, table: str, keys: Rows) -> int:
        """Deletes rows by their key columns; by all columns in a table without a primary key.

        Raises:
            ConstraintError: a row is not stored; nothing was deleted.
        """
        return self._with_session(lambda session: delete(session, table, keys))

    def apply(self, table: str, rows: Rows, weights: npt.ArrayLike) -> int:
        """Adds a Z-set: rows with negative weights are deleted, then the others inserted.

        Args:
            rows: all columns of the table.
            weights: one integer a row; ±1 for a table with a primary key.
        """
        return self._with_session(lambda session: apply(session, table, rows, weights))

    def appender(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int = 10_000,
        max_age: float = 0.1,
    ) -> Appender:
        """An appender for rows that come one by one: it writes them in batches, each one epoch.

        Args:
            table: its name, as `insert` takes it.
            columns: the names of a row's values; default all columns that are not generated.
            batch_rows: rows after which a batch is written.
            max_age: seconds after which rows are written though a batch is not full.

        Raises:
            InputError: a number is not positive, or a column is unknown.
            SqlError: there is no such table.
        """
        if not (isinstance(batch_rows, int) and batch_rows > 0 and max_age > 0):
            raise InputError("batch_rows and max_age of an appender are numbers above 0")
        info = self._with_session(lambda session: table_info(session, table))
        generated = set(info.generated)
        every = [name for i, (name, _) in enumerate(info.schema) if i not in generated]
        names = every if columns is None else list(columns)
        unknown = [name for name in names if info.position(name) is None]
        if unknown or not names or len(set(map(info.position, names))) < len(names):
            raise InputError(
                f"the columns of an appender are different ones of table {table!r} "
                f"({', '.join(every)}), not {names!r}"
            )
        made = Appender(
            lambda rows: self.insert(table, rows),
            *(info.name, names, batch_rows, max_age),
            lambda: self.in_transaction,
        )
        self._appenders.add(made)
        return made

    def transaction(self) -> contextlib.AbstractContextManager[Database]:
        """A `with` block that is one transaction, rolled back if the block raises."""
        return TransactionBlock(self, self._with_session)

    # -- views ----------------------------------------------------------------------------------

    def views(self) -> list[ViewInfo]:
        """All materialized views, each after the views that it reads."""
        strategy, found = self._engine.views.strategy, self._session().views
        views = {view.name: view for view in found}
        return [
            ViewInfo(
                view.name,
                view.query,
                strategy(view),
                columns_of(view.schema),
                tuple(sorted(view.reads)),
                None if view.constant else view.reason,
                why_broken(views, view.name),
            )
            for view in found
        ]

    def tables(self) -> list[TableListing]:
        """All base tables."""
        return [listing_of(info) for info in self._engine.catalog.user_tables.values()]

    def backfill(
        self,
        view: str,
        *,
        spark: Given = None,
        on_progress: Callable[[FillProgress], None] | None = None,
    ) -> None:
        """Waits for the first fill of a view on Spark; begins it, or goes on, if it does not run.

        Args:
            view: its name, created WITH (backfill = 'spark').
            spark: a SparkSession or Spark's settings, if others than those of `connect`.
            on_progress: called every now and then.

        Raises:
            UnavailableError: the fill has failed or was stopped, or Spark cannot be started.
            EvaluationError: the view fails on a change that came meanwhile.
        """
        self._lifetime.demand_open()
        if spark is not None:
            self._spark.use(spark)
        with Deferral(), Translating():
            name = self._engine.catalog.view(name_parts(view)).name
            wait_for_fill(self._engine, name, on_progress)

    def stop_backfills(self) -> None:
        """Stops the first fills that run, and waits until they have ended; what is done is kept."""
        self._lifetime.demand_open()
        self._engine.jobs.stop(KIND, timeout=_PATIENCE)
        run_fills(self._engine, self._spark)

    def unfilled_views(self) -> list[str]:
        """The names of the views whose first fill on Spark has not ended."""
        self._lifetime.demand_open()
        return [view.name for view in self._engine.unfilled.views()]

    @property
    def epoch(self) -> int:
        """The number of the last committed transaction."""
        return self._engine.epoch

    def flush(self) -> None:
        """Brings the DuckDB file up to the log now (reads do it by themselves)."""
        self._lifetime.demand_open()
        with Deferral(), Translating():
            self._engine.tables.flush()

    def tick(self) -> None:
        """Brings the views that read the time up to it now, and deletes rows past their retention.

        It is done in the background too, unless the database was opened with a clock of its own.

        Raises:
            UnavailableError: this thread has an open transaction, or another one does not end.
        """
        self._with_session(tick_now)

    # -- closing --------------------------------------------------------------------------------

    def close(self) -> None:
        """Rolls back open transactions, flushes, checkpoints and releases the file.

        Raises:
            UnavailableError: DuckDB cannot write; the file is released, and its log has every
                commit.
        """
        with Deferral(), Translating():
            try:
                self._close_appenders()
            finally:
                self._lifetime.close()

    def _close_appenders(self) -> None:
        """Writes what appenders hold; a transaction open in this thread is rolled back before."""
        if self._lifetime.closed or not self._appenders:
            return
        session = self._session()
        if self.in_transaction:
            session.rollback()
        errors = []
        for appender in list(self._appenders):
            try:
                appender.close()
            except Exception as error:
                errors.append(error)
        for other in errors[1:]:
            errors[0].add_note(str(other))
        if errors:
            raise errors[0]

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()

    def _with_session(self, work: Callable[[Session], T], *, looks: bool = False) -> T:
        """Calls a function with the thread's session; see `Lifetime.run`."""
        return self._lifetime.run(self._session, work, looks=looks)

    def _session(self) -> Session:
        self._lifetime.demand_open()
        session: Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = self._lifetime.session()
        return session


def connect(
    path: str | Path = ":memory:",
    *,
    durability: str = "commit",
    memory_limit: int | None = None,
    threads: int | None = None,
    functions: Iterable[Function] = (),
    spark: Given = None,
    clock: Callable[[], datetime] | None = None,
) -> Database:
    """Opens or creates a database.

    Args:
        path: of a DuckDB file (an existing one is adopted as it is), or ":memory:".
        durability: "commit": a commit is on disk when it returns; "interval": within some 10 ms,
            so that a crash may lose the last commits (never a part of one).
        memory_limit: bytes for DuckDB's buffers; default 1 GiB, at most half of the memory.
        threads: the number of DuckDB's threads; default DuckDB's own.
        functions: Python functions for SQL; all that the database's views call.
        spark: for first fills on Spark: a SparkSession, or Spark's settings by name; default those
            of `ivm.toml`, see docs/scaling.md.
        clock: tells the time (with a time zone) for views that read it, which then changes by
            `Database.tick` alone; default the system's, which ticks by itself.

    Raises:
        UnavailableError: another process has it open.
        CorruptionError: it is no DuckDB file, or its log is damaged.
    """
    return Database(
        path,
        durability=durability,
        memory_limit=memory_limit,
        threads=threads,
        functions=functions,
        spark=spark,
        clock=clock,
    )
