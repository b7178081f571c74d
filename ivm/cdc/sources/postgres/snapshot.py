"""Copies of whole tables, as one moment of the upstream database has them.

Contract: the rows of all tables are those that a replication slot's exported snapshot sees: all
transactions that are before the slot's first, and none of the others.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from ivm.cdc.sources.postgres.connections.arrow_rows import ArrowRows
from ivm.cdc.sources.postgres.connections.server import answers, ask, connect
from ivm.cdc.sources.postgres.connections.table_names import TableName
from ivm.cdc.sources.postgres.connections.types import PostgresType
from ivm.cdc.sources.postgres.log.messages import lsn_number
from ivm.cdc.sources.postgres.log.replication import Commands
from ivm.cdc.sources.postgres.rows.binary import Form, form
from ivm.cdc.sources.postgres.rows.texts import Typed
from ivm.cdc.sources.postgres.tables.catalog import Table, load_table
from ivm.cdc.sources.source import SourceError
from ivm.storage.errors import UnavailableError
from ivm.storage.identifiers import literal, quote

_WAIT = 0.1


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table.

    Attributes:
        table: as it is in the snapshot.
        columns: by name, see `inserts`.
        count: rows.
        is_last: no more rows of the table follow.
    """

    table: Table
    columns: dict[str, pa.Array | Typed]
    count: int
    is_last: bool


class _Connections(NamedTuple):
    """Two that see the same: the catalog is asked by one, and the rows come by the other."""

    catalog: Any
    rows: ArrowRows


class Snapshot:
    """A new replication slot, and connections that see the tables as they are where it begins.

    Args:
        dsn: of the database.
        slot: its name.
        temporary: the slot is gone when the connections have the snapshot.
        count: of the connections.

    Attributes:
        dsn: of the database.
        start: the position from which on the slot's changes are not in the snapshot.
        connections: those that see it.
    """

    def __init__(self, dsn: str, slot: str, temporary: bool, count: int) -> None:
        kind = "TEMPORARY LOGICAL" if temporary else "LOGICAL"
        self._create = f"CREATE_REPLICATION_SLOT {quote(slot)} {kind} pgoutput EXPORT_SNAPSHOT"
        self.dsn = dsn
        self._count = count
        self._replication: Commands | None = None
        self.start = 0
        self.connections: list[_Connections] = []

    def take(self) -> None:
        """Makes the slot, which waits for the end of all transactions that are open."""
        self._replication = Commands(self.dsn)
        with closing(self._replication):
            _, start, name, _ = self._replication.ask(self._create)
            self.start = lsn_number(start)
            for _ in range(self._count):
                self.connections.append(_Connections(connect(self.dsn), ArrowRows(self.dsn)))
                begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
                see = f"SET TRANSACTION SNAPSHOT {literal(name)}"
                for statement in (begin, see):
                    ask(self.connections[-1].catalog, statement)
                    self.connections[-1].rows.run(statement)

    def cancel(self) -> None:
        """Ends the waiting of `take`, and what the connections are doing."""
        with suppress(UnavailableError, SourceError), answers():
            if self._replication is not None:
                self._replication.cancel()
        for connections in self.connections:
            with suppress(UnavailableError, SourceError), answers():
                connections.catalog.cancel()
                connections.rows.cancel()

    def close(self) -> None:
        """Ends the connections, which nobody uses any more."""
        for connections in self.connections:
            connections.catalog.close()
            connections.rows.close()


class Copies:
    """The rows of tables in chunks, read by several threads; `close` it.

    Args:
        snapshot: is taken in the background.
        tables: what to copy.
        types: of the database.
        publication: of the tables.

    Attributes:
        limit: the rows of the chunks to come.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        tables: Sequence[TableName],
        types: dict[int, PostgresType],
        publication: str,
    ) -> None:
        self.limit = 1000
        self._publication = publication
        self._snapshot = snapshot
        self._types = types
        self._left = list(reversed(tables))
        self._unfinished = len(tables)
        self._chunks: queue.Queue[Chunk | BaseException] = queue.Queue(maxsize=2)
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._begin, name="ivm-copy-begin", daemon=True)]
        self._threads[0].start()

    @property
    def start(self) -> int:
        """Where the snapshot was taken; known as soon as there is a chunk."""
        return self._snapshot.start

    def next(self, timeout: float) -> Chunk | None:
        """The next rows of some table, or None if there are none in time.

        Raises:
            UnavailableError: the server does not answer.
            SourceError: it refuses.
        """
        try:
            found = self._chunks.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(found, BaseException):
            raise found
        self._unfinished -= found.is_last
        return found

    @property
    def is_over(self) -> bool:
        """All chunks were given."""
        return self._unfinished == 0

    def close(self) -> None:
        """Ends the threads and their connections."""
        self._stopping.set()
        for thread in self._threads:  # the first one starts the others
            while thread.is_alive():
                self._snapshot.cancel()
                thread.join(_WAIT)
        self._snapshot.close()

    def _begin(self) -> None:
        try:
            self._snapshot.take()
        except BaseException as error:  # raised in the thread that waits for the chunk
            with suppress(_StoppedError):
                self._put(error)
            return
        for connections in self._snapshot.connections:
            thread = threading.Thread(
                target=self._run, args=(connections,), name="ivm-copy", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _run(self, connections: _Connections) -> None:
        try:
            while self._left:
                try:
                    name = self._left.pop()
                except IndexError:  # another thread was faster
                    break
                self._copy(connections, name)
            ask(connections.catalog, "COMMIT")
            connections.rows.run("COMMIT")
        except _StoppedError:
            pass
        except BaseException as error:  # raised in the thread that waits for the chunk
            with suppress(_StoppedError):
                self._put(error)

    def _copy(self, connections: _Connections, name: TableName) -> None:
        table = self._locked(connections, name)
        forms = [form(column.reading) for column in table.columns]
        asked = zip(forms, table.columns, strict=True)
        columns = ", ".join(known.sql(quote(column.name)) for known, column in asked)
        _demand_all_rows(connections.catalog, table)
        for batch in connections.rows.batches(f"SELECT {columns} FROM {table.source}"):
            at = 0
            while at < len(batch):
                rows = batch.slice(at, self.limit)
                self._put(_chunk(table, forms, rows, is_last=False))
                at += len(rows)
            nothing = batch.slice(0, 0)
        self._put(_chunk(table, forms, nothing, is_last=True))

    def _locked(self, connections: _Connections, name: TableName) -> Table:
        """A table as the snapshot has it, whose columns nobody changes from now on."""
        given = self._types, name, self._publication
        table = load_table(connections.catalog, *given)
        # By the connection that reads the rows: a lock of the other one would let it wait behind
        # whoever waits for that lock. It tells that the rows may not be read, by its code.
        connections.rows.run(f"LOCK TABLE {table.source} IN ACCESS SHARE MODE")
        with closing(connect(self._snapshot.dsn)) as connection:
            now = load_table(connection, *given)
        if (now.oid, now.identity.columns) != (table.oid, table.identity.columns):
            # Its rows may be gone from the snapshot: ALTER TABLE that writes them anew has no past.
            raise UnavailableError(
                f"PostgreSQL's table {name.sql} was altered while it waited to be copied: all "
                "copies are begun anew"
            )
        return table

    def _put(self, item: Chunk | BaseException) -> None:
        while not self._stopping.is_set():
            try:
                self._chunks.put(item, timeout=_WAIT)
                return
            except queue.Full:
                continue
        raise _StoppedError


class _StoppedError(Exception):
    """The copies are no longer wanted."""


def _demand_all_rows(connection: Any, table: Table) -> None:
    """Raises SourceError if row security hides rows; the stream has them all."""
    asked = "SELECT row_security_active(%s::oid), quote_ident(current_user)"
    ((hides, user),) = ask(connection, asked, [table.oid])
    if hides:
        raise SourceError(
            f"row security would hide rows of PostgreSQL's table {table.name.sql} from user {user},"
            " and the changes of all rows are sent. Run in PostgreSQL, as a superuser: "
            f"ALTER ROLE {user} BYPASSRLS; then RESUME SOURCE"
        )


def _chunk(table: Table, forms: Sequence[Form], rows: pa.RecordBatch, is_last: bool) -> Chunk:
    sent = zip(table.columns, forms, rows.columns, strict=True)
    columns = {column.name: known.read(array) for column, known, array in sent}
    return Chunk(table, columns, len(rows), is_last)
