"""The tables and views as DuckDB stores them, and flushes, which bring them up to the log.

Contract: after `flush` DuckDB has every commit made before the call to the relations asked for; a
snapshot pinned under `write_lock` together with its flush shows one epoch. A flush that fails loses
nothing: its deltas stay pending.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence

from ivm.catalog.catalog import Catalog
from ivm.catalog.version import CatalogVersion
from ivm.engine.base.log_writer import LogWriter
from ivm.ingest.snapshot import Snapshot
from ivm.storage.identifiers import quote
from ivm.storage.log.change import TableChange
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, add, empty
from ivm.storage.warehouse.duckdb.appender import Appenders
from ivm.storage.warehouse.duckdb.duck import Cursor, chunks, rows, run
from ivm.storage.warehouse.flush.flush import NetChange, apply_change, apply_changes
from ivm.storage.warehouse.flush.refused import RefusedError
from ivm.storage.warehouse.flusher import OutcomeUnknownError
from ivm.storage.warehouse.net_changes import PendingTable, PendingView
from ivm.storage.warehouse.pending import PendingDeltas
from ivm.storage.warehouse.tables.history import demand_unchanged
from ivm.storage.warehouse.warehouse import Warehouse

MOST_PENDING = 4_000_000
"""The number of pending rows beyond which a writer flushes before it begins."""


class StoredTables:
    """Reads and writes the tables in DuckDB, whose epoch is the log's or an earlier one.

    Attributes:
        warehouse: the DuckDB file.
        catalog: names and schemas.
        log: knows whether the pending deltas may be used.
        pending: the deltas that the tables do not have yet.
    """

    def __init__(
        self, warehouse: Warehouse, catalog: Catalog, log: LogWriter, pending: PendingDeltas
    ) -> None:
        self.warehouse = warehouse
        self.catalog = catalog
        self.log = log
        self.pending = pending

    # -- flushing -------------------------------------------------------------------------------

    def flush(self, only: Iterable[str] | None = None) -> None:
        """Brings DuckDB up to the log.

        Args:
            only: the relations that are going to be read; if all of them are views, those alone are
                flushed, together with views that are likely to be read next.

        Raises:
            UnavailableError: the log or DuckDB cannot be written; nothing is lost, and the flush
                is tried again at the next read.
        """
        only = None if only is None else frozenset(only)
        if only is not None:
            self.pending.read(only)
        self.log.demand_readable()
        if self.pending.rows:
            with self.warehouse.write_lock:
                self._flush(only)

    def _flush(self, only: Iterable[str] | None) -> int:
        """Flushes what is taken for these relations; returns the epoch at which they stand then."""
        number = self.warehouse.flusher.number
        try:
            tables, views, epoch = self.pending.take(only)
            if tables or views:
                self.warehouse.flush(
                    epoch,
                    {name: part.net() for name, part in tables.items()} if tables else None,
                    {name: part.net() for name, part in views.items()},
                )
        except OutcomeUnknownError as error:
            raise self.log.broken("a flush failed", error) from error
        except BaseException:
            # An interrupt may come after DuckDB's COMMIT: then the rows are no longer pending.
            if self.warehouse.flusher.number > number:
                self.pending.confirm()
            else:
                self.pending.put_back()
            raise
        self.pending.confirm()
        return epoch

    def flush_if_large(self) -> None:
        """Flushes if more than `MOST_PENDING` rows are pending; called before a change begins."""
        if self.pending.rows > MOST_PENDING:
            self.flush()

    def flush_within(self, cursor: Cursor) -> None:
        """Writes all pending deltas in the cursor's transaction, after the changes it has made.

        For a statement that removes the reason why DuckDB refuses the pending rows; those of a
        relation that it has dropped are discarded. The caller holds `write_lock` until the
        transaction has ended, and then calls `confirm` or `put_back` of `pending`.

        Raises:
            RefusedError: a relation with pending rows has other columns now.
            duckdb.Error: the rows are still refused.
        """
        before = {
            name: self.catalog.version.relation_schema(name) for name in self.catalog.qualified
        }
        standing = self.warehouse.tables(cursor)
        tables, views, _ = self.pending.take(None)
        pending: dict[str, PendingTable | PendingView] = {**tables, **views}
        parts = {name: part for name, part in pending.items() if name in standing}
        for name in parts:
            if name in before and standing[name].schema != before[name]:
                raise RefusedError(
                    f"{name!r} has rows that are not written yet: its columns can be changed when "
                    "what refuses these rows is gone",
                    name,
                )
        net = {name: part.net() for name, part in parts.items()}
        self.warehouse.flusher.write_within(cursor, net, self.pending.epoch + 1)

    def write(self, cursor: Cursor, name: str, net: NetChange) -> None:
        """Applies a net change to a relation's table in the cursor's transaction."""
        info = self.catalog.tables.get(name)
        if info is not None and (info.history is not None or info.generated):
            target = info.target().at(self.pending.epoch + 1)
            apply_changes(cursor, [("", target, net)], Appenders(cursor))
            return
        schema = self.catalog.version.relation_schema(name)
        apply_change(cursor, self.catalog.qualified[name], schema, net)

    def write_changes(self, cursor: Cursor, changes: Iterable[TableChange]) -> None:
        """Applies changes of base tables in the cursor's transaction."""
        parts: dict[str, PendingTable] = {}
        for change in changes:
            part = parts.get(change.table)
            if part is None:
                part = parts[change.table] = self.pending.new_table(change.table)
            part.collect(change, self.pending.epoch + 1)
        infos = {name: self.catalog.tables.get(name) for name in parts}
        tied = [
            n for n, info in infos.items() if info and (info.foreign_keys or info.referenced_by)
        ]
        for name, part in parts.items():
            if name not in tied:
                self.write(cursor, name, part.net())
        if tied:  # parents and children in DuckDB's order
            given = [(name, infos[name], parts[name]) for name in tied]
            net = [(name, info.target(), part.net()) for name, info, part in given if info]
            apply_changes(cursor, net, Appenders(cursor))

    # -- reading --------------------------------------------------------------------------------

    def demand_histories(self, names: Iterable[str]) -> None:
        """Checks that the files of tables that are not stored are those that were pinned.

        Args:
            names: of the tables and views that are going to be read.

        Raises:
            UnavailableError: a file has changed, or is gone.
        """
        version = self.catalog.version
        found = [version.tables.get(name) for name in version.with_sources(names)]
        histories = {info.name: info.history for info in found if info and info.history}
        if histories:
            with contextlib.closing(self.warehouse.cursor()) as cursor:
                demand_unchanged(cursor, histories)

    def scan(
        self, name: str, columns: Sequence[int], cursor: Cursor | None = None
    ) -> Iterator[ZSet]:
        """Reads columns of a table or view, as stored (and as the cursor sees it), in chunks."""
        version = self.catalog.version
        schema = tuple(version.relation_schema(name)[i] for i in columns)
        return _scan(cursor or self.warehouse.cursor(), version.qualified[name], schema)

    @contextlib.contextmanager
    def as_of_an_epoch(
        self, view: str, version: CatalogVersion
    ) -> Iterator[tuple[int, int, Iterator[ZSet]]]:
        """Flushes a view, and pins its rows for the block.

        Args:
            view: its name.
            version: has it. Where the catalog is another by now, the rows may be another view's.

        Yields:
            (the epoch of the rows, their number, the rows in chunks).

        Raises:
            duckdb.Error: another catalog has not this view.
        """
        self.log.demand_readable()
        with contextlib.closing(self.warehouse.cursor()) as cursor:
            with self.warehouse.write_lock:
                epoch = self._flush({view})
                self.warehouse.pin(cursor)
            table = version.qualified[view]
            ((count,),) = rows(cursor, f"SELECT count(*) FROM {table}")
            yield epoch, count, _scan(cursor, table, version.relation_schema(view))

    def content(self, name: str) -> ZSet:
        """All rows of a table or view, as stored."""
        schema = self.catalog.version.relation_schema(name)
        return add([empty([t for _, t in schema]), *self.scan(name, range(len(schema)))])

    def snapshot(self, table: str) -> Snapshot:
        """Flushes, and pins a snapshot of a base table as of the last commit."""
        cursors = self.warehouse.cursor(), self.warehouse.cursor()
        with self.warehouse.write_lock:
            self.flush()
            for cursor in cursors:
                self.warehouse.pin(cursor)
        return Snapshot(self.catalog.tables[table], cursors)

    def show_pending(self, cursor: Cursor, relations: Collection[str]) -> None:
        """Begins a transaction and writes pending deltas in it; the caller must roll it back."""
        with self.warehouse.write_lock:
            run(cursor, "BEGIN TRANSACTION")
            self.warehouse.flusher.write_within(
                cursor, self.pending.net(relations), self.pending.epoch
            )


def _scan(cursor: Cursor, table: str, schema: Schema) -> Iterator[ZSet]:
    """Reads columns of a table in chunks."""
    names = ", ".join(quote(column) for column, _ in schema)
    return chunks(cursor, f"SELECT {names} FROM {table}", schema)
