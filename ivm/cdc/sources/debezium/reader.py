"""Reads what Debezium's engine gives: first copies of the tables, then the stream of changes.

Law: a batch ends where no transaction is open upstream, and its position is the place of its last
event, in Debezium's words. The engine begins at the committed place, whatever it has read before.

The first batch has no events and says that the source has begun; the engine begins after its
commit, so what the engine leaves upstream is known to be the source's.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from ivm.cdc.sources.debezium import copying
from ivm.cdc.sources.debezium.copying import Copy
from ivm.cdc.sources.debezium.engine import Engine, Given
from ivm.cdc.sources.debezium.leftovers import remove
from ivm.cdc.sources.debezium.parts import DebeziumPart, emptied, parts_of
from ivm.cdc.sources.debezium.places import HISTORY, Places, is_complete, place_of, places_in
from ivm.cdc.sources.debezium.properties import (
    captured,
    engine_properties,
    leaves,
    prefix_of,
    slot_of,
    slot_properties,
)
from ivm.cdc.sources.debezium.records import Events, Known, events_of
from ivm.cdc.sources.source import Batch, Position

if TYPE_CHECKING:
    from ivm.cdc.sources.debezium.debezium import Debezium

_QUIET = 1.0
"""Seconds without an event after which all is taken to be read: the engine tells no end."""


class DebeziumReader:
    """See `Reader`.

    Args:
        source: the definition.
        properties: of the user, secrets included.
        name: of the source.
        into: our table, if INTO names one.
        positions: as they were committed.
    """

    def __init__(
        self,
        source: Debezium,
        properties: Mapping[str, str],
        name: str,
        into: str | None,
        positions: Mapping[str, Position],
    ) -> None:
        self._source, self._properties, self._name, self._into = source, properties, name, into
        self._envelope = source.envelope()
        self._known = Known()
        self._engine: Engine | None = None
        self._places: Places | None = None
        self._held: list[Events] = []  # whose last transaction has not ended
        self._count = max((at.offset for at in positions.values()), default=0)
        self._place = places_in(positions)
        self._given: deque[tuple[int, Given, int]] = deque()  # to be acknowledged, by our count
        self._quiet_since = time.monotonic()
        stored = Copy.of(positions)
        self._copy = stored or Copy(captured(source.properties))
        self._copy.demand(captured(source.properties))
        self._begun: set[str] = set()  # tables of which the engine has given copied rows
        self._first = not self._copy.done
        self._committed = threading.Event()
        self._slot = slot_of(name, self._copy.token)
        if self._copy.done:
            self._start(positions[HISTORY].detail if HISTORY in positions else "")
        elif stored is not None and leaves(source.connector, properties):
            remove(self._slot, name, properties)

    def read(self, limit: int, timeout: float) -> Batch | None:
        """See `Reader`."""
        if self._first:
            self._first = False
            parts = [emptied(table, self._envelope, "") for table in self._copy.tables]
            return Batch(parts, {copying.STREAM: self._copy_position()})
        if self._engine is None:
            if not self._committed.wait(timeout):
                return None
            self._start("")
        self._gather(limit, timeout)
        events = self._whole()
        return self._batch(events) if events else None

    def confirm(self, positions: Mapping[str, Position]) -> None:
        """See `Reader`."""
        self._committed.set()
        reached, last = max(at.offset for at in positions.values()), None
        while self._given and self._given[0][0] <= reached:
            last = self._given.popleft()
        if last is not None:
            last[1].confirm(last[2])

    def lag(self) -> int | None:
        """See `Reader`; the engine does not tell."""
        return None

    def caught_up(self) -> bool:
        """See `Reader`."""
        if self._engine is None or self._held or time.monotonic() - self._quiet_since < _QUIET:
            return False
        return self._engine.streams

    def close(self) -> None:
        """See `Reader`."""
        if self._engine is not None:
            self._engine.close()
        if self._places is not None:
            self._places.remove()

    def _start(self, history: str) -> None:
        connector = self._source.connector
        self._places = Places(prefix_of(self._name), self._place, history)
        more = dict(self._places.properties)
        if leaves(connector, self._properties):
            more.update(slot_properties(self._slot, copies=not self._copy.done))
        self._engine = Engine(engine_properties(connector, self._name, self._properties, more))
        try:
            self._engine.begin()
        except BaseException:
            self.close()
            raise
        self._quiet_since = time.monotonic()

    def _gather(self, limit: int, timeout: float) -> None:
        """Takes what the engine has, about as many events as the limit."""
        assert self._engine is not None
        found = 0
        while found < limit:
            given = self._engine.next(0 if found else timeout)
            if given is None:
                return
            is_open = bool(self._held) and not self._held[-1].ends[-1]
            events = events_of(given, self._known, is_open)
            self._held.append(events)
            if (events.tables >= 0).any():  # heartbeats come also when nothing changes
                self._quiet_since = time.monotonic()
            found += len(given)

    def _whole(self) -> list[Events]:
        """Takes as many of the events held as end with a transaction, and have one schema a table.

        Only where one transaction has several of a table, they are given together.
        """
        if not self._held:
            return []
        ends = np.concatenate([events.ends for events in self._held]).nonzero()[0]
        if not len(ends):
            return []
        end = ends[-1]
        change = _first_change(self._held)
        if change is not None and change <= end:
            before = ends[ends < change]
            end = before[-1] if len(before) else ends[0]
        return self._take(int(end) + 1)

    def _take(self, count: int) -> list[Events]:
        taken: list[Events] = []
        while count:
            events = self._held.pop(0)
            if count < len(events):
                self._held.insert(0, events.cut(count, len(events)))
                events = events.cut(0, count)
            taken.append(events)
            count -= len(events)
        return taken

    def _batch(self, events: list[Events]) -> Batch | None:
        last = events[-1]
        number = last.first + len(last) - 1
        stream, place = place_of(last.given.events.get(number))
        before = self._copy
        parts = self._parts(events, stream)
        if is_complete(place):
            self._copy = self._copy.finished()
        if not parts and self._copy == before and self._place.get(stream) == place:
            return None
        self._count += sum(map(len, events))
        positions = {} if self._copy == before else {copying.STREAM: self._copy_position()}
        if self._copy.done:
            self._place[stream] = place
            positions[stream] = Position(self._count, place)
            self._given.append((self._count, last.given, number))
            if self._places is not None and (history := self._places.history()) is not None:
                positions[HISTORY] = Position(self._count, history)
        elif not positions:
            positions[copying.STREAM] = self._copy_position()
        newest = max(each.newest for each in events)
        return Batch(
            parts, positions, datetime.fromtimestamp(newest / 1000, UTC) if newest else None
        )

    def _parts(self, events: list[Events], stream: str) -> list[DebeziumPart]:
        tables: dict[int, str] = {}
        for number in np.unique(np.concatenate([each.tables for each in events])).tolist():
            if number >= 0:
                name = self._known.tables[number]
                tables[number], self._copy = self._copy.with_table(name, self._into)
        parts = parts_of(events, tables, self._known, self._envelope, (stream, self._count))
        copied = {int(i) for each in events for i in np.unique(each.tables[each.copied])}
        new = {tables[number] for number in copied} - self._begun
        self._begun |= new
        return [replace(part, empties=part.table in new) for part in parts]

    def _copy_position(self) -> Position:
        self._count += 1
        return Position(self._count, self._copy.detail)


def _first_change(held: list[Events]) -> int | None:
    """The number of the first event whose schema is not that of its table's events before it."""
    tables = np.concatenate([events.tables for events in held])
    shapes = np.concatenate([events.shapes for events in held])
    order = np.argsort(tables, kind="stable")
    of, by = tables[order], shapes[order]
    changed = (of[1:] == of[:-1]) & (by[1:] != by[:-1]) & (of[1:] >= 0)
    return int(order[1:][changed].min()) if changed.any() else None
