"""One user of the database: a cursor, at most one open transaction, and names.

Contract: every statement runs at one epoch that includes all commits made before it began.
Invariant: base tables are changed only through a `Transaction`, opened by BEGIN or a statement.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

import duckdb

from ivm.catalog.version import CatalogVersion, View
from ivm.changes.rows.few_rows import FewRows
from ivm.engine.engine import Engine
from ivm.engine.transactions.read_only_transaction import ReadOnlyTransaction, changes_nothing
from ivm.engine.transactions.transaction import Transaction
from ivm.ingest.local_time import LocalTime
from ivm.ingest.parameters import Params
from ivm.reads.answer import Answer
from ivm.reads.reads import StateReads
from ivm.session.broken_reads import refuse_broken
from ivm.session.buried import Buried
from ivm.session.insert_templates import InsertTemplates
from ivm.session.names.names import SessionNames
from ivm.session.names.pipes import Pipes
from ivm.session.names.replacement_scans import ReplacementScans
from ivm.session.names.statement_kinds import Reads, read_by_kind
from ivm.session.names.temporary import refuse_temporary
from ivm.session.plan_cache import PlanCache
from ivm.session.results.open_results import OpenResults
from ivm.session.results.result import BATCH, Result
from ivm.sql.statements import parse as st
from ivm.sql.statements.written_errors import as_written
from ivm.storage.errors import InputError, IvmError
from ivm.storage.interrupts import begin_statement
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet
from ivm.storage.warehouse.duckdb.arrow_streams import stream_of
from ivm.storage.warehouse.duckdb.duck import roll_back, run
from ivm.storage.warehouse.tables.table_info import TableInfo

T = TypeVar("T")
RunStatement: TypeAlias = Callable[["Session", st.Statement, Params], Result]


class Session:
    """The session of one thread.

    Args:
        engine: the database's engine.
        reads: answers queries from memory.

    Attributes:
        results: that are not yet read to their ends.
        is_forgotten: whether the program cannot use it any more.
        buried: the late rows of its changes that become dead letters.
    """

    def __init__(self, engine: Engine, reads: StateReads) -> None:
        self.engine = engine
        self._reads = reads
        self.cursor = engine.warehouse.cursor()
        self.transaction: Transaction | None = None
        self.prepared: dict[str, st.Statement] = {}
        self.names = SessionNames(self)
        self.scans = ReplacementScans(self)
        self.pipes = Pipes(self)
        self.few = FewRows()
        self.insert_templates = InsertTemplates()
        self.plans = PlanCache()
        self.local_time = LocalTime(self.cursor)
        self.results = OpenResults()
        self.is_forgotten: Callable[[], bool] = lambda: False
        self.lock = threading.RLock()  # held by each call, and while a result is read
        self._closed = False
        self.buried = Buried(self.names.resolve)

    def fail(self, error: BaseException) -> None:
        """Rolls back after a failed call, as DuckDB does."""
        if self.transaction is not None:
            self.release()
            self.transaction.fail(error)
        elif self.results.opened is None:  # else it is that of an earlier result, still read
            roll_back(self.cursor)
        self.end_inputs()

    def end_inputs(self) -> None:
        """Forgets the objects and pipes of a statement, unless its result is still read."""
        if self.results.opened is None:
            self._forget_inputs()

    def _forget_inputs(self) -> None:
        self.scans.hide()
        self.pipes.remove()

    def reads(self, statement: st.Statement, text: str | None = None) -> frozenset[str]:
        """The canonical names of the tables and views that a statement reads.

        Args:
            statement: the statement.
            text: the part of its text that names them; None for all of it.

        Raises:
            EvaluationError: one of them is a broken view.
        """
        if isinstance(statement, st.Execute):
            return self.reads(self.prepared[statement.name.lower()])
        sql = statement.text if text is None else text
        found = self._named(statement, sql)
        refuse_broken(self.engine, self.version.views, self.cursor, statement, sql, found)
        return found

    def _named(self, statement: st.Statement, sql: str) -> frozenset[str]:
        relations, reads = self.engine.definitions.relations, read_by_kind(statement)
        if reads is Reads.NOTHING:
            return frozenset()
        if reads is Reads.EVERYTHING or (isinstance(statement, st.Dml) and relations.triggers()):
            return relations.everything()
        found = None if self.sees_more() else relations.read_by(sql)
        return relations.seen_by(self.cursor, sql) if found is None else found

    @property
    def views(self) -> list[View]:
        """The views that the session sees."""
        return list(self.version.views.values())

    @property
    def tables(self) -> list[TableInfo]:
        """The user's tables that it sees."""
        return list(self.version.user_tables.values())

    @property
    def version(self) -> CatalogVersion:
        """The catalog as of the last commit, or of the session's own open transaction."""
        version, transaction = self.engine.catalog.version, self.transaction
        if transaction is None or transaction.over is not None:
            return version.as_committed
        if isinstance(transaction, ReadOnlyTransaction):
            return transaction.version
        return version if transaction.changes_catalog else version.as_committed

    def refuse_temporary(self, queries: Iterable[tuple[str, str]]) -> None:
        """Refuses views that would read temporary things; see `ivm.session.names.temporary`."""
        refuse_temporary(self.cursor, self.names.temporary, queries)

    def sees_more(self) -> bool:
        """Returns whether names may mean something else here than in other sessions."""
        transaction = self.transaction
        catalog_changes = transaction is not None and transaction.changes_catalog
        return catalog_changes or bool(self.names.temporary)

    @property
    def is_pinned(self) -> bool:
        """Whether a READ ONLY transaction is open: names mean what they did when it began."""
        return self.transaction is not None and self.transaction.reads_only

    def from_state(self, text: str, params: Params) -> Answer | None:
        """The answer to a query from memory; None if DuckDB gives it."""
        transaction = self.transaction
        if transaction is None:
            return None if self.names.temporary else self._reads.answer(text, params)
        if self.names.temporary or transaction.changes_catalog or transaction.reads_only:
            return None
        with transaction:  # it has the writer lock: every read of it finds the same rows
            return self._reads.answer(text, params, transaction)

    def source_from_state(
        self, transaction: Transaction, text: str, params: Params
    ) -> tuple[Schema, ZSet] | None:
        """The columns and rows of a query that a change needs; None if DuckDB computes them.

        Args:
            transaction: the change's; it has the writer lock.
            text: one SELECT.
            params: those that it names.
        """
        if self.names.temporary or transaction.changes_catalog:
            return None
        answer = self._reads.answer(text, params, transaction, is_source=True)
        return None if answer is None else answer.content

    def source_of_shape(
        self, transaction: Transaction, shape: str, literals: Mapping[str, int | str]
    ) -> tuple[Schema, ZSet] | None:
        """As `source_from_state`, for the shape of a query and its literals."""
        if self.names.temporary or transaction.changes_catalog:
            return None
        answer = self._reads.answer_shape(shape, literals, transaction)
        return None if answer is None else answer.content

    def way_of(self, text: str, params: Params) -> str:
        """Says whether a query is answered from memory, or why not."""
        why = self._why_not_from_state(text, params)
        return "memory" if why is None else f"DuckDB, after a flush: {why}"

    def giver_of(self, text: str, params: Params) -> str:
        """Says who gives the rows of a query that a change needs, and why it is DuckDB."""
        why = self._why_not_from_state(text, params, is_source=True)
        return "memory" if why is None else f"DuckDB ({why})"

    def _why_not_from_state(
        self, text: str, params: Params, *, is_source: bool = False
    ) -> str | None:
        if self.names.temporary:
            return "the session has made temporary things"
        if self.transaction is not None and self.transaction.reads_only:
            return "a READ ONLY transaction reads its snapshot"
        return self._reads.why_not(text, params, self.transaction, is_source=is_source)

    # -- the cursor -----------------------------------------------------------------------------

    def release(self) -> None:
        """Frees the cursor: the rows that an open result has not yet read are read into memory."""
        self.results.release()

    def ask(
        self,
        statement: st.Statement,
        params: Params,
        *,
        pinned: bool = False,
        committed: bool = True,
        writing: bool = False,
    ) -> Result:
        """Has DuckDB run a query, and opens its result.

        Args:
            statement: the query.
            params: those that it names.
            pinned: whether the cursor is in a transaction of the query's own, which ends with it.
            committed: whether that transaction is committed, not rolled back.
            writing: whether DuckDB commits something with the query.
        """
        transaction = self.transaction

        def on_end(error: IvmError | None) -> None:
            if error is not None:
                as_written(statement, error)
            if pinned and committed and error is None:
                run(self.cursor, "COMMIT")
            elif pinned:
                with contextlib.suppress(duckdb.Error):  # DuckDB may have ended it already
                    run(self.cursor, "ROLLBACK")
            elif error is not None and transaction is not None:
                transaction.fail(error)
            if writing:
                self.engine.warehouse.saw_own_commit()
            self._forget_inputs()

        begin_statement()
        if self.results.in_batches and isinstance(statement, st.Query):
            stream = stream_of(self.cursor, statement.text, params, BATCH)
        else:
            self.cursor.execute(statement.text, params)
            stream = None
        ended, room = self.results.ending(on_end), self.results.room
        result = Result.streaming(self.cursor, ended, self.lock, stream, room)
        self.results.open(result)
        return result

    @property
    def macros(self) -> frozenset[str]:
        """The names of functions and macros, in lower case, that are not DuckDB's own."""
        own = self.names.macros
        return self.engine.definitions.macros | own if own else self.engine.definitions.macros

    # -- transactions ---------------------------------------------------------------------------

    def writing(self, *, temporary: bool = False) -> contextlib.AbstractContextManager[Transaction]:
        """The open transaction, or a transaction that is committed at the end of the block.

        Args:
            temporary: only temporary things are changed.

        Raises:
            UnavailableError: the transaction is READ ONLY.
        """
        if self.results.opened is not None:
            self.release()
        if self.transaction is not None:
            if self.transaction.reads_only and self.transaction.over is None and not temporary:
                raise changes_nothing("nothing can be changed")
            return self.transaction
        self.engine.tables.flush_if_large()
        return _OwnTransaction(self._transaction())

    def ahead(self, compute: Callable[[], T]) -> Callable[[], T]:
        """Computes something before the writer lock is acquired, from rows and the catalog alone.

        Args:
            compute: runs again if another session has changed the catalog meanwhile.

        Returns:
            A function for the holder of the lock, which returns the result or raises the error.
        """
        catalog, error = self.engine.catalog, None
        version = catalog.version
        if self.transaction is not None or version.is_changing:
            return compute  # the lock is held already, or the catalog is not a committed one
        if self.results.opened is not None:
            self.release()
        try:
            result = compute()
        except IvmError as raised:
            error = raised

        def found() -> T:
            nonlocal error
            if catalog.version is not version:
                return compute()
            if error is not None:
                try:
                    raise error
                finally:
                    error = None  # its traceback holds this function, and with it the rows
            return result

        return found

    def begin(self, *, read_only: bool = False, tells_time: bool = True) -> None:
        """Opens a transaction.

        Args:
            read_only: whether it reads a snapshot, and may change only temporary tables.
            tells_time: whether its statements must tell of one time.

        Raises:
            InputError: one is open already.
        """
        if self.transaction is not None and self.transaction.over is None:
            raise InputError("a transaction is open already: COMMIT or ROLLBACK it first")
        self.release()
        self.engine.tables.flush_if_large()
        self.transaction = self._transaction(begun=True, read_only=read_only)
        if tells_time:
            self.transaction.begin_time()

    def _transaction(self, *, begun: bool = False, read_only: bool = False) -> Transaction:
        given = self.engine, self.cursor, self.refuse_temporary
        if read_only:
            return ReadOnlyTransaction(*given)
        made = Transaction(*given, begun=begun, local=self.local_time)
        made.is_forgotten = self.is_forgotten
        made.note_buried = self.buried.note
        return made

    def commit(self) -> None:
        """Commits the open transaction as one epoch."""
        with self._ending("commit") as transaction:
            transaction.commit()

    def rollback(self) -> None:
        """Undoes the open transaction."""
        self._ending("roll back").rollback()

    def _ending(self, what: str) -> Transaction:
        self.release()
        if self.transaction is None:
            raise InputError(f"no transaction is open to {what}: BEGIN one first")
        transaction, self.transaction = self.transaction, None
        transaction.way_out = "it is over, begin again"  # this call ends it, failed or not
        return transaction

    def interrupt(self) -> None:
        """Interrupts the statement that runs, from another thread."""
        with contextlib.suppress(duckdb.Error):  # it is closed
            self.cursor.interrupt()

    @property
    def busy(self) -> bool:
        """Returns whether a call is under way."""
        if not self.lock.acquire(blocking=False):
            return True
        self.lock.release()
        return False

    def close(self, wait: float) -> bool:
        """Rolls back the open transaction and closes the cursor; closing twice does nothing.

        Args:
            wait: seconds to wait for a call that is under way.

        Returns:
            False if that call has not ended: nothing is closed.
        """
        if not self.lock.acquire(timeout=wait):
            return False
        try:
            if not self._closed:
                self._closed = True
                self._close()
        finally:
            self.lock.release()
        return True

    def _close(self) -> None:
        try:
            self.results.release(keeping=not self.results.in_batches)
            if self.transaction is not None and self.transaction.over is None:
                self.rollback()
        finally:
            self.cursor.close()


class _OwnTransaction(contextlib.AbstractContextManager[Transaction]):
    """The transaction of one statement: its block commits it, or rolls it back and raises."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def __enter__(self) -> Transaction:
        return self._transaction.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._transaction.__exit__()
        if error is None:
            self._transaction.commit()
        else:
            self._transaction.rollback()
