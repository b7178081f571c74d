"""Watermarks: how far the time of a table's rows has come, as rows of a table that change with it.

Law: W of a table = its greatest time so far − its delay, and never falls: not by a deletion, a
replay, a copy or another delay. It moves in the epoch whose rows move it, as a change of
`_ivm.watermarks` among the others, so it is logged, replayed and rolled back with them, and read by
views like any table. A row is late if its time is before W as of the epoch before: rows of one
epoch never make each other late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from ivm.catalog.catalog import Catalog
from ivm.engine.tables.row_times import (
    DAY,
    Times,
    before,
    micros,
    spelled,
    time_column,
    within,
)
from ivm.engine.tables.watermark_parts import PARTS, Part, Parts, after, idle_before, slowest
from ivm.engine.tables.watermark_rows import Watermark, read, replacement
from ivm.ingest.table_rules import Check
from ivm.sql.statements.own.watermark_calls import WATERMARKS
from ivm.storage.errors import ConstraintError
from ivm.storage.identifiers import quote
from ivm.storage.log.change import TableChange
from ivm.storage.log.commit import Commit
from ivm.storage.values.column import Column, Indexes, Mask
from ivm.storage.values.zset import from_arrow
from ivm.storage.warehouse.duckdb.duck import Cursor, rows, table
from ivm.storage.warehouse.tables.table_info import TableInfo


class Watermarks:
    """The watermarks of one database; callers hold the writer lock, or read alone.

    Args:
        catalog: has the tables.
        now: gives the microseconds since 1970.
        columns_read: positions of the columns of a table that views need.

    Attributes:
        now: the same.
        known: the committed ones by table; replaced, never changed.
        parts: their committed parts by table, likewise.
    """

    def __init__(
        self,
        catalog: Catalog,
        now: Callable[[], int],
        columns_read: Callable[[str], frozenset[int]],
    ) -> None:
        self._catalog = catalog
        self._columns_read = columns_read
        self.now = now
        self.known: Mapping[str, Watermark] = {}
        self.parts: Mapping[str, Parts] = {}
        self._since: int | None = None

    def load(self, cursor: Cursor) -> None:
        """Reads them as they are stored."""
        if WATERMARKS in self._catalog.tables:
            schema = self._catalog.tables[WATERMARKS].schema
            self.known = read(from_arrow(table(cursor, f"FROM {WATERMARKS}"), schema))
            schema = self._catalog.tables[PARTS].schema
            parts = from_arrow(table(cursor, f"FROM {PARTS}"), schema)
            self.parts = after({}, [TableChange(PARTS, parts.slice(0, 0), (0, 1, 2, 3), parts)])

    def follow(self, commit: Commit) -> None:
        """Adopts the changes of a commit."""
        self.known, self.parts = self.after(commit.changes), after(self.parts, commit.changes)

    def parts_after(self, name: str, changes: Iterable[TableChange]) -> Parts:
        """The parts of a table after changes that are not committed yet."""
        return after(self.parts, changes).get(name, {})

    def after(self, changes: Iterable[TableChange]) -> Mapping[str, Watermark]:
        """The watermarks after changes that are not committed yet."""
        known = self.known
        for change in changes:
            if change.table == WATERMARKS:
                gone = change.removed.columns[change.removed_columns.index(0)]
                names = {gone.cell(i) for i in range(len(change.removed))}
                kept = {name: mark for name, mark in known.items() if name not in names}
                known = kept | read(change.added)
        return known

    def columns(self, table: str) -> frozenset[int]:
        """The positions of the columns that must be known of each row that goes."""
        mark, info = self.known.get(table), self._catalog.tables.get(table)
        if mark is None or info is None:
            return frozenset()
        named = [info.position(name) for name in (mark.column, mark.by) if name is not None]
        return frozenset([at for at in named if at is not None])

    def slowest(self, mark: Watermark, parts: Parts, now: int | None = None) -> int | None:
        """How far the slowest part that is not idle has come; see `watermark_parts.slowest`."""
        return slowest(parts, self.idle_before(mark, now))

    def idle_before(self, mark: Watermark, now: int | None = None) -> int:
        """The time since which a part has a row if it is not idle, in microseconds since 1970."""
        now = self.now() if now is None else now
        since = now if self._since is None else self._since
        return idle_before(now, since, mark.idle_after)

    def begun(self, mark: Watermark, info: TableInfo, cursor: Cursor) -> tuple[int | None, Parts]:
        """The greatest time of a table's rows, and its parts, all of which have just come.

        Args:
            mark: of the table.
            info: the table.
            cursor: sees the rows.
        """
        at, time, now = mark.position(info), quote(mark.column), self.now()
        dated = at is not None and info.schema[at][1].sql == "DATE"
        last = f"system.main.max({time})"
        last = f"{last} - DATE '1970-01-01'" if dated else f"system.main.epoch_us({last})"
        finite = f"FROM {info.qualified} WHERE system.main.isfinite({time})"
        unit = DAY if dated else 1
        if mark.by is None:
            ((found,),) = rows(cursor, f"SELECT {last} {finite}")
            return None if found is None else within(found * unit), {}
        by = quote(mark.by)
        told = f"SELECT CAST({by} AS VARCHAR), {last} {finite} AND {by} IS NOT NULL GROUP BY ALL"
        parts = {name: Part(within(at * unit), now) for name, at in rows(cursor, told)}
        return max([part.greatest for part in parts.values()], default=None), parts

    def idle(self, now: int) -> list[TableChange]:
        """The change by which the watermarks of idle tables go on with the clock.

        Nobody is idle while the database is closed: what has been sent meanwhile is still to come.

        Args:
            now: the microseconds since 1970.
        """
        if self._since is None:
            self._since = now
        since, found = self._since, []
        for name, mark in self.known.items():
            slowest = self.slowest(mark, self.parts.get(name, {}), now)
            found.append((mark, mark.idle(now, since, slowest)))
        return self.replacements(found)

    @property
    def follow_the_clock(self) -> bool:
        """Returns whether one may become idle."""
        return any(mark.idle_after is not None for mark in self.known.values())

    def replacements(self, found: Iterable[tuple[Watermark, Watermark]]) -> list[TableChange]:
        """The changes that put watermarks in the place of others, where they differ."""
        moved = [(old, new) for old, new in found if new is not old]
        columns = sorted({0, *self._columns_read(WATERMARKS)}) if moved else []
        return [replacement(old, new, columns) for old, new in moved]

    def refusals(self, table: str) -> tuple[Check, ...]:
        """The check that a new row of a stream is not late, where late ones are refused."""
        mark, info = self.known.get(table), self._catalog.tables[table]
        position = None if mark is None else mark.position(info)
        if mark is None or mark.at is None or position is None or mark.late == "apply":
            return ()
        found, at, time = mark, mark.at, position

        def holds(columns: Sequence[Column], count: int) -> Mask:
            return ~before(columns[time], at)

        def why(columns: Sequence[Column], rows: Indexes) -> list[str]:
            return _told(found, info, micros(columns[time].take(rows)))

        return (Check(holds, why),)


def late_error(mark: Watermark, info: TableInfo, change: TableChange) -> ConstraintError:
    """The error that a change has late rows; names the earliest."""
    at = mark.position(info)
    assert at is not None
    assert mark.at is not None
    pieces = (change.added, None), (change.removed, change.removed_columns)
    found = [time_column(part, at, columns) for part, columns in pieces]
    late = [micros(column)[before(column, mark.at)] for column in found if column is not None]
    (told,) = _told(mark, info, np.concatenate(late).min(keepdims=True))
    return ConstraintError(
        f"{told}. Its late rows are refused; ALTER TABLE {mark.table} SET WATERMARK FOR … WITH "
        "(late = 'apply') takes them"
    )


def _told(mark: Watermark, info: TableInfo, times: Times) -> list[str]:
    """What is said of late rows, by their times."""
    at = mark.position(info)
    assert at is not None
    assert mark.at is not None
    zone = "+00" if info.schema[at][1].sql == "TIMESTAMP WITH TIME ZONE" else ""
    behind = f"is before the watermark of table {mark.table!r}, {spelled(mark.at)}{zone}"
    first, each = np.unique(times, return_inverse=True)
    texts = [f"late row: its {mark.column} {spelled(t)}{zone} {behind}" for t in first.tolist()]
    return list(map(texts.__getitem__, each.tolist()))
