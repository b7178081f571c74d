"""The clock: the time that views read, as rows of a table that change in epochs of their own.

Law: the row of `_ivm.clock` for ticks of some width has the greatest multiple of the width (of
whole days: the begin of a day in the view time zone) that the time had passed at the last tick. So
views of one width see one time, and after a pause of any length the next tick jumps once. The time
never goes back: while the system's clock does, there is no tick.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

from ivm.engine.tables.small_tables import Row, SmallTables
from ivm.engine.tables.stored_tables import StoredTables
from ivm.sql.resolve.clock import CLOCK, DAILY
from ivm.storage.errors import InputError
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import FixedColumn
from ivm.storage.values.zset import ZSet, from_arrow, ones
from ivm.storage.warehouse.duckdb.duck import Cursor, table

SECOND = 1_000_000
DAY = 86_400 * SECOND
_MINUTE = 60 * SECOND  # days begin at whole minutes, wherever

_ROWS = f"""
SELECT tick, now, CAST(now AS TIMESTAMP), CAST(now AS DATE),
    system.main.make_timestamp(system.main.epoch_us(now) // {DAY} * {DAY}),
    CAST(CAST(now AS DATE) AS TIMESTAMPTZ)
FROM (SELECT tick, CASE WHEN tick % {DAY} = 0 THEN CAST(DATE '1970-01-01' + CAST(
        (CAST(system.main.make_timestamptz($2) AS DATE) - DATE '1970-01-01')
        // (tick // {DAY}) * (tick // {DAY}) AS INTEGER) AS TIMESTAMPTZ)
    ELSE system.main.make_timestamptz($2 // tick * tick) END AS now
    FROM (SELECT system.main.unnest($1::BIGINT[]) AS tick)) ORDER BY tick
"""
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_NOW = 1
"""The position of the column `now`."""
_MOVING = (1, 2)
"""The positions of the columns that change within a minute: in it no zone has another offset."""


def default_tick(time_functions: Collection[str]) -> int:
    """The width of the ticks of a view that calls these functions, if its statement names none."""
    return DAY if DAILY.issuperset(time_functions) else SECOND


def spelled_tick(tick: int) -> str:
    """A width of ticks in words, as WITH (tick = …) takes it."""
    for name, size in (("day", DAY), ("hour", 3600 * SECOND), ("minute", _MINUTE)):
        if tick % size == 0:
            return f"{tick // size} {name}{'s' if tick > size else ''}"
    return f"{tick / SECOND:g} second{'' if tick == SECOND else 's'}"


def system_time() -> int:
    """The microseconds since 1970."""
    return time.time_ns() // 1000


def micros_of(clock: Callable[[], datetime]) -> Callable[[], int]:
    """The microseconds since 1970 by a clock of the caller's."""

    def micros() -> int:
        told = clock()
        if not isinstance(told, datetime) or told.tzinfo is None:
            raise InputError(f"a clock tells the time as a datetime with a time zone, not {told!r}")
        return (told - _BEGIN) // timedelta(microseconds=1)

    return micros


class Clock:
    """The clock of one database; callers hold the writer lock, but for `pause` and `ticks`.

    Args:
        tables: the tables as stored.
        small: has the clock's rows in memory.

    Attributes:
        time: gives the microseconds since 1970; replaced where somebody moves the time by hand.
        changed: called when views have come or gone, which may read other ticks.
    """

    def __init__(self, tables: StoredTables, small: SmallTables) -> None:
        self._warehouse, self._catalog = tables.warehouse, tables.catalog
        self._small = small
        self.time: Callable[[], int] = system_time
        self.changed: Callable[[], None] = lambda: None
        self._minute: tuple[tuple[int, tuple[int, ...]], ZSet] | None = None

    def second(self) -> int:
        """The microseconds since 1970 at the begin of this second."""
        return self.time() // SECOND * SECOND

    def ticks(self) -> list[int]:
        """The widths of the ticks that views read, ascending."""
        views = self._catalog.version.committed_views
        return sorted({view.tick for view in views.values() if view.tick is not None})

    def pause(self) -> float | None:
        """The seconds until the next tick; None if nothing reads the clock."""
        now = self.time()
        steps = [tick if tick % DAY else _MINUTE for tick in self.ticks()]
        return min(step - now % step for step in steps) / SECOND if steps else None

    def due(self, cursor: Cursor) -> list[TableChange]:
        """The change of the clock's rows that is due now; none if nothing is.

        Args:
            cursor: computes dates, in the view time zone.
        """
        if CLOCK not in self._catalog.tables:
            return []
        ticks = self.ticks()
        self._small.find(CLOCK, (0,))  # has the rows read
        known = {row[0]: row for row in self._small.rows(CLOCK) or ()}
        found = self._rows(cursor, ticks, self.time())
        new = [
            i
            for i, tick in enumerate(ticks)
            if tick not in known or known[tick][_NOW] < found.columns[_NOW].cell(i)
        ]
        passed = {ticks[i] for i in new} | (known.keys() - set(ticks))
        old = [known[tick] for tick in sorted(passed & known.keys())]
        return _change(self._zset(old), found.take(np.array(new, np.int64)))

    def begun(self, cursor: Cursor, tick: int) -> list[TableChange]:
        """The change by which the clock has a row for ticks that no view reads yet.

        Args:
            cursor: in the transaction that makes the view.
            tick: the width.
        """
        if tick in self.ticks():
            return []
        stored = table(cursor, f"FROM {CLOCK} WHERE tick = $1", [tick])
        old = from_arrow(stored, self._catalog.tables[CLOCK].schema)
        new = self._rows(cursor, [tick], self.time())
        if len(old) and old.columns[_NOW].cell(0) >= new.columns[_NOW].cell(0):
            return []
        return _change(old, new)

    def _rows(self, cursor: Cursor, ticks: Sequence[int], now: int) -> ZSet:
        """The rows of the clock at a time, in the order of the ticks."""
        if not all(tick % _MINUTE == 0 or _MINUTE % tick == 0 for tick in ticks):
            return self._computed(cursor, ticks, now)
        asked = now // _MINUTE, tuple(ticks)
        if self._minute is None or self._minute[0] != asked:
            self._minute = asked, self._computed(cursor, ticks, now)
        found = self._minute[1]
        times = found.columns[_NOW]
        assert isinstance(times, FixedColumn)
        steps = np.array([0 if t % DAY == 0 else now // t * t for t in ticks], np.int64)
        moved, columns = np.where(steps, steps - times.values, 0), list(found.columns)
        for i in _MOVING:
            column = columns[i]
            assert isinstance(column, FixedColumn)
            columns[i] = FixedColumn(column.values + moved)
        return ZSet(tuple(columns), found.weights)

    def _computed(self, cursor: Cursor, ticks: Sequence[int], now: int) -> ZSet:
        with self._warehouse.zone.on(cursor):
            found = table(cursor, _ROWS, [list(ticks), now])
        return from_arrow(found, self._catalog.tables[CLOCK].schema)

    def _zset(self, cells: Sequence[Row]) -> ZSet:
        types = [type for _, type in self._catalog.tables[CLOCK].schema]
        columns = [
            FixedColumn(np.array([row[i] for row in cells], type.dtype))
            for i, type in enumerate(types)
        ]
        return ZSet(tuple(columns), ones(len(cells)))


def _change(old: ZSet, new: ZSet) -> list[TableChange]:
    change = TableChange(CLOCK, old, tuple(range(len(old.columns))), new)
    return [change] if len(change) else []
