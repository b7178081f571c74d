"""Copies of whole tables, as one moment of the upstream database has them.

Contract: the rows of all tables are those that a replication slot's exported snapshot sees: all
transactions that are before the slot's first, and none of the others.
"""

from __future__ import annotations

import io
import queue
import threading
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import csv

from ivm.cdc.postgres.catalog import Table, load_table
from ivm.cdc.postgres.messages import lsn_number
from ivm.cdc.postgres.server import answers, ask, connect, connect_for_replication
from ivm.cdc.postgres.table_names import TableName
from ivm.cdc.postgres.types import PostgresType
from ivm.cdc.sources.source import SourceError
from ivm.storage.errors import UnavailableError
from ivm.storage.identifiers import literal, quote

_MOST_BYTES = 16 << 20  # of a chunk
_WAIT = 0.1


@dataclass(frozen=True)
class Chunk:
    """Some rows of a table.

    Attributes:
        table: as it is in the snapshot.
        columns: large strings by name.
        count: rows.
        is_last: no more rows of the table follow.
    """

    table: Table
    columns: dict[str, pa.Array]
    count: int
    is_last: bool


class Snapshot:
    """A new replication slot, and connections that see the tables as they are where it begins.

    Args:
        dsn: of the database.
        slot: its name.
        temporary: the slot is gone when the connections have the snapshot.
        count: of the connections.

    Attributes:
        start: the position from which on the slot's changes are not in the snapshot.
        connections: those that see it.
    """

    def __init__(self, dsn: str, slot: str, temporary: bool, count: int) -> None:
        kind = "TEMPORARY LOGICAL" if temporary else "LOGICAL"
        self._create = f"CREATE_REPLICATION_SLOT {quote(slot)} {kind} pgoutput EXPORT_SNAPSHOT"
        self._dsn = dsn
        self._count = count
        self._replication: Any = None
        self.start = 0
        self.connections: list[Any] = []

    def take(self) -> None:
        """Makes the slot, which waits for the end of all transactions that are open."""
        self._replication = connect_for_replication(self._dsn)
        with closing(self._replication):
            ((_, start, name, _),) = ask(self._replication, self._create)
            self.start = lsn_number(start)
            for _ in range(self._count):
                self.connections.append(connect(self._dsn))
                ask(self.connections[-1], "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                ask(self.connections[-1], f"SET TRANSACTION SNAPSHOT {literal(name)}")

    def cancel(self) -> None:
        """Ends the waiting of `take`, and what the connections are doing."""
        for connection in (self._replication, *self.connections):
            if connection is not None and not connection.closed:
                with suppress(UnavailableError, SourceError), answers():
                    connection.cancel()


class Copies:
    """The rows of tables in chunks, read by several threads; `close` it.

    Args:
        snapshot: is taken in the background.
        tables: what to copy.
        types: of the database.

    Attributes:
        limit: the rows of the chunks to come.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        tables: Sequence[TableName],
        types: dict[int, PostgresType],
    ) -> None:
        self.limit = 1000
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
        for connection in self._snapshot.connections:
            connection.close()

    def _begin(self) -> None:
        try:
            self._snapshot.take()
        except BaseException as error:  # raised in the thread that waits for the chunk
            with suppress(_StoppedError):
                self._put(error)
            return
        for connection in self._snapshot.connections:
            thread = threading.Thread(
                target=self._run, args=(connection,), name="ivm-copy", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _run(self, connection: Any) -> None:
        try:
            while self._left:
                try:
                    name = self._left.pop()
                except IndexError:  # another thread was faster
                    break
                self._copy(connection, load_table(connection, self._types, name))
            ask(connection, "COMMIT")
        except _StoppedError:
            pass
        except BaseException as error:  # raised in the thread that waits for the chunk
            with suppress(_StoppedError):
                self._put(error)

    def _copy(self, connection: Any, table: Table) -> None:
        lines = _Lines(self, table)
        columns = ", ".join(quote(column.name) for column in table.columns)
        rows = f"SELECT {columns} FROM {table.source}"
        with answers(), connection.cursor() as cursor:
            try:
                cursor.copy_expert(f"COPY ({rows}) TO STDOUT (FORMAT csv)", lines, 1 << 20)
            except BaseException:
                if self._stopping.is_set():
                    raise _StoppedError from None
                raise
        self._give(table, lines.taken(), is_last=True)

    def _give(self, table: Table, lines: tuple[bytes, int], is_last: bool) -> None:
        data, count = lines
        names = [column.name for column in table.columns]
        self._put(Chunk(table, _columns(data, names), count, is_last))

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


class _Lines(io.RawIOBase):
    """Takes the lines of COPY, one a call."""

    def __init__(self, copies: Copies, table: Table) -> None:
        self._copies = copies
        self._table = table
        self._lines: list[bytes] = []
        self._size = 0

    def write(self, line: Any) -> int:
        """Takes a row."""
        self._lines.append(line)
        self._size += len(line)
        if len(self._lines) >= self._copies.limit or self._size >= _MOST_BYTES:
            self._copies._give(self._table, self.taken(), is_last=False)
        return len(line)

    def taken(self) -> tuple[bytes, int]:
        """The rows that were not taken yet, and their number."""
        found = b"".join(self._lines), len(self._lines)
        self._lines, self._size = [], 0
        return found


def _columns(data: bytes, names: Sequence[str]) -> dict[str, pa.Array]:
    """The columns of CSV as COPY writes it: only a value without quotes is NULL."""
    text = pa.large_string()
    if not data:
        return {name: pa.array([], text) for name in names}
    labels = [str(i) for i in range(len(names))]
    found = csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=labels),
        csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        csv.ConvertOptions(
            column_types=dict.fromkeys(labels, text),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )
    return dict(zip(names, _joined(found.columns), strict=True))


def _joined(columns: Iterable[pa.ChunkedArray]) -> list[pa.Array]:
    return [pa.concat_arrays(column.chunks) for column in columns]
