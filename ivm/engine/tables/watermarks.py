"""Watermarks: how far the time of a table's rows has come, as rows of a table that change with it.

Law: W of a table = its greatest time so far − its delay, and never falls: not by a deletion, a
replay, a copy or another delay. It moves in the epoch whose rows move it, as a change of
`_ivm.watermarks` among the others, so it is logged, replayed and rolled back with them, and read by
views like any table. A row is late if its time is before W as of the epoch before: rows of one
epoch never make each other late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ivm.catalog.catalog import Catalog
from ivm.engine.tables.watermark_rows import Watermark, read, replacement
from ivm.ingest.table_rules import Check
from ivm.sql.statements.own.watermark_calls import WATERMARKS
from ivm.storage.errors import ConstraintError
from ivm.storage.log.change import TableChange
from ivm.storage.log.commit import Commit
from ivm.storage.values.column import Column, FixedColumn, Mask
from ivm.storage.values.zset import ZSet, from_arrow
from ivm.storage.warehouse.duckdb.duck import Cursor, table

TIMED = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "DATE")
"""The types of columns that a watermark can follow."""

Times: TypeAlias = npt.NDArray[np.int64]
"""Times in microseconds since 1970."""

_DAY = 86_400_000_000
_LATEST = np.iinfo(np.int64).max  # `infinity`; its negative is `-infinity`
_DAYS = np.iinfo(np.int32).max  # the same among dates
_NONE: Times = np.zeros(0, np.int64)
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)


class Watermarks:
    """The watermarks of one database; callers of `due` hold the writer lock.

    Args:
        catalog: has the tables.
        now: gives the microseconds since 1970.

    Attributes:
        known: the committed ones by table; replaced, never changed.
    """

    def __init__(self, catalog: Catalog, now: Callable[[], int]) -> None:
        self._catalog = catalog
        self._now = now
        self.known: Mapping[str, Watermark] = {}
        self._next: dict[str, Watermark] = {}
        self._since: int | None = None

    def load(self, cursor: Cursor) -> None:
        """Reads them as they are stored."""
        if WATERMARKS in self._catalog.tables:
            schema = self._catalog.tables[WATERMARKS].schema
            self.known = read(from_arrow(table(cursor, f"FROM {WATERMARKS}"), schema))

    def follow(self, commit: Commit) -> None:
        """Adopts the changes of a commit."""
        self.known = self.after(commit.changes)

    def after(self, changes: Iterable[TableChange]) -> Mapping[str, Watermark]:
        """The watermarks after changes that are not committed yet."""
        known = self.known
        for change in changes:
            if change.table == WATERMARKS:
                for mark in self._next.values():
                    if mark.row is change.added:  # made by `due`, with what is known of it
                        known = {**known, mark.table: mark}
                        break
                else:
                    known = _after(known, change)
        return known

    def columns(self, table: str) -> frozenset[int]:
        """The positions of the columns that must be known of each row that goes."""
        mark = self.known.get(table)
        at = None if mark is None else self._catalog.tables[table].position(mark.column)
        return frozenset() if at is None else frozenset((at,))

    def due(self, changes: Sequence[TableChange], *, aging: bool) -> list[TableChange]:
        """The change by which the watermarks follow a transaction's changes of their tables.

        Args:
            changes: all of the transaction, which may make watermarks too.
            aging: whether the changes remove rows by their age: these are not late.
        """
        known = self.after(changes)
        found = []
        for name, mark in known.items():
            own = [change for change in changes if change.table == name]
            if own:
                found.append((mark, self._after(mark, own, aging=aging)))
        return self._replaced(found)

    def idle(self, now: int) -> list[TableChange]:
        """The change by which the watermarks of idle tables go on with the clock.

        Nobody is idle while the database is closed: what has been sent meanwhile is still to come.

        Args:
            now: the microseconds since 1970.
        """
        if self._since is None:
            self._since = now
        marks, since = self.known.values(), self._since
        return self._replaced([(mark, mark.idle(now, since)) for mark in marks])

    @property
    def follow_the_clock(self) -> bool:
        """Returns whether one may become idle."""
        return any(mark.idle_after is not None for mark in self.known.values())

    def _replaced(self, found: Iterable[tuple[Watermark, Watermark]]) -> list[TableChange]:
        moved = [(old, new) for old, new in found if new is not old]
        self._next = {new.table: new for _, new in moved}
        return [replacement(old, new) for old, new in moved]

    def _after(self, mark: Watermark, changes: Sequence[TableChange], *, aging: bool) -> Watermark:
        added = [self._times(mark, change.added, None) for change in changes]
        gone = [self._times(mark, change.removed, change.removed_columns) for change in changes]
        before = self.known.get(mark.table)
        late = 0
        if not aging and before is not None and before.at is not None:
            at, pairs = before.at, zip(added, gone, strict=True)
            # An update of a late row is one event.
            late = sum([max(_count_before(new, at), _count_before(old, at)) for new, old in pairs])
        return mark.after(_greatest(added, gone), late, self._now)

    def refuse_late(self, change: TableChange) -> None:
        """Refuses late rows where that is the policy of their table.

        Raises:
            ConstraintError: names the first.
        """
        mark = self.known.get(change.table)
        if mark is None or mark.late != "refuse" or mark.at is None:
            return
        for rows_, columns in ((change.added, None), (change.removed, change.removed_columns)):
            times = self._times(mark, rows_, columns)
            if len(times) and int(times.min()) < mark.at:
                raise ConstraintError(
                    f"late row: its {mark.column} {_spelled(int(times.min()))} is before the "
                    f"watermark of table {mark.table!r}, {_spelled(mark.at)}. Its late rows are "
                    f"refused; ALTER TABLE {mark.table} SET WATERMARK FOR … WITH (late = 'apply') "
                    "takes them"
                )

    def refusals(self, table: str) -> tuple[Check, ...]:
        """The check that a new row of a stream is not late, where late ones are refused."""
        mark = self.known.get(table)
        at = None if mark is None else mark.at
        if mark is None or at is None or mark.late != "refuse":
            return ()
        position = self._catalog.tables[table].position(mark.column)
        assert position is not None

        def holds(columns: Sequence[Column], count: int) -> Mask:
            times, valid = _micros(columns[position]), columns[position].valid
            late: Mask = (times < at) & (times != -_LATEST)
            return ~late if valid is None else ~late | ~valid

        return ((f"{mark.column} >= watermark({table!r})", holds),)

    def _times(self, mark: Watermark, rows: ZSet, columns: Sequence[int] | None) -> Times:
        """The finite times of rows in microseconds.

        Args:
            columns: the positions in the table of the rows' columns; None for all.
        """
        info = self._catalog.tables.get(mark.table)
        at = None if info is None or not len(rows) else info.position(mark.column)
        if at is None or info is None or (columns is not None and at not in columns):
            return _NONE
        column = rows.columns[at if columns is None else columns.index(at)]
        values = _micros(column)
        if column.valid is not None:
            values = values[column.valid]
        if len(values) and (values.max() == _LATEST or values.min() == -_LATEST):
            values = values[(values != _LATEST) & (values != -_LATEST)]
        return values


def _count_before(times: Times, at: int) -> int:
    return int((times < at).sum()) if len(times) and int(times.min()) < at else 0


def _greatest(added: Sequence[Times], gone: Sequence[Times]) -> int | None:
    """The greatest time that is added and stays; None if there is none."""
    if len(added) == 1:
        return int(added[0].max()) if len(added[0]) else None
    times, others = np.concatenate(added), np.concatenate(gone)
    if len(others):
        found, each = np.unique(np.concatenate([times, others]), return_inverse=True)
        counts = np.bincount(each[: len(times)], minlength=len(found))
        times = found[counts > np.bincount(each[len(times) :], minlength=len(found))]
    return int(times.max()) if len(times) else None


def _after(known: Mapping[str, Watermark], change: TableChange) -> Mapping[str, Watermark]:
    """The watermarks after a change of their rows."""
    gone = change.removed.columns[change.removed_columns.index(0)]
    names = {gone.cell(i) for i in range(len(change.removed))}
    return {n: mark for n, mark in known.items() if n not in names} | read(change.added)


def _micros(column: Column) -> Times:
    """The times of a column in microseconds since 1970, the infinite ones as DuckDB has them."""
    assert isinstance(column, FixedColumn)
    values = column.values
    if values.dtype.itemsize == 8:
        return values
    micros = values * np.int64(_DAY)
    micros[values == _DAYS], micros[values == -_DAYS] = _LATEST, -_LATEST
    return micros


def _spelled(micros: int) -> str:
    try:
        return str((_BEGIN + timedelta(microseconds=micros)).replace(tzinfo=None))
    except OverflowError:  # before year 1, or after 9999
        return f"{micros} µs after 1970"
