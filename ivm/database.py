"""The open database: the Python API for SQL, rows, views and changefeeds.

Contract: it can be used from any thread; each thread has its own session (cursor, temporary tables,
transaction). One transaction writes at a time; readers see one epoch and wait for no writer.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy.typing as npt
import pyarrow as pa

from ivm.block import TransactionBlock
from ivm.catalog.broken_views import why_broken
from ivm.catalog.functions import Function, demand_function
from ivm.cdc import stored_sources
from ivm.cdc.apply import Ingested
from ivm.cdc.formats.envelopes import envelope_of
from ivm.cdc.ingest import ingest
from ivm.cdc.run_sources import SourceInfo, list_sources, run_sources
from ivm.cdc.sinks import stored_sinks
from ivm.cdc.sinks.encode import demand_format
from ivm.cdc.sinks.run_sinks import SinkInfo, list_sinks, run_sinks
from ivm.cdc.sinks.tail import Tail
from ivm.cdc.sinks.target import SinkTo
from ivm.cdc.sources.source import Source
from ivm.dispatch import execute
from ivm.engine.changefeed import MOST_HELD, Subscription
from ivm.engine.opening import open_engine
from ivm.ingest.rows import Rows
from ivm.lifetime import Lifetime, close_forgotten
from ivm.session.result import Result
from ivm.session.row_calls import apply, delete, insert, upsert
from ivm.session.session import Params, Session
from ivm.session.subscribe import subscribe
from ivm.storage.errors import InputError
from ivm.storage.interrupts import Deferral, check
from ivm.storage.values.types import Schema
from ivm.storage.warehouse.duckdb_errors import Translating

T = TypeVar("T")


@dataclass(frozen=True)
class ViewInfo:
    """A materialized view as `Database.views` lists it.

    Attributes:
        name: canonical name.
        sql: the SELECT it was created with.
        strategy: that of its slowest operator: "linear", "indexed", "group recompute" or
            "whole recompute".
        columns: (name, DuckDB type) pairs.
        reads: relations it reads directly.
        reason: why it is recomputed; None if it is not.
        broken: why it cannot be read; None if it can.
    """

    name: str
    sql: str
    strategy: str
    columns: tuple[tuple[str, str], ...]
    reads: tuple[str, ...]
    reason: str | None
    broken: str | None = None


@dataclass(frozen=True)
class TableListing:
    """A base table as `Database.tables` lists it.

    Attributes:
        name: canonical name.
        columns: (name, DuckDB type) pairs.
        primary_key: names of its key columns, empty without one.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...]


class Database:
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

    def ingest(
        self,
        table: str,
        events: Sequence[str | bytes | dict[str, Any] | None] | pa.Array,
        *,
        format: str = "debezium",
        times: str | None = None,
        decimals: str | None = None,
        version: str = "",
        source: str = "python",
        position: int | None = None,
    ) -> Ingested:
        """Applies the change events of another database to a table, as one epoch.

        The rows that events change are found by the table's key; an event that cannot be applied
        is stored in `_ivm.dead_letters` with its reason, and the others are applied.

        Args:
            table: its name, `schema.table` if it is not in main.
            events: JSON texts or dicts in the order of the stream; None and blank ones are ignored.
            format: `debezium`, `debezium with schema`, `maxwell`, `json` (rows with a key `op`:
                insert, update or delete) or `json appends` (rows alone).
            times: what numbers in columns of times count, `ms`, `us` or `ns`.
            decimals: whether strings in columns of numbers are `text` or `base64`.
            version: the name of a column that grows with each change of a row: an event whose
                version is not greater than the stored one changes nothing.
            source: the name of the stream.
            position: of the batch in the stream, greater than that of the source's batch before
                for this table. It is committed with the rows; a batch whose position has been
                reached changes nothing.

        Returns:
            What was applied, ignored and refused.

        Raises:
            InputError: an unknown format or encoding, or a position that is no integer.
            UnsupportedError: the table has constraints that only DuckDB can check.
        """
        envelope = envelope_of(format, times, decimals, version)
        return self._with_session(
            lambda session: ingest(session, table, events, envelope, source, position)
        )

    # -- sources --------------------------------------------------------------------------------

    def create_source(
        self, name: str, source: Source, into: str | None = None, *, if_not_exists: bool = False
    ) -> None:
        """Creates a source of changes, as CREATE SOURCE does; `start_sources` runs it.

        Args:
            name: of the source, without regard to case.
            source: such as `ivm.sources.Files(path="inbox/*.jsonl", format="debezium")`.
            into: the table that its events change, where the source itself does not tell.
            if_not_exists: whether a source of this name may exist and stays as it is.

        Raises:
            InputError: the name is taken, or there is no table to which the events can go.
        """
        self._with_session(
            lambda s: stored_sources.create(s, name, source, into, if_not_exists=if_not_exists)
        )

    def sources(self) -> list[SourceInfo]:
        """All sources with what they are doing, as SHOW SOURCES lists them."""
        return self._with_session(list_sources)

    def start_sources(self, names: Iterable[str] | None = None) -> None:
        """Runs the database's sources in threads of this process, from now on.

        Sources created or resumed later are run too; while they run, the database stays open.

        Args:
            names: of those that begin now; None for all.

        Raises:
            SqlError: there is no source of one of the names.
        """
        chosen = None if names is None else list(names)
        run_sources(self._with_session, self._engine, chosen)

    def stop_sources(self, timeout: float = 10.0) -> bool:
        """Ends the threads of all sources; each goes on from its position when it is run again.

        Args:
            timeout: seconds to wait for the batches that are being applied.

        Returns:
            Whether all have ended in time.
        """
        return not self._engine.jobs.stop("source", timeout)

    def create_sink(
        self, name: str, view: str, sink: SinkTo, *, if_not_exists: bool = False
    ) -> None:
        """Creates a sink for the changes of a view, as CREATE SINK does; `start_sinks` runs it.

        Args:
            name: of the sink, without regard to case.
            view: its name.
            sink: such as `ivm.sinks.Files(path="out/revenue.jsonl", format="debezium")`.
            if_not_exists: whether a sink of this name may exist and stays as it is.

        Raises:
            InputError: the name is taken, there is no such view, or the target cannot be written.
        """
        self._with_session(
            lambda s: stored_sinks.create(s, name, view, sink, if_not_exists=if_not_exists)
        )

    def sinks(self) -> list[SinkInfo]:
        """All sinks with what they are doing, as SHOW SINKS lists them."""
        return self._with_session(list_sinks)

    def start_sinks(self) -> None:
        """Runs the database's sinks in threads of this process, from now on.

        Sinks created or resumed later are run too; while they run, the database stays open.
        """
        run_sinks(self._with_session, self._engine)

    def stop_sinks(self, timeout: float = 10.0) -> bool:
        """Ends the threads of all sinks; what they have not acknowledged waits in the outbox.

        Args:
            timeout: seconds to wait for what is being written.

        Returns:
            Whether all have ended in time.
        """
        return not self._engine.jobs.stop("sink", timeout)

    def transaction(self) -> contextlib.AbstractContextManager[Database]:
        """A `with` block that is one transaction, rolled back if the block raises."""
        return TransactionBlock(self, self._with_session)

    # -- views ----------------------------------------------------------------------------------

    def subscribe(
        self, view: str, *, limit: int = MOST_HELD, snapshot: bool = False
    ) -> Subscription:
        """Opens a changefeed: a blocking iterator of (epoch, delta) from now on.

        A delta is an Arrow table of the view's columns and `_weight` (int64): positive for rows
        added, negative for rows removed.

        Args:
            view: its name.
            limit: rows that wait to be read; beyond it, the feed ends with an error.
            snapshot: whether the first delta is the rows that the view has.
        """
        return self._with_session(
            lambda session: subscribe(session, view, limit, self._unsubscribe, snapshot=snapshot)
        )

    def _unsubscribe(self, feed: Subscription) -> None:
        """Removes a closed feed. An open feed refers to this method, so the database stays open."""
        self._engine.feeds.remove(feed)

    def tail(
        self, view: str, *, format: str = "jsonl", snapshot: bool = False, limit: int = MOST_HELD
    ) -> Tail:
        """Opens a changefeed of JSON lines: a blocking iterator of lists of lines, one an epoch.

        Args:
            view: its name.
            format: `jsonl` or `debezium`, see the formats of sinks.
            snapshot: whether the first lines are the rows that the view has.
            limit: rows that wait to be read; beyond it, the feed ends with an error.
        """
        demand_format(format)
        return Tail(self._engine, self.subscribe(view, limit=limit, snapshot=snapshot), format)

    def views(self) -> list[ViewInfo]:
        """All materialized views, each after the views that it reads."""
        strategy, found = self._engine.views.strategy, self._session().views
        views = {view.name: view for view in found}
        return [
            ViewInfo(
                view.name,
                view.query,
                strategy(view),
                _columns(view.schema),
                tuple(sorted(view.reads)),
                None if view.constant else view.reason,
                why_broken(views, view.name),
            )
            for view in found
        ]

    def tables(self) -> list[TableListing]:
        """All base tables."""
        return [
            TableListing(
                info.name,
                _columns(info.schema),
                tuple(info.schema[i][0] for i in info.primary_key),
            )
            for info in self._engine.catalog.user_tables.values()
        ]

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

    def __enter__(self) -> Database:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()

    def _with_session(self, work: Callable[[Session], T]) -> T:
        """Calls a function with the thread's session; every call that runs something comes here.

        See `Session.fail`, `Translating` and `ivm.storage.interrupts`.
        """
        with Deferral() as call, Translating():
            session = self._session()
            call.cursor = session.cursor
            try:
                with session.lock:
                    self._lifetime.demand_open()  # it may have been closed during the wait
                    if session.transaction is None:
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

    def _session(self) -> Session:
        self._lifetime.demand_open()
        session: Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = self._lifetime.session()
        return session


def _columns(schema: Schema) -> tuple[tuple[str, str], ...]:
    return tuple((name, type.sql) for name, type in schema)


def connect(
    path: str | Path = ":memory:",
    *,
    durability: str = "commit",
    memory_limit: int | None = None,
    threads: int | None = None,
    functions: Iterable[Function] = (),
) -> Database:
    """Opens or creates a database.

    Args:
        path: of a DuckDB file (an existing one is adopted as it is), or ":memory:".
        durability: "commit": a commit is on disk when it returns; "interval": within some 10 ms,
            so that a crash may lose the last commits (never a part of one).
        memory_limit: bytes for DuckDB's buffers; default 1 GiB, at most half of the memory.
        threads: the number of DuckDB's threads; default DuckDB's own.
        functions: Python functions for SQL; all that the database's views call.

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
    )
