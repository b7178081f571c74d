"""The time of day, told in a session's time zone without a DuckDB statement.

Law: an instant, and what DuckDB casts it to in the session's TimeZone. Zones change their distance
from UTC at whole quarters of an hour of UTC, so a distance that DuckDB has told holds for a
quarter, unless the session sets another zone meanwhile.
"""

from __future__ import annotations

import time

import numpy as np
from sqlglot import exp

from ivm.sql.plan.built_in import call_name
from ivm.sql.resolve.clock import TELLERS
from ivm.storage.values.column import Column, FixedColumn
from ivm.storage.values.types import ColumnType
from ivm.storage.warehouse.duck import Cursor, rows

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

    def now(self, type: ColumnType) -> Column:
        """One row: now, as a TIMESTAMPTZ, or the zone's TIMESTAMP or DATE of it."""
        instant = time.time_ns() // 1000
        if type.sql != "TIMESTAMP WITH TIME ZONE":
            instant += self._from_utc(instant)
        assert type.dtype is not None
        return FixedColumn(
            np.array([instant // _DAY if type.sql == "DATE" else instant], type.dtype)
        )

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
    told = TELLERS.get(call_name(inner)) if isinstance(inner, exp.Func) else None
    return told is not None and told.type is None and (told.column, type.sql) in _CASTS
