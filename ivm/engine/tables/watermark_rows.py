"""A watermark, and its row of `_ivm.watermarks`.

Law: `read(mark.row)` is the watermark.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ivm.engine.tables.row_times import TIMED
from ivm.sql.statements.own.watermark_calls import WATERMARKS
from ivm.storage.log.change import TableChange
from ivm.storage.values import dictionary
from ivm.storage.values.column import ArrowColumn, Column, DictionaryColumn, FixedColumn
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import ZSet, empty, ones
from ivm.storage.warehouse.tables.table_info import TableInfo

_TYPES = tuple(
    [
        type_of(sql)
        for sql in (
            *("VARCHAR", "VARCHAR", "BIGINT", "VARCHAR", "BIGINT"),
            *("TIMESTAMP", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "BIGINT", "VARCHAR"),
        )
    ]
)
_ALL = tuple(range(len(_TYPES)))
_FIRST = -9_223_372_022_400_000_000
"""The first time that a TIMESTAMP can have, in microseconds since 1970."""
_LAST = 2**63 - 2
"""The last one."""


@dataclass(frozen=True)
class Watermark:
    """The watermark of one table.

    Attributes:
        table: canonical name.
        column: the name of the column that tells a row's time.
        delay: microseconds by which it is behind the greatest time.
        late: the policy for late rows: "apply", "refuse" or "dead letters".
        idle_after: microseconds without rows after which it goes on with the clock; None: it does
            not.
        at: its value in microseconds since 1970; None before the first row.
        greatest: the greatest time so far, in the same unit; None before the first row.
        seen: when the last row came, in the same unit; None if idleness does not matter.
        late_rows: how many late rows there were, of changed and deleted ones too.
        by: the name of the column that tells its parts apart; None if it has none.
    """

    table: str
    column: str
    delay: int
    late: str
    idle_after: int | None = None
    at: int | None = None
    greatest: int | None = None
    seen: int | None = None
    late_rows: int = 0
    by: str | None = None

    def position(self, info: TableInfo) -> int | None:
        """The position of the column in its table; None if another program has altered that."""
        at = info.position(self.column)
        return at if at is not None and info.schema[at][1].sql in TIMED else None

    @property
    def row(self) -> ZSet:
        """Its row of `_ivm.watermarks`."""
        table, column, late, by = map(_text, (self.table, self.column, self.late, self.by))
        declared = table, column, _constant(self.delay), late, _constant(self.idle_after)
        reached = map(_number, (self.at, self.greatest, self.seen, self.late_rows))
        return ZSet((*declared, *reached, by), ones(1))

    def after(
        self, added: int | None, late: int, now: Callable[[], int], slowest: int | None = None
    ) -> Watermark:
        """The watermark after an epoch.

        Args:
            added: the greatest time of its rows; None if it has none.
            late: how many of its rows were late.
            now: gives the microseconds since 1970.
            slowest: the time that the slowest part has come to; None without parts.
        """
        at, greatest, seen = self.at, self.greatest, self.seen
        if added is not None and self.idle_after is not None:
            seen = now()
        if added is not None and (greatest is None or added > greatest):
            greatest = added
        reached = greatest if self.by is None else slowest
        if added is not None and reached is not None:
            at = max(reached - self.delay, _FIRST if at is None else at)
        if (at, greatest, seen, late) == (self.at, self.greatest, self.seen, 0):
            return self
        return replace(self, at=at, greatest=greatest, seen=seen, late_rows=self.late_rows + late)

    def idle(self, now: int, since: int, slowest: int | None = None) -> Watermark:
        """The watermark at a time, to which no row has come since it was seen.

        It goes on with the clock from the moment that all its parts are idle.

        Args:
            now: the microseconds since 1970.
            since: the time from which rows could come, in the same unit.
            slowest: the time that the slowest part which is not idle has come to.
        """
        greatest, seen = self.greatest, self.seen
        if self.idle_after is None or seen is None or greatest is None:
            return self
        if slowest is None:
            slowest = greatest + now - max(seen, since) - self.idle_after
        at = min(slowest - self.delay, _LAST)
        if self.at is not None and at <= self.at:
            return self
        return replace(self, at=at)


def _number(value: int | None) -> FixedColumn:
    if value is None:
        return FixedColumn(np.zeros(1, np.int64), np.zeros(1, np.bool_))
    return FixedColumn(np.array([value], np.int64))


_MARKS = 1024
"""Watermarks of which what is declared is kept: one object, which a record of a move has once."""
_constant = functools.lru_cache(maxsize=_MARKS)(_number)


@functools.lru_cache(maxsize=_MARKS)
def _text(text: str | None) -> Column:
    """A text as a number of the dictionary, which is compared and recorded without Arrow."""
    array = pa.array([text], pa.large_string())
    codes = dictionary.encode(array, force=True)
    return ArrowColumn(array) if codes is None else DictionaryColumn(codes)


def read(stored: ZSet) -> dict[str, Watermark]:
    """The watermarks of rows, by table."""
    found = {}
    for i in range(len(stored)):
        mark = Watermark(*[column.cell(i) for column in stored.columns])
        found[mark.table] = mark
    return found


def replacement(
    old: Watermark | None, new: Watermark | None, columns: Sequence[int] = _ALL
) -> TableChange:
    """The change of `_ivm.watermarks` that puts one in the place of another; None is no row.

    Args:
        old: the one that goes.
        new: the one that comes.
        columns: what must be known of the one that goes, the first column among them.
    """
    before, after = [empty(_TYPES) if mark is None else mark.row for mark in (old, new)]
    return TableChange(WATERMARKS, before.project(columns), tuple(columns), after)
