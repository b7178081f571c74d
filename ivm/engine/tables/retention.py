"""Retention: rows that are older than their table keeps them, found by their time.

Law: `ExpiringRows.due(t, n)` gives rows of the table whose time is before t, if there are some.
Contract: the table is not read at each tick. The oldest of its rows are held in memory, up to a
bound on their time that is some ticks ahead; they follow the commits, and when the bound is passed
the next ones are read from a snapshot, beside the writers: twice as many as have come since the
ones before were read, so that a busy table does not grow.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ivm.engine.tables.key_indexes import KeyIndexes
from ivm.engine.tables.row_times import INFINITY
from ivm.engine.tables.stored_tables import StoredTables
from ivm.engine.tables.watermarks import Watermarks
from ivm.ingest.snapshot import Snapshot
from ivm.sql.statements.own.retention import BEHIND
from ivm.storage.arrangement.arrangement import Arrangement, Layout
from ivm.storage.log.change import TableChange
from ivm.storage.log.commit import Commit
from ivm.storage.values.column import FixedColumn
from ivm.storage.values.consolidate import consolidate
from ivm.storage.values.zset import ZSet, add
from ivm.storage.warehouse.duckdb.duck import Cursor, rows
from ivm.storage.warehouse.tables.table_info import TableInfo

TABLE = "_ivm.retention"
COLUMNS = '(relation VARCHAR NOT NULL, "column" VARCHAR NOT NULL, retain VARCHAR NOT NULL)'
HELD = 200_000
"""Rows of a table that are read ahead at least, about, if there are so many."""
AHEAD = 3600 * 1_000_000
"""The microseconds that are read ahead at most, so that a small table is not held whole."""

_MINUTE = 60 * 1_000_000
_EXISTS = """
SELECT 1 FROM system.main.duckdb_tables() WHERE database_name = $1 AND schema_name = '_ivm'
AND table_name = 'retention'
"""
_UNITS: Mapping[str, str] = {
    "TIMESTAMP WITH TIME ZONE": "system.main.epoch_us(t)",
    "TIMESTAMP": "system.main.epoch_us(CAST(t AS TIMESTAMP))",
    "DATE": "CAST(t AS DATE) - DATE '1970-01-01'"
    " + CASE WHEN CAST(CAST(t AS DATE) AS TIMESTAMP) < CAST(t AS TIMESTAMP) THEN 1 ELSE 0 END",
}


class Rule(NamedTuple):
    """How long a table keeps its rows.

    Attributes:
        table: canonical name.
        column: the name of the column that tells a row's time.
        retain: the length of time, as DuckDB writes an INTERVAL, and from when it counts.
    """

    table: str
    column: str
    retain: str

    @property
    def behind(self) -> bool:
        """Returns whether the length counts from the table's watermark, and not from now."""
        return self.retain.endswith(BEHIND)

    @property
    def length(self) -> str:
        """The length of time alone."""
        return self.retain.removesuffix(BEHIND)


class ExpiringRows:
    """The rows of one table whose time is before a bound; callers of `due` hold the writer lock.

    Args:
        info: the table.
        at: position of the column that tells a row's time.
        columns: positions of the columns to hold, ascending: those that a removal needs.
        wanted: how many rows to hold, about.

    Attributes:
        bound: rows whose time is not before it are not held.
        outdated: whether its rows are no longer those of the table.
        done: whether all its rows have gone.
        come: how many rows have come since some were last removed.
        come_in_all: since these were read.
        complete: whether what `due` gave last was all that was due.
        waits: whether final views wait for what is made of the oldest rows that are due.
    """

    def __init__(self, info: TableInfo, at: int, columns: Sequence[int], wanted: int) -> None:
        self.info = info
        self.columns = tuple(columns)
        self.wanted = wanted
        self._at = self.columns.index(at)
        self._types = tuple([info.schema[i][1] for i in columns])
        self._rows = Arrangement.empty(Layout(self._types, (self._at,)))
        dtype = self._types[self._at].dtype
        assert dtype is not None
        self._least = int(np.iinfo(dtype).min)
        self._floor = self._least  # rows before it are in `_late` alone
        self._late: list[ZSet] = []
        self._since: deque[TableChange] = deque()
        self.bound = self._least
        self.outdated = self.done = self.complete = self.waits = False
        self.come = self.come_in_all = 0

    def note(self, change: TableChange) -> None:
        """Notes a committed change of the table."""
        self._since.append(change)
        self.come += len(change.added)
        self.come_in_all += len(change.added)

    def fill(self, batches: Iterable[ZSet], bound: int) -> None:
        """Takes the rows of a snapshot, made when the first change was noted, before a bound."""
        self.bound = bound
        for batch in batches:
            self._add(batch)

    def due(self, before: int, most: int) -> ZSet:
        """Some of the rows whose time is before a value, the oldest, at most so many."""
        self.catch_up()
        self.complete = True
        before = min(before, self.bound)
        while self._floor < before or self._late:
            until = self._cut(before, 2 * most)
            late = consolidate(add(self._late), self._types) if self._late else None
            self._late = [late] if late is not None and len(late) else []
            # Before the floor, since the bound may go back: it then does not pass all of them.
            pieces = [*self._between(self._floor, until), *self._before(until)]
            found = consolidate(add(pieces), self._types) if pieces else self._rows.layout.zero
            found = found.filter(found.weights > 0)
            self.complete = until >= before and len(found) <= most
            if len(found):
                order = np.argsort(self._times(found).values, kind="stable")
                return found.take(order[:most])
            if self._floor >= before:
                break
            self._floor = until
        return self._rows.layout.zero

    def catch_up(self) -> None:
        """Adds the changes noted so far."""
        while self._since:
            change = self._since.popleft()
            if len(change.removed):
                if not set(self.columns) <= set(change.removed_columns):
                    self.outdated = True  # it is not known which rows have gone
                    return
                positions = [change.removed_columns.index(i) for i in self.columns]
                self._add(change.removed.project(positions).negate())
            if len(change.added):
                self._add(change.added.project(self.columns))

    def _before(self, until: int) -> list[ZSet]:
        return [rows.filter(self._times(rows).values < until) for rows in self._late]

    def _times(self, batch: ZSet) -> FixedColumn:
        column = batch.columns[self._at]
        assert isinstance(column, FixedColumn)
        return column

    def _add(self, batch: ZSet) -> None:
        times = self._times(batch)
        held = times.values < self.bound
        if times.valid is not None:
            held &= times.valid
        late = held & (times.values < self._floor)
        if late.any():
            self._late.append(batch.filter(late))
            held &= ~late
        if held.any():
            self._rows = self._rows.append(batch.filter(held).dictionary_encoded())

    def _cut(self, before: int, most: int) -> int:
        """A time up to which each run has about so many entries at most."""
        for run in self._rows.sorted_runs:
            start, stop = run.codes.searchsorted(self._codes(self._floor, before))
            if stop - start > most:
                before = max(int(run.codes[start + most]), self._floor + 1)
        return before

    def _between(self, floor: int, until: int) -> list[ZSet]:
        found = []
        for run in self._rows.sorted_runs:
            start, stop = run.codes.searchsorted(self._codes(floor, until))
            if stop > start:
                found.append(run.slice(int(start), int(stop)))
        return found

    def _codes(self, *times: int) -> np.ndarray[tuple[int], np.dtype[np.signedinteger]]:
        return np.array(times, self._types[self._at].dtype)


class Retention:
    """The rules of one database, and the rows that come next; safe for any number of threads.

    Args:
        tables: the tables as stored.
        indexes: whose columns a removal has too.
        columns_read: positions of the columns of a table that views need.
        watermarks: of the tables.

    Attributes:
        rules: by the tables' canonical names; replaced, never changed.
        reading: held while a snapshot is, which keeps DuckDB from altering its table.
    """

    def __init__(
        self,
        tables: StoredTables,
        indexes: KeyIndexes,
        columns_read: Callable[[str], frozenset[int]],
        watermarks: Watermarks,
    ) -> None:
        self._watermarks = watermarks
        self._tables = tables
        self._warehouse, self._catalog = tables.warehouse, tables.catalog
        self._indexes = indexes
        self._columns_read = columns_read
        self.rules: Mapping[str, Rule] = {}
        self.reading = threading.Lock()
        self._expiring: dict[str, ExpiringRows] = {}
        self._thresholds: dict[Rule, tuple[int, str, int | None]] = {}

    def load(self, cursor: Cursor) -> None:
        """Reads the rules as the cursor sees them; callers hold the writer lock."""
        before, stored = self.rules, stored_rules(cursor, self._catalog.database)
        self.rules = {rule.table: rule for rule in stored if self._applies(rule)}
        for table, held in list(self._expiring.items()):
            same = self.rules.get(table) == before.get(table)
            if not same or self._catalog.tables.get(table) != held.info:
                del self._expiring[table]

    def _applies(self, rule: Rule) -> bool:
        """Returns whether the table and its column are there; another program may have altered it.

        Such a rule rests until its table is as it was, or has another rule.
        """
        return self._type(rule) is not None

    def _type(self, rule: Rule) -> str | None:
        """The type of the column that tells a row's time; None if there is no such column."""
        info = self._catalog.tables.get(rule.table)
        at = None if info is None else info.position(rule.column)
        type = None if info is None or at is None else info.schema[at][1].sql
        return type if type in _UNITS else None

    def columns(self, table: str) -> frozenset[int]:
        """The positions of the columns that must be known of each row that goes."""
        rule, info = self.rules.get(table), self._catalog.tables.get(table)
        at = None if rule is None or info is None else info.position(rule.column)
        return frozenset() if at is None else frozenset((at,))

    def follow(self, commit: Commit) -> None:
        """Notes committed changes."""
        if self._expiring:
            for change in commit.changes:
                if (held := self._expiring.get(change.table)) is not None:
                    held.note(change)

    def threshold(self, rule: Rule, now: int, cursor: Cursor) -> int | None:
        """The time before which rows go, in the unit of their column.

        Args:
            now: microseconds since 1970.
            cursor: computes it, once a minute: within one no time zone has another offset.

        Returns:
            None where DDL has just taken the column, and while there is no watermark to count from.
        """
        type, last = self._type(rule), self._watermark(rule) if rule.behind else now
        if type is None or last is None:
            return None
        begin = last if rule.behind or type == "DATE" else last // _MINUTE * _MINUTE
        known = self._thresholds.get(rule)
        if known is None or known[:2] != (begin, type):
            zoned = not rule.behind or type == "TIMESTAMP WITH TIME ZONE"
            time = "make_timestamptz" if zoned else "make_timestamp"
            sql = (
                f"SELECT {_UNITS[type]} FROM (SELECT"
                f" TRY(system.main.{time}($1) - CAST($2 AS INTERVAL)) AS t)"
            )
            with self._warehouse.zone.on(cursor):
                ((found,),) = rows(cursor, sql, [begin, rule.length])
            known = self._thresholds[rule] = begin, type, found
        return None if known[2] is None else known[2] + last - begin

    def _watermark(self, rule: Rule) -> int | None:
        """The watermark that a rule counts from; the end of a stream takes no rows along."""
        mark = self._watermarks.known.get(rule.table)
        if mark is None or mark.column != rule.column or mark.at == INFINITY:
            return None
        return mark.at

    def held(self, rule: Rule) -> ExpiringRows | None:
        """The rows that come next; None if they are to be read."""
        held, info = self._expiring.get(rule.table), self._catalog.tables.get(rule.table)
        if held is None or held.outdated or info is None:
            return None
        known = self._indexes.find(rule.table)
        needed = self._needed(info)
        wider = known is not None and not set(known.columns) <= set(held.columns)
        return None if wider or not needed <= set(held.columns) else held

    def begin(self, rule: Rule) -> tuple[ExpiringRows, Snapshot]:
        """Begins to read the rows that come next; callers hold the writer lock and `reading`."""
        info = self._catalog.tables[rule.table]
        at = _at(info, rule)
        known = self._indexes.find(rule.table)
        columns = self._needed(info) | set(() if known is None else known.columns)
        snapshot = self._tables.snapshot(rule.table)
        before = self._expiring.get(rule.table)
        wanted = HELD if before is None else max(HELD, 2 * before.come_in_all)
        held = self._expiring[rule.table] = ExpiringRows(info, at, sorted(columns), wanted)
        return held, snapshot

    def read(self, rule: Rule, held: ExpiringRows, snapshot: Snapshot, threshold: int) -> None:
        """Reads the rows that come next, and releases the snapshot."""
        try:
            at = _at(held.info, rule)
            unit = 86_400_000_000 if held.info.schema[at][1].sql == "DATE" else 1
            most = threshold + max(AHEAD // unit, 1)
            bound = snapshot.nth(at, most, held.wanted)
            held.fill(snapshot.before(held.columns, at, bound), bound)
        except BaseException:
            held.outdated = True
            raise
        finally:
            snapshot.release()

    def _needed(self, info: TableInfo) -> set[int]:
        if not info.primary_key:
            return set(range(len(info.schema)))
        return {*info.primary_key, *self._columns_read(info.name), *self.columns(info.name)}


def _at(info: TableInfo, rule: Rule) -> int:
    """The position of the column that tells a row's time."""
    at = info.position(rule.column)
    assert at is not None
    return at


def stored_rules(cursor: Cursor, database: str) -> list[Rule]:
    """The rules in the file, as the cursor sees them."""
    if not rows(cursor, _EXISTS, [database]):
        return []
    return [Rule(*row) for row in rows(cursor, f"FROM {TABLE}")]
