"""The reader of a PostgreSQL source: first copies of its tables, then the stream of their changes.

Law: the first batch notes that the slot is the source's own, before there is one. All tables are
copied from the snapshot that the slot exports, and the batch that ends the copies lets the stream
begin there; a reader that is opened before that makes slot and copies anew.

A table that is added later is copied while the stream goes on, see `added`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from ivm.cdc.sources.postgres.added import AddedTables
from ivm.cdc.sources.postgres.connections.table_names import TableName
from ivm.cdc.sources.postgres.copying import Copier, copied_identities, copied_oid, dropped
from ivm.cdc.sources.postgres.lag import Lag
from ivm.cdc.sources.postgres.log import slot as slots
from ivm.cdc.sources.postgres.log.messages import Commit, Relation
from ivm.cdc.sources.postgres.log.place import Place, behind_first, last_commit, place
from ivm.cdc.sources.postgres.log.stream import Stream
from ivm.cdc.sources.postgres.log.transactions import Transactions
from ivm.cdc.sources.postgres.rows.batches import Changes, Shapes, chained, shapes_in
from ivm.cdc.sources.postgres.rows.facts import copied, facts_of, told
from ivm.cdc.sources.postgres.rows.parts import Described
from ivm.cdc.sources.postgres.settings import Settings
from ivm.cdc.sources.postgres.snapshot import Chunk, Copies, Snapshot
from ivm.cdc.sources.postgres.tables.described import Catalog
from ivm.cdc.sources.postgres.tables.identities import Identities
from ivm.cdc.sources.source import Batch, Position
from ivm.storage.errors import InternalError

STREAM = "stream"
_NEW = "new"
_IDLE_BYTES = 16 << 20  # of others' changes, after which the slot moves on without one of ours
_TURN = 0.01  # seconds for the stream while tables are copied


class PostgresReader:
    """See `Reader`.

    Args:
        settings: of the source.
        positions: as they were committed.
    """

    def __init__(self, settings: Settings, positions: Mapping[str, Position]) -> None:
        self._settings = settings
        self._positions = dict(positions)
        self._catalog = Catalog(settings.dsn, settings.into, settings.publication)
        self._identities = Identities(copied_identities(positions, settings.tables))
        self._copier = Copier(self._catalog, self._positions, self._identities)
        self._shapes: dict[int, tuple[Relation, Described]] = {}
        self._copies: Copies | None = None
        self._added: AddedTables | None = None
        self._stream: Stream | None = None
        self._last: Commit | None = None  # which the stream is to begin with
        self._slot_is_ours = threading.Event()
        self._start = 0
        self._rows: dict[TableName, int] = {}
        self._lag = Lag(self._catalog)
        self._was_idle = True
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        settings, connection = self._settings, self._catalog.connection
        slots.check_server(connection)
        self._server = slots.server(settings.dsn)
        stored = self._positions.get(STREAM)
        if stored is not None and stored.detail != _NEW:
            known = place(stored.detail).server
            slots.check_server_is(settings.dsn, known, self._server, stored.offset)
        self._check_tables()
        slots.publish(
            *(connection, settings.publication, settings.tables),
            create=settings.create_slot,
            streams=stored is not None and stored.detail != _NEW,
        )
        if stored is None and settings.create_slot:
            slots.demand_no_slot(connection, settings.slot)
        elif stored is None:
            self._begin_stream(slots.slot_position(connection, settings.slot))
        elif stored.detail == _NEW:
            self._slot_is_ours.set()
        else:
            self._go_on(stored)

    def _go_on(self, stored: Position) -> None:
        """Begins the stream where it was left, by the last commit if the slot still has it."""
        connection, last = self._catalog.connection, place(stored.detail).commit
        confirmed = slots.check_slot(connection, self._settings.slot, stored.offset)
        self._last = last if last is not None and confirmed <= last.start else None
        self._begin_stream(stored.offset if self._last is None else self._last.start)

    def _check_tables(self) -> None:
        """Checks that the tables are still those that were copied, and published since."""
        settings, connection = self._settings, self._catalog.connection
        tables = [self._catalog.table(name) for name in settings.tables]
        oids = {table.name: copied_oid(self._positions, table.name) for table in tables}
        self._rows = {table.name: table.rows for table in tables if oids[table.name] is None}
        lacking = slots.unpublished(connection, settings.publication, settings.tables)
        for table in tables:
            known = oids[table.name]
            if known is not None and (known != table.oid or table.name in lacking):
                raise slots.replaced(table.name)
            if known is not None:
                self._catalog.look(table, self._identities)

    def _begin_stream(self, start: int) -> None:
        settings = self._settings
        self._stream = Stream(
            *(settings.dsn, settings.slot, settings.publication, start),
            streaming=settings.streaming and self._catalog.connection.info.server_version >= 140000,
        )
        self._start = start

    # -- reading --------------------------------------------------------------------------------

    def read(self, limit: int, timeout: float) -> Batch | None:
        """See `Reader`."""
        gone = dropped(self._positions, self._settings.tables)
        if gone:
            self._positions.update(gone)
            return Batch((), gone)
        if self._stream is None:
            return self._copied(limit, timeout)
        found = self._added_batch(limit)
        return self._streamed(limit, timeout) if found is None else found

    def confirm(self, positions: Mapping[str, Position]) -> None:
        """See `Reader`."""
        found = positions.get(STREAM)
        if found is None:
            return
        self._slot_is_ours.set()
        if self._stream is not None and found.detail != _NEW:
            commit = place(found.detail).commit
            self._stream.confirm(found.offset if commit is None else commit.start)

    def lag(self) -> int | None:
        """See `Reader`."""
        if self._stream is not None and self._added is None:
            return self._lag.events
        copied = self._copier.rows
        return sum(max(rows - copied.get(name, 0), 0) for name, rows in self._rows.items())

    def caught_up(self) -> bool:
        """See `Reader`."""
        return self._stream is not None and self._added is None and self._lag.caught_up

    def close(self) -> None:
        """See `Reader`."""
        for each in (self._copies, self._added, self._stream, self._catalog):
            if each is not None:
                each.close()

    def _copied(self, limit: int, timeout: float) -> Batch | None:
        """The first copies, batch after batch."""
        if STREAM not in self._positions:
            self._positions[STREAM] = Position(0, _NEW)
            return Batch((), {STREAM: self._positions[STREAM]})
        if not self._slot_is_ours.wait(timeout):  # until that has been committed
            return None
        if self._copies is None:
            slots.drop_slot(self._catalog.connection, self._settings.slot)
            self._copies = self._copies_of(self._settings.tables, temporary=False)
        self._copies.limit = limit
        chunk = self._copies.next(timeout)
        return None if chunk is None else self._copied_batch(chunk)

    def _copied_batch(self, chunk: Chunk) -> Batch:
        assert self._copies is not None
        part = self._copier.part(chunk)
        if chunk.is_last:
            self._copier.copied(chunk.table)
            self._copier.finish(chunk.table)
        moved = [part.stream]
        if self._copies.is_over:
            start = self._copies.start
            self._copies.close()
            self._copies = None
            self._reach(start)
            self._begin_stream(start)
            moved.append(STREAM)
        rows = copied(part, self._settings.metadata)
        return Batch((rows,), {stream: self._positions[stream] for stream in moved})

    def _copies_of(self, tables: Sequence[TableName], temporary: bool) -> Copies:
        settings = self._settings
        name = f"{settings.slot}_copy" if temporary else settings.slot
        snapshot = Snapshot(settings.dsn, name, temporary, min(len(tables), settings.copies))
        return Copies(snapshot, tables, self._catalog.types, settings.publication)

    def _added_batch(self, limit: int) -> Batch | None:
        """Rows of tables that were added later, if there are any already."""
        if self._added is None:
            tables = self._settings.tables
            lacking = [t for t in tables if copied_oid(self._positions, t) is None]
            if not lacking:
                return None
            copies = self._copies_of(lacking, temporary=True)
            metadata = self._settings.metadata
            self._added = AddedTables(lacking, copies, self._copier, self._shown, metadata)
        found = self._added.next(limit)
        if self._added.is_over:
            self._added.close()
            self._added = None
        return found

    def _streamed(self, limit: int, timeout: float) -> Batch | None:
        """Transactions of the stream."""
        assert self._stream is not None
        if self._lag.ask(self._was_idle):
            publication = self._settings.publication
            slots.check_publication(self._catalog.connection, publication, streams=True)
            self._check_tables()
        found = self._stream.read(limit, timeout if self._added is None else _TURN)
        self._was_idle = found is None
        if self._last is not None:
            found = self._verified(self._last, found)
        if found is not None:
            return self._batch(found)
        return self._idle(self._stream.idle_position)

    def _verified(self, last: Commit, found: Transactions | None) -> Transactions | None:
        """What follows the commit that was read last, with which the stream must begin.

        Raises:
            SourceError: it does not.
        """
        assert self._stream is not None
        if found is None and self._stream.idle_position < last.end:
            return None  # it has not come yet
        if found is None or found.commits[0] != last:
            raise slots.restored(last.end)
        self._last, rest = None, behind_first(found)
        if rest.commits:
            return rest
        self._keep(chained(self._new_shapes(rest)))  # the server does not send them again
        return None

    def _idle(self, position: int) -> Batch | None:
        """What is to be noted of a position before which there are no more changes."""
        self._lag.idle(position)
        self._identities.reach(position)
        moved = self._copier.stored()
        if position >= self._reached + _IDLE_BYTES:
            moved[STREAM] = self._reach(position)
        return Batch((), moved) if moved else None

    @property
    def _reached(self) -> int:
        found = self._positions.get(STREAM)
        return self._start if found is None else found.offset

    def _reach(self, position: int, commit: Commit | None = None) -> Position:
        self._positions[STREAM] = Position(position, Place(self._server, commit).text)
        return self._positions[STREAM]

    def _batch(self, found: Transactions) -> Batch:
        last, changes = found.commits[-1], Changes(found.messages)
        at = self._reach(last.end, last_commit(found))
        shapes = self._new_shapes(found)
        _demand_names(changes, shapes)
        shapes = chained(shapes)
        self._identities.reach(last.end)
        metadata = self._settings.metadata
        facts = facts_of(found.commits, found.ends) if metadata else {}
        parts = []
        for oid in changes.tables():
            known = shapes_in(self._shapes, shapes, oid)
            if not known:
                self._demand_other(oid)
                continue
            if self._added is None or not self._added.hold(found, changes, oid, known):
                part = changes.part(oid, known, STREAM, at.offset)
                parts.append(told(part, metadata, facts))
        self._keep(shapes)
        self._lag.read(len(found.messages), last.end)
        moved = {STREAM: at, **self._copier.stored()}
        return Batch(parts, moved, datetime.fromtimestamp(last.micros / 1e6, UTC))

    def _new_shapes(self, found: Transactions) -> Shapes:
        own = [(i, shape) for i, shape in found.shapes if self._is_own(shape)]
        return [(i, shape, self._described(shape)) for i, shape in own]

    def _keep(self, shapes: Shapes) -> None:
        self._shapes.update({shape.oid: (shape, known) for _, shape, known in shapes})

    def _described(self, shape: Relation) -> Described:
        """A table of the source; one that is being copied is known when that is over."""
        if self._added is not None and self._added.holds(TableName(shape.schema, shape.name)):
            return self._catalog.sent(shape)
        return self._shown(shape)

    def _shown(self, shape: Relation) -> Described:
        return self._catalog.sent(shape, self._identities)

    def _demand_other(self, oid: int) -> None:
        """Raises InternalError if a table whose columns were never told is one of the source."""
        if oid in [copied_oid(self._positions, table) for table in self._settings.tables]:
            raise InternalError(
                f"the stream has changes of a table (oid {oid}) without its columns"
            )

    def _is_own(self, shape: Relation) -> bool:
        """Whether a table is one of the source.

        Raises:
            SourceError: it was renamed, or another one has its name.
        """
        name = TableName(shape.schema, shape.name)
        oids = {copied_oid(self._positions, table): table for table in self._settings.tables}
        known = oids.get(shape.oid)
        if known not in (None, name):
            raise slots.replaced(known)
        if name not in self._settings.tables:
            return False
        if copied_oid(self._positions, name) not in (None, shape.oid):
            raise slots.replaced(name)
        return True


def _demand_names(changes: Changes, shapes: Shapes) -> None:
    """Raises SourceError if a column is renamed within a transaction that has changed rows."""
    for at, shape, known in shapes:
        is_renamed = any(
            column.was not in (None, "", column.name) for column in known.upstream.columns
        )
        if is_renamed and (changes.numbers(shape.oid) < at).any():
            raise slots.replaced(
                TableName(shape.schema, shape.name),
                "has a column that was renamed within a transaction that has changed rows before",
            )
