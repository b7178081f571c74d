"""A watermark, and its row of `_ivm.watermarks`.

Law: `read(mark.row)` is the watermark.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ivm.sql.statements.own.watermark_calls import WATERMARKS
from ivm.storage.log.change import TableChange
from ivm.storage.values.column import ArrowColumn, Column, FixedColumn
from ivm.storage.values.types import type_of
from ivm.storage.values.zset import ZSet, empty, ones

_TYPES = tuple(
    [
        type_of(sql)
        for sql in (
            *("VARCHAR", "VARCHAR", "BIGINT", "VARCHAR"),
            *("TIMESTAMP", "TIMESTAMP", "BIGINT"),
        )
    ]
)
_FIRST = -9_223_372_022_400_000_000
"""The first time that a TIMESTAMP can have, in microseconds since 1970."""


@dataclass(frozen=True)
class Watermark:
    """The watermark of one table.

    Attributes:
        table: canonical name.
        column: the name of the column that tells a row's time.
        delay: microseconds by which it is behind the greatest time.
        late: the policy for late rows: "apply" or "refuse".
        at: its value in microseconds since 1970; None before the first row.
        greatest: the greatest time so far, in the same unit; None before the first row.
        late_rows: how many late rows there were, of changed and deleted ones too.
    """

    table: str
    column: str
    delay: int
    late: str
    at: int | None
    greatest: int | None
    late_rows: int
    _row: list[ZSet] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def row(self) -> ZSet:
        """Its row of `_ivm.watermarks`."""
        if not self._row:
            texts = [_text(text) for text in (self.table, self.column, self.late)]
            self._row.append(self._with(texts[0], texts[1], _number(self.delay), texts[2]))
        return self._row[0]

    def _with(self, *fixed: Column) -> ZSet:
        numbers = [_number(n) for n in (self.at, self.greatest, self.late_rows)]
        return ZSet((*fixed, *numbers), ones(1))

    def moved(self, at: int | None, greatest: int | None, late_rows: int) -> Watermark:
        """The same further on; what stays of its row is shared, so that a record has it once."""
        told = self.table, self.column, self.delay, self.late
        new = Watermark(*told, at, greatest, late_rows)
        new._row.append(new._with(*self.row.columns[:4]))
        return new

    def after(self, added: int | None, late: int) -> Watermark:
        """The watermark after an epoch.

        Args:
            added: the greatest time of its rows; None if it has none.
            late: how many of its rows were late.
        """
        if added is None or (self.greatest is not None and added <= self.greatest):
            return self.moved(self.at, self.greatest, self.late_rows + late) if late else self
        at = max(added - self.delay, _FIRST if self.at is None else self.at)
        return self.moved(at, added, self.late_rows + late)


def _number(value: int | None) -> FixedColumn:
    if value is None:
        return FixedColumn(np.zeros(1, np.int64), np.zeros(1, np.bool_))
    return FixedColumn(np.array([value], np.int64))


def _text(text: str) -> ArrowColumn:
    return ArrowColumn(pa.array([text], pa.large_string()))


def read(stored: ZSet) -> dict[str, Watermark]:
    """The watermarks of rows, by table."""
    found = {}
    for i in range(len(stored)):
        mark = Watermark(*[column.cell(i) for column in stored.columns])
        found[mark.table] = mark
    return found


def replacement(old: Watermark | None, new: Watermark | None) -> TableChange:
    """The change of `_ivm.watermarks` that puts one in the place of another; None is no row."""
    before, after = [empty(_TYPES) if mark is None else mark.row for mark in (old, new)]
    return TableChange(WATERMARKS, before, tuple(range(len(_TYPES))), after)
