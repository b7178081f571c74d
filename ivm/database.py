"""The open database: the Python API for SQL, rows, views and changefeeds.

Contract: it can be used from any thread; each thread has its own session (cursor, temporary tables,
transaction). One transaction writes at a time; readers see one epoch and wait for no writer.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy.typing as npt

from ivm.backfill.job import KIND
from ivm.backfill.progress import FillProgress
from ivm.backfill.run_fills import run_fills, wait_for_fill
from ivm.backfill.settings import Given, SparkSettings
from ivm.block import TransactionBlock
from ivm.catalog.broken_views import why_broken
from ivm.catalog.catalog import name_parts
from ivm.catalog.functions import Function, demand_function
from ivm.cursor import Cursor
from ivm.dispatch import execute
from ivm.engine.opening import open_engine
from ivm.ingest.rows import Rows
from ivm.lifetime import Lifetime, close_forgotten
from ivm.listings import TableListing, ViewInfo, columns_of, listing_of
from ivm.session.relation import Relation
from ivm.session.result import Result
from ivm.session.row_calls import apply, delete, insert, upsert
from ivm.session.session import Params, Session
from ivm.storage.errors import InputError
from ivm.storage.identifiers import quote
from ivm.storage.interrupts import Deferral, check
from ivm.storage.warehouse.duckdb_errors import Translating
from ivm.streams import Streams

if TYPE_CHECKING:
    from ivm.connection import Connection

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

    def sql(self, sql: str, params: Params = None) -> Relation | None:
        """Runs statements, and holds the rows of the last one in memory.

        Args:
            sql, params: as for `execute`.

        Returns:
            The rows, which can be printed and read again and again; None if there are none to give,
            as after CREATE.
        """
        result = self.execute(sql, params)
        return Relation(result) if result.columns else None

    def table(self, name: str) -> Relation:
        """The rows of a table, a view or an object, by its name: `orders`, `shop.main.orders`."""
        return Relation(self.execute(f"SELECT * FROM {'.'.join(map(quote, name_parts(name)))}"))

    query, view = sql, table  # as DuckDB calls them, too

    def checkpoint(self) -> None:
        """Brings the DuckDB file up to date, and writes it in full, as CHECKPOINT does."""
        self.execute("CHECKPOINT")

    def duplicate(self) -> Connection:
        """A second session on this database, with a transaction and temporary tables of its own."""
        from ivm.connection import Connection

        return Connection(self)

    def register(self, name: str, value: object) -> None:
        """Lets the statements of this thread's session read an object by a name.

        Args:
            name: hides a table of the same name.
            value: a pandas or polars frame, an Arrow table or reader, numpy arrays, a result.

        Raises:
            InputError: DuckDB cannot read it as a table.
        """
        self._with_session(lambda session: session.objects.register(name, value))

    def unregister(self, name: str) -> None:
        """Forgets a registered object; an unknown name is no error, as in DuckDB."""
        self._with_session(lambda session: session.objects.unregister(name))

    def cursor(self) -> Cursor:
        """A cursor of PEP 249, whose statements run in the session of the calling thread."""
        return Cursor(self)

    def begin(self) -> None:
        """Opens a transaction of this thread's session, as BEGIN does."""
        self._with_session(lambda session: session.begin())

    def commit(self) -> None:
        """Commits this thread's transaction; without one it does nothing."""
        self._end(Session.commit)

    def rollback(self) -> None:
        """Undoes this thread's transaction; without one it does nothing."""
        self._end(Session.rollback)

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

    # -- closing --------------------------------------------------------------------------------

    def close(self) -> None:
        """Rolls back open transactions, flushes, checkpoints and releases the file.

        Raises:
            UnavailableError: DuckDB cannot write; the file is released, and its log has every
                commit.
        """
        with Deferral(), Translating():
            self._lifetime.close()

    def __repr__(self) -> str:
        return f"<ivm.{type(self).__name__} {self.path!r}>"

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()

    def _with_session(self, work: Callable[[Session], T], *, looks: bool = False) -> T:
        """Calls a function with the thread's session; every call that runs something comes here.

        See `Session.fail`, `Translating` and `ivm.storage.interrupts`.

        Args:
            work: the function.
            looks: it tells what background threads do, and leaves their troubles to other calls.
        """
        with Deferral() as call, Translating():
            session = self._session()
            call.cursor = session.cursor
            try:
                with session.lock:
                    self._lifetime.demand_open()  # it may have been closed during the wait
                    if session.transaction is None and not looks:
                        self._engine.warehouse.troubles.raise_one()
                    try:
                        done = work(session)
                        check()
                        return done
                    except BaseException as error:
                        session.fail(error)
                        raise
            finally:
                if self._lifetime.unfinished:
                    self._lifetime.finish()

    def _end(self, how: Callable[[Session], None]) -> None:
        """Ends the thread's transaction, if there is one."""

        def end(session: Session) -> None:
            if session.transaction is not None:
                how(session)

        self._with_session(end)

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
    )
