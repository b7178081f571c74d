"""The open database: the Python API for SQL, rows, views and changefeeds.

Contract: it can be used from any thread; each thread has its own session (cursor, temporary tables,
transaction). One transaction writes at a time; readers see one epoch and wait for no writer.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

from duckdb import PythonExceptionHandling
from duckdb.func import FunctionNullHandling, PythonUDFType

from ivm.backfill.job import KIND
from ivm.backfill.progress import FillProgress
from ivm.backfill.run_fills import run_fills, wait_for_fill
from ivm.backfill.settings import Given
from ivm.block import TransactionBlock
from ivm.catalog.broken_views import UNFILLED, why_broken
from ivm.catalog.functions import (
    ExceptionHandling,
    Function,
    Kind,
    NullHandling,
    SqlType,
    demand_function,
)
from ivm.catalog.names import name_parts
from ivm.client.database import connect as connect_to_server
from ivm.client.wire import SCHEMES
from ivm.connection import Connection, Cursor
from ivm.dispatch import execute
from ivm.ingest.parameters import Params, parameters_of
from ivm.lifetime import handle_to
from ivm.listings import TableListing, ViewInfo, columns_of, listing_of
from ivm.open_databases import close_forgotten
from ivm.row_writes import RowWrites
from ivm.session.ddl.clock import tick_now
from ivm.session.ddl.watermarks import advance
from ivm.session.results.relation import Relation
from ivm.session.results.result import Result
from ivm.session.session import Session
from ivm.settings import Settings
from ivm.storage.errors import InputError, UnavailableError
from ivm.storage.identifiers import quote
from ivm.storage.interrupts import Deferral, check
from ivm.storage.warehouse.duckdb.duckdb_errors import Translating
from ivm.streams import Streams

T = TypeVar("T")

_PATIENCE = 60.0  # seconds: Spark may just be starting


class Database(RowWrites, Streams):
    """An open database; use it as a context manager, or `close` it.

    Made by `ivm.connect`.
    """

    def __init__(
        self,
        path: str | Path = ":memory:",
        *,
        durability: str | None = None,
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
        given = durability, memory_limit, threads, tuple(functions), spark, clock
        settings = Settings(*given)
        super().__init__()
        path = os.path.expanduser(path)  # as DuckDB does
        self.path = str(path)
        self._local = threading.local()
        with Deferral(), Translating():
            close_forgotten()  # perhaps of this file
            self._lifetime = handle_to(path, settings, self)
            self._engine = self._lifetime.engine
            try:
                check()
            except BaseException:
                self._lifetime.close()
                raise

    # -- SQL ------------------------------------------------------------------------------------

    def execute(self, query: str, parameters: Params = None) -> Result:
        """Runs one or more statements.

        Args:
            query: statements of DuckDB's SQL or ours, separated by semicolons.
            parameters: values for `?` or `$1` (a sequence) or `$name` (a dict); one statement only.

        Returns:
            The result of the last statement.

        Raises:
            IvmError: see `ivm.errors`; the statement that failed has changed nothing.
        """
        if not isinstance(query, str):
            raise InputError(f"execute takes SQL as text, not {query!r}")
        given = parameters_of(parameters)
        return self._with_session(lambda session: execute(session, query, given))

    def sql(self, query: str, params: Params = None) -> Relation | None:
        """Runs statements as `execute` does, and holds the last one's rows: None if there are none.

        They can be shown and read again and again.
        """
        result = self.execute(query, params)
        return Relation(result) if result.kind == "rows" else None

    def table(self, table_name: str) -> Relation:
        """The rows of a table or view.

        Args:
            table_name: as in `insert`.
        """
        found = self.execute(f"SELECT * FROM {'.'.join(map(quote, name_parts(table_name)))}")
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

    def create_function(
        self,
        name: str | Function,
        function: Callable[..., Any] | None = None,
        parameters: Sequence[SqlType] | None = None,
        return_type: SqlType | None = None,
        *,
        type: Kind | PythonUDFType = "native",
        null_handling: NullHandling | FunctionNullHandling = "default",
        exception_handling: ExceptionHandling | PythonExceptionHandling = "default",
        side_effects: bool = False,
    ) -> Database:
        """Registers a Python function that SQL, also in views, can call while the database is open.

        Args:
            name: in SQL; or a `Function`, which has the others.
            function, parameters, return_type, type, null_handling, exception_handling,
            side_effects: see `Function`.

        Raises:
            InputError: it is no function, or DuckDB does not accept it (a name in use, an unknown
                type).
        """
        if function is None:
            given = demand_function(name)
        else:
            options = type, null_handling, side_effects, exception_handling
            given = Function(str(name), function, parameters, return_type, *options)

        def register(session: Session) -> None:
            given.register(session.cursor)
            session.engine.definitions.forget(registered=[given.name])

        self._with_session(register)
        return self

    def register(self, view_name: str, python_object: object) -> Database:
        """Lets this thread's SQL read a Python object as a temporary view, until `unregister`.

        Args:
            view_name: of the view.
            python_object: a pandas or polars frame, an Arrow table, batch, reader or dataset, a
                numpy array, a dict of numpy arrays, or a `Result`.

        Raises:
            InputError: the object cannot be read as a table, or a temporary table has the name.
        """
        self._with_session(lambda session: session.scans.register(view_name, python_object))
        return self

    def unregister(self, view_name: str) -> Database:
        """Forgets a registered object; an unknown name is no error, as in DuckDB."""
        self._with_session(lambda session: session.scans.unregister(view_name))
        return self

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
                view.written,
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
        return [listing_of(info) for info in self._session().tables]

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
            UnavailableError: the fill has failed or was stopped, or Spark cannot be started; or
                this thread has an open transaction, whose end a fill may have to wait for.
            EvaluationError: the view fails on a change that came meanwhile.
        """
        if self.in_transaction:
            raise UnavailableError(
                "db.backfill() waits for a fill that waits for this transaction: COMMIT first"
            )
        if spark is not None:
            self._lifetime.opened.spark.use(spark)
        with Deferral(), Translating():
            found = self._session().version.view(name_parts(view))
            wait_for_fill(self._engine, found.name, on_progress)

    def stop_backfills(self) -> None:
        """Stops the first fills that run, and waits until they have ended; what is done is kept."""
        self._lifetime.demand_open()
        self._engine.jobs.stop(KIND, timeout=_PATIENCE)
        run_fills(self._engine, self._lifetime.opened.spark)

    def unfilled_views(self) -> list[str]:
        """The names of the views whose first fill on Spark has not ended."""
        return [view.name for view in self._session().views if view.broken == UNFILLED]

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

    def advance(self, table: str, to: datetime | date | str) -> None:
        """Moves the watermark of a table by hand: at the end of a bounded input, or in a test.

        Args:
            table: its name, perhaps qualified.
            to: the time before which later rows are late; one that is passed changes nothing.

        Raises:
            SqlError: the table has no watermark, or `to` is no time.
        """
        path = name_parts(table)
        self._with_session(lambda session: advance(session, path, to))

    # -- closing --------------------------------------------------------------------------------

    def close(self) -> None:
        """Rolls back open transactions, flushes, checkpoints and releases the file.

        Other handles to the same database keep it open: it is released with the last of them.

        Raises:
            UnavailableError: DuckDB cannot write; the file is released, and its log has every
                commit.
        """
        with Deferral(), Translating():
            if self._lifetime.closed:
                return self._lifetime.close()
            try:
                self._close_appenders()
                if self._lifetime.is_shared:
                    self._end_streams()
            finally:
                try:
                    self._lifetime.close()
                finally:
                    self._end_streams()  # what other threads have begun meanwhile

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
            thread = threading.current_thread()
            session = self._local.session = self._lifetime.session(lambda: not thread.is_alive())
        return session


def connect(
    path: str | Path = ":memory:",
    *,
    durability: str | None = "commit",
    memory_limit: int | None = None,
    threads: int | None = None,
    functions: Iterable[Function] = (),
    spark: Given = None,
    clock: Callable[[], datetime] | None = None,
    read_only: bool = False,
) -> Database:
    """Opens or creates a database; another handle to it, if this process has it open.

    Args:
        path: of a DuckDB file (an existing one is adopted as it is), or ":memory:"; or the URL of
            a server, `ivm://user:password@host:port`, see `ivm.client.connect`.
        durability: "commit": a commit is on disk when it returns; "interval": within some 10 ms,
            so that a crash may lose the last commits (never a part of one); None: as this process
            has it open, else "commit".
        memory_limit: bytes for DuckDB's buffers; default 1 GiB, at most half of the memory.
        threads: the number of DuckDB's threads; default DuckDB's own.
        functions: Python functions for SQL; all that the database's views call.
        spark: for first fills on Spark: a SparkSession, or Spark's settings by name; default those
            of `ivm.toml`, see docs/scaling.md.
        clock: tells the time (with a time zone) for views that read it, which then changes by
            `Database.tick` alone; default the system's, which ticks by itself.
        read_only: there is no such opening; the error says how else a database is read.

    Raises:
        InputError: an argument makes no sense.
        UnavailableError: another process has it open, or this one with other settings than those
            that are given.
        CorruptionError: it is no DuckDB file, or its log is damaged.
    """
    if read_only:
        raise InputError(
            f"{path} cannot be opened to be read only. While another process serves it (`ivm "
            "serve`), connect to that: ivm.connect('ivm://user:password@host:port'), by a user of "
            "the role read. While nobody has it open, DuckDB reads its tables and views as they "
            "were at the last closing: duckdb.connect(path, read_only=True)"
        )
    if isinstance(path, str) and path.partition("://")[0] in SCHEMES:
        # It has the methods that make sense from afar, and refuses the others by name.
        return cast(Database, connect_to_server(path))
    return Database(
        path,
        durability=durability,
        memory_limit=memory_limit,
        threads=threads,
        functions=functions,
        spark=spark,
        clock=clock,
    )
