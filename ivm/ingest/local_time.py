"""The time of day, told in a session's time zone without a DuckDB statement.

Law: an instant, and what DuckDB casts it to in the session's TimeZone. Zones change their distance
from UTC at whole quarters of an hour of UTC, so a distance that DuckDB has told holds for a
quarter, unless the session sets another zone meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from sqlglot import exp

from ivm.sql.plan.built_in import call_name
from ivm.sql.resolve.clock import TELLERS
from ivm.storage.values.column import Column, FixedColumn
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duckdb.duck import Cursor, rows

_QUARTER = 15 * 60 * 1_000_000  # microseconds
_DAY = 96 * _QUARTER
_CASTS = frozenset(
    [
        *(("now", type) for type in ("TIMESTAMP WITH TIME ZONE", "TIMESTAMP", "DATE")),
        *(("local", type) for type in ("TIMESTAMP", "DATE")),
        ("today", "DATE"),
    ]
)
"""Columns of the clock, and the types to which their casts are known."""


class LocalTime:
    """Tells the time for one session.

    Args:
        cursor: the session's.
    """

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._quarter: int | None = None
        self._distance = 0

    def forget(self) -> None:
        """The session may have another zone."""
        self._quarter = None

    def now(self, types: Sequence[ColumnType], count: int) -> list[Column]:
        """Columns of one time, now: TIMESTAMPTZ, or the zone's TIMESTAMP or DATE of it.

        Args:
            types: of the columns.
            count: of their rows, which are alike.
        """
        instant = time.time_ns() // 1000
        values = [self._value(instant, type.sql) for type in types]
        return [
            FixedColumn(np.full(count, value, type.dtype))
            for value, type in zip(values, types, strict=True)
        ]

    def _value(self, instant: int, type: str) -> int:
        if type == "TIMESTAMP WITH TIME ZONE":
            return instant
        local = instant + self._from_utc(instant)
        return local // _DAY if type == "DATE" else local

    def _from_utc(self, instant: int) -> int:
        """The zone's distance from UTC, in microseconds."""
        quarter = instant // _QUARTER
        if quarter != self._quarter:
            begin = quarter * _QUARTER
            there = f"CAST(system.main.make_timestamptz({begin}) AS TIMESTAMP)"
            found = rows(self._cursor, f"SELECT system.main.epoch_us({there})")
            self._distance, self._quarter = found[0][0] - begin, quarter
        return self._distance


def is_now(tree: exp.Expr, type: ColumnType) -> bool:
    """Returns whether an expression is the time, cast to a type in which `now` tells it.

    Args:
        tree: the cast; it calls no macro of the user's.
        type: of the cast.
    """
    inner = tree.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    return isinstance(inner, exp.Func) and tells_now(call_name(inner), type)


def tells_now(function: str, type: ColumnType) -> bool:
    """Returns whether a function without arguments, cast to a type, is what `now` tells."""
    told = TELLERS.get(function)
    return told is not None and told.type is None and (told.column, type.sql) in _CASTS
