"""The outbox: the deltas that the sinks of views have not acknowledged yet, as rows of a table.

Law: what a sink was given when it was made + the deltas it has acknowledged + its rows of
`_ivm.outbox` = the rows of its view.
Contract: a delta is added to the changes of its epoch after the circuit's step and before the log's
record: it is logged, replayed, flushed and rolled back like any row, and never derived twice. The
rows of the outbox change no view. A view that is filled anew owes its sinks the difference: what
they know is stored with the new rows, in the same transaction, and settled in the next epoch.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ivm.engine.feeds.backlog import Backlog
from ivm.engine.feeds.outbox_rows import (
    OUTBOX,
    OWED,
    SINKS,
    Key,
    Part,
    Sink,
    packed,
    part_of,
    parts_put,
    parts_removed,
    put_parts,
    put_sinks,
    remove_parts,
    remove_sinks,
    sinks_put,
    sinks_removed,
    sinks_stored,
    unpacked,
)
from ivm.engine.tables.stored_tables import StoredTables
from ivm.storage.log.change import TableChange
from ivm.storage.log.commit import Commit
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.types import Schema
from ivm.storage.values.zset import ZSet, add, empty
from ivm.storage.warehouse.duckdb.duck import Cursor, rows


class Lag(NamedTuple):
    """What a sink has not acknowledged yet."""

    epochs: int
    rows: int


class Outbox:
    """The sinks of one database and what they still have to get; safe for any number of threads.

    Args:
        tables: the tables as stored, for the payloads that are no longer in memory.

    Attributes:
        sinks: all sinks by their names; replaced, never changed.
        replaying: records are replayed, which have their rows already.
    """

    def __init__(self, tables: StoredTables) -> None:
        self._tables = tables
        self._catalog = tables.catalog
        self.sinks: dict[str, Sink] = {}
        self.replaying = False
        self._backlogs: dict[str, Backlog] = {}
        self._owed: dict[str, list[tuple[int, ZSet]]] = {}
        self._outdated: set[str] = set()
        self._changed = threading.Condition()

    # -- sinks ----------------------------------------------------------------------------------

    def with_changes(self, changes: Iterable[TableChange]) -> dict[str, Sink]:
        """The sinks after changes that are not committed yet."""
        sinks = self.sinks
        for change in changes:
            if change.table == SINKS:
                sinks = _after(sinks, change)
        return sinks

    def is_current(self, sink: Sink) -> bool:
        """Whether it is still there, and not another one of its name."""
        found = self.sinks.get(sink.name)
        return found is not None and found.identity is sink.identity

    def of_views(self, names: Iterable[str], changes: Iterable[TableChange] = ()) -> list[Sink]:
        """The sinks of these views, after changes that are not committed yet."""
        wanted = set(names)
        return [sink for sink in self.with_changes(changes).values() if sink.view in wanted]

    def concern(self, recomputed: Iterable[str], changes: Iterable[TableChange] = ()) -> bool:
        """Returns whether a sink's view is one of these recomputed views, or above one.

        Args:
            recomputed: names of recomputed views.
            changes: of the open transaction, which may make sinks.
        """
        wanted = set(recomputed)
        views, sinks = self._catalog.views, self.with_changes(changes)
        watched = [views[sink.view] for sink in sinks.values() if sink.view in views]
        return any(v.name in wanted or wanted.intersection(v.recomputed_below) for v in watched)

    def removal(self, sinks: Sequence[Sink], changes: Iterable[TableChange]) -> list[TableChange]:
        """The changes that drop sinks and their rows of the outbox.

        Args:
            sinks: to drop.
            changes: of the transaction so far.
        """
        names = {sink.name for sink in sinks}
        made = [p for c in changes if c.table == OUTBOX for p in parts_put(c) if p.sink in names]
        keys = [key for sink in sinks for key in self._keys(sink)]
        keys += [(part.sink, part.epoch, part.part) for part in made]
        return [remove_sinks(sorted(names)), *remove_parts(keys)] if names else []

    def acknowledgement(self, sink: Sink, through: int) -> list[TableChange]:
        """The changes by which a sink has all epochs up to one for good."""
        keys = remove_parts(self._keys(sink, through))
        return [put_sinks([replace(sink, acknowledged=through)], known=True), *keys]

    def _keys(self, sink: Sink, through: int | None = None) -> list[Key]:
        """The keys of a sink's rows, all or those of the epochs up to one."""
        with self._changed:
            backlog = self._backlogs.get(sink.name) or Backlog()
            return [(sink.name, *key) for key in backlog.keys(through)]

    # -- an epoch -------------------------------------------------------------------------------

    def derive(
        self, epoch: int, deltas: Mapping[str, ZSet], changes: Sequence[TableChange]
    ) -> list[TableChange]:
        """The rows of the outbox that belong to an epoch about to be committed.

        Args:
            epoch: its number.
            deltas: of the views.
            changes: of the epoch; a sink that it makes gets the deltas.
        """
        if not deltas or self.replaying:
            return []
        sinks = self.with_changes(changes)
        if not sinks:
            return []
        found: list[Part] = []
        payloads: dict[str, tuple[ZSet, bytes]] = {}
        for sink in sinks.values():
            if sink.view in deltas:
                if sink.view not in payloads:
                    payloads[sink.view] = self._packed(sink.view, deltas[sink.view])
                delta, payload = payloads[sink.view]
                if len(delta):
                    found.append(part_of(sink.name, epoch, 0, delta, payload))
        return [put_parts(found)] if found else []

    def _packed(self, view: str, delta: ZSet) -> tuple[ZSet, bytes]:
        schema = self._catalog.version.relation_schema(view)
        net = consolidate(delta, [type for _, type in schema])
        return net, packed(net, schema)

    def follow(self, commit: Commit) -> None:
        """Adopts the changes of the sinks' tables."""
        own = [change for change in commit.changes if change.table in (SINKS, OUTBOX)]
        if not own:
            return
        with self._changed:
            sinks = self.sinks
            for change in own:
                if change.table == SINKS:
                    sinks = self._follow_sinks(sinks, change)
                else:
                    self._follow_parts(sinks, change)
            self.sinks = sinks  # at once: it is read without the lock
            self._changed.notify_all()

    def _follow_sinks(self, before: dict[str, Sink], change: TableChange) -> dict[str, Sink]:
        sinks = _after(before, change)
        for name in sinks.keys() - before.keys():
            self._expect(sinks[name])
        for name in before.keys() - sinks.keys():
            self._backlogs.pop(name, None)
            self._owed.pop(name, None)
        return sinks

    def _expect(self, sink: Sink) -> None:
        """Notes that a sink made by a replayed record knows what the outbox has for it alone."""
        if sink.view in self._outdated:
            types = [type for _, type in self._schema(sink)]
            self._owed[sink.name] = [(_NEVER, empty(types))]

    def _follow_parts(self, sinks: Mapping[str, Sink], change: TableChange) -> None:
        passed: dict[str, int] = {}
        for name, epoch, part in parts_removed(change):
            if part == OWED:
                self._owed.pop(name, None)
            else:
                passed[name] = max(epoch, passed.get(name, epoch))
        for name, epoch in passed.items():
            if name in self._backlogs:
                self._backlogs[name].drop(epoch)
        for added in parts_put(change):
            self._put(sinks[added.sink], added)

    def _put(self, sink: Sink, part: Part) -> None:
        owed = self._owed.get(part.sink)
        if part.part == OWED:
            known = unpacked(part.payload, self._schema(sink))
            self._owed[part.sink] = [(part.epoch, known)]
            return
        self._backlogs.setdefault(part.sink, Backlog()).put(part)
        if owed is not None and part.epoch > owed[0][0]:
            owed.append((part.epoch, unpacked(part.payload, self._schema(sink))))

    def _schema(self, sink: Sink) -> Schema:
        """The columns of the view, which an open transaction may be about to drop."""
        return self._catalog.version.committed_views[sink.view].schema

    # -- opening --------------------------------------------------------------------------------

    def load(self, cursor: Cursor) -> None:
        """Reads the sinks and the keys of their rows, as they are stored."""
        if OUTBOX not in self._catalog.tables:
            return
        self.sinks = {sink.name: sink for sink in sinks_stored(cursor)}
        keys = f"SELECT sink, epoch, part, rows FROM {OUTBOX} WHERE part <> {OWED}"
        for name, *key in rows(cursor, f"{keys} ORDER BY epoch, part"):
            self._backlogs.setdefault(name, Backlog()).add(*key)

    def load_owed(self, cursor: Cursor, view: str) -> None:
        """Reads what a view owes its sinks; it is in the catalog by now."""
        for sink in self.of_views([view]):
            owed = f"SELECT {_COLUMNS} FROM {OUTBOX} WHERE part = {OWED} AND sink = $1"
            for row in rows(cursor, owed, [sink.name]):
                self._put(sink, Part(*row))

    # -- views that are filled anew -------------------------------------------------------------

    def outdate(self, views: Iterable[str]) -> None:
        """Notes that these views will not have the rows that replayed records give their sinks."""
        self._outdated.update(views)

    def owe(
        self, before: Mapping[str, tuple[int, ZSet]], changes: Iterable[TableChange] = ()
    ) -> list[TableChange]:
        """The change that stores what the sinks of views know of them.

        Args:
            before: the rows of each view, and the epoch that they are of.
            changes: of the transaction so far.
        """
        found = []
        for sink in self.of_views(before, changes):
            if sink.name not in self._owed:
                epoch, known = before[sink.view]
                payload = packed(known, self._schema(sink))
                found.append(part_of(sink.name, epoch, OWED, known, payload))
        return [put_parts(found)] if found else []

    def settlement(self, epoch: int) -> list[TableChange]:
        """The changes that give sinks what views owe them, in an epoch of their own."""
        self._outdated.clear()
        if OUTBOX not in self._catalog.tables:
            return []
        self._tables.flush([OUTBOX])
        found = []
        for name, known in list(self._owed.items()):
            sink = self.sinks[name]
            types = [type for _, type in self._schema(sink)]
            self._tables.flush([sink.view])
            now = self._tables.content(sink.view)
            delta = consolidate(add([now, *[rows.negate() for _, rows in known]]), types)
            if known[0][0] == _NEVER:  # not stored
                del self._owed[name]
            if len(delta):
                payload = packed(delta, self._schema(sink))
                found.append(part_of(name, epoch, 0, delta, payload))
        return [*remove_parts(self._stored_owed()), *([put_parts(found)] if found else [])]

    def _stored_owed(self) -> list[Key]:
        """The keys of what is stored as owed, to sinks that were dropped meanwhile, too."""
        with contextlib.closing(self._tables.warehouse.cursor()) as cursor:
            return rows(cursor, f"SELECT sink, epoch, part FROM {OUTBOX} WHERE part = {OWED}")

    # -- reading --------------------------------------------------------------------------------

    def lag(self, sink: Sink) -> Lag:
        """What the sink has not acknowledged."""
        with self._changed:
            backlog = self._backlogs.get(sink.name)
            return Lag(0, 0) if backlog is None else Lag(len(set(backlog.epochs)), backlog.rows)

    def wait(self, name: str, after: int, timeout: float) -> None:
        """Waits until a sink has rows after an epoch, or `wake`; at most `timeout` seconds."""
        with self._changed:
            if not self._has_more(name, after):
                self._changed.wait(timeout)

    def wake(self) -> None:
        """Ends all waits."""
        with self._changed:
            self._changed.notify_all()

    def _has_more(self, name: str, after: int) -> bool:
        backlog = self._backlogs.get(name)
        return backlog is not None and len(backlog) > 0 and backlog.epochs[-1] > after

    def next(self, sink: Sink, after: int, most: int) -> Iterator[tuple[Part, ZSet]]:
        """The sink's rows after an epoch: whole epochs, in order, of at least `most` rows in all.

        Args:
            sink: of this outbox.
            after: an epoch.
            most: rows of deltas beyond which no further epoch is begun.
        """
        with self._changed:
            found = self._backlogs.get(sink.name) if self.is_current(sink) else None
            backlog = found or Backlog()
            parts: Iterable[Part] | None = backlog.recent(after, most)
            last = backlog.last_of(after, most)
            size = backlog.rows_of(after, last)
        if parts is None:
            parts = self._stored(sink, after, last, whole=size <= 2 * most)
        schema = self._schema(sink)
        for part in parts:
            if not self.is_current(sink):  # what was read may be another's
                return
            yield part, unpacked(part.payload, schema)

    def _stored(self, sink: Sink, after: int, last: int, *, whole: bool) -> Iterator[Part]:
        """Reads rows of the table, all at once or one payload at a time."""
        self._tables.flush([OUTBOX])
        with contextlib.closing(self._tables.warehouse.cursor()) as cursor:
            condition = f"sink = $1 AND part <> {OWED} AND epoch > $2 AND epoch <= $3"
            listed = f"FROM {OUTBOX} WHERE {condition} ORDER BY epoch, part"
            given = [sink.name, after, last]
            if whole:
                for row in rows(cursor, f"SELECT {_COLUMNS} {listed}", given):
                    yield Part(*row)
                return
            one = f"SELECT {_COLUMNS} FROM {OUTBOX} WHERE sink = $1 AND epoch = $2 AND part = $3"
            for key in rows(cursor, f"SELECT epoch, part {listed}", given):
                for row in rows(cursor, one, [sink.name, *key]):
                    yield Part(*row)


def _after(sinks: Mapping[str, Sink], change: TableChange) -> dict[str, Sink]:
    """The sinks after a change of `_ivm.sinks`."""
    gone = {name: sinks[name] for name in sinks_removed(change) if name in sinks}
    kept = {name: sink for name, sink in sinks.items() if name not in gone}
    return kept | {sink.name: _as(gone, sink) for sink in sinks_put(change)}


def _as(known: Mapping[str, Sink], sink: Sink) -> Sink:
    """A sink that takes the place of one of its name."""
    return replace(sink, identity=known[sink.name].identity) if sink.name in known else sink


_NEVER = -1
_COLUMNS = "sink, epoch, part, system.main.epoch_us(time), rows, payload"
